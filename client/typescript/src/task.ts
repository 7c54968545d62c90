/** The one document that every party holds; whoever reads it checks it, and computes its promise anew. */

import { base64url, hash, parseBase64url, type RandomBytes } from "./bytes.js";
import { refuse, refusingAs } from "./errors.js";
import { type Json, canonicalBytes, parseCanonical } from "./json.js";
import { Measurement, type Setting } from "./measurement.js";
import { fittingColumns, histogram } from "./mechanisms/histogram.js";
import type { Document, Kind } from "./mechanisms/kind.js";
import { osnap } from "./mechanisms/osnap.js";
import { secondMoment } from "./mechanisms/second_moment.js";
import { sum } from "./mechanisms/sum.js";
import { type Claim, type ClaimDocument, type SharesSeen, claimAlone, claimBeside, claimOf, claimShape, sharesSeen } from "./privacy/claim.js";
import { type Statement, epsilonAt, repeated, requireClaim } from "./privacy/statement.js";
import { compare, parseReal, rational, toNumber } from "./rational.js";
import { type Column, column, encodedNames, isOutside, normalise, readRow, type Row } from "./schema.js";
import { integer, key, list, object, oneOf, optional, printable, realThat, ruled, text, type Shape } from "./shapes.js";
import type { ShareForm } from "./sharing.js";
import { parsePublicKey } from "./signing.js";
import { PUBLIC_KEY_BYTES, type SuiteName } from "./suites/suite.js";
import { Sizes, isTooLong, noisedBound } from "./verified.js";

export interface Windows {
  window: number;
  grace: number;
  max_windows: number;
  reports_per_source: number;
  max_merge?: number;
}

/** The definition, field by field as docs/reference/protocol.md#task has it. */
export interface Definition {
  salt: string;
  purpose: string;
  author_key: string;
  servers: { url: string; identity_key: string }[];
  analyzer: { identity_key: string; sealing_key: string };
  columns: Column[];
  mechanism: Document;
  contributors?: Json;
  claim: ClaimDocument;
  max_clients: number;
  max_missing: string;
  batches: "single" | "windowed";
  windows?: Windows;
  time_precision: number;
  not_before: number;
  not_after: number;
  share_form: ShareForm;
  suite: SuiteName;
  client_auth: "none" | "token" | "mtls";
  token_keys: string[];
  verification?: "norm";
  max_rejected?: string;
  noise?: "servers" | "both";
  retention: number;
  study?: Json;
  extensions: string[];
}

const KINDS: Record<string, Kind<never>> = { histogram, osnap, second_moment: secondMoment, sum };

/** Kinds that the protocol has and this client does not; a task of one is for another client. */
const OTHER_KINDS = /^(newton_step|osnap_published|range_finder|ron_gauss.*|.*_(wishart|laplace))$/;

const MAX_WORDS = 2 ** 20;
const MOST_MAX_MISSING = rational(9n, 10n);
/** How many times epsilon a client's own noise may leave of which nothing is promised alone. */
export const ALONE = 3;

const url = text(/^https?:\/\/[!"$->@-~]{1,250}[!"$-.0->@-~]$/, "a URL");
const part = realThat((value) => value.n >= 0n && compare(value, rational(1n)) < 0, "expected a part below 1");
const anything: Shape = () => undefined;

const mechanism: Shape = (value, place) => {
  const kind = (value as { kind?: Json } | null)?.kind;
  if (typeof kind !== "string") refuse("invalid_message", `${place}: expected a mechanism`);
  if (OTHER_KINDS.test(kind)) refuse("unsupported_feature", `this client takes no part in ${kind}`);
  const known = Object.keys(KINDS).includes(kind) ? KINDS[kind] : refuse("invalid_message", `${place}: unknown kind`);
  const shape = object({ kind: oneOf(kind), ...known.fields });
  (kind === "histogram" ? fittingColumns(shape) : shape)(value, place);
};

const windows = ruled<Windows>(
  object({
    window: integer(1, 2 ** 31 - 1), grace: integer(0, 2 ** 31 - 1), max_windows: integer(1, 2 ** 20),
    reports_per_source: integer(1, 2 ** 20), max_merge: optional(integer(1, 16), 1),
  }),
  (held) => held.reports_per_source <= held.max_windows && (held.max_merge ?? 1) <= held.max_windows,
  "there are fewer windows",
);

export const definitionShape = ruled<Definition>(
  object({
    version: oneOf("lintra/1"), salt: key, purpose: printable(1, 2000), author_key: key,
    servers: list(object({ url, identity_key: key }), 2, 16), analyzer: object({ identity_key: key, sealing_key: key }),
    columns: list(column, 1, MAX_WORDS), mechanism, contributors: optional(anything), claim: claimShape,
    max_clients: integer(2, 2 ** 32), max_missing: part, batches: oneOf("single", "windowed"), windows: optional(windows),
    time_precision: integer(1, 31_536_000), not_before: integer(0), not_after: integer(1),
    share_form: oneOf("uniform", "seeded", "spread"), suite: oneOf("mlkem768-x25519", "x25519"),
    client_auth: oneOf("none", "token", "mtls"), token_keys: list(key, 0, 16),
    verification: optional(oneOf("norm"), "none"), max_rejected: optional(part),
    noise: optional(oneOf("servers", "both"), "clients"), retention: integer(0, 2 ** 31 - 1), study: optional(anything),
    extensions: list(text(/^[^]*$/, "a text")),
  }),
  (task) => {
    const distinct = (values: string[]) => new Set(values).size === values.length;
    const last = task.not_before + (task.windows ? task.windows.window * task.windows.max_windows : 0);
    return (
      distinct(task.servers.map((server) => server.identity_key)) && distinct(task.columns.map(({ name }) => name)) &&
      task.max_clients >= task.claim.min_clients && task.not_before < task.not_after &&
      (task.windows === undefined) === (task.batches === "single") && (!task.windows || last === task.not_after) &&
      (task.max_rejected === undefined) === (task.verification === undefined)
    );
  },
  "its fields do not fit together",
);

/** A row that was encoded. */
export interface EncodedRow {
  words: bigint[];
  /** Whether a bound of a column or of the norm moved the row. */
  clipped: boolean;
  /** Whether a value was missing. */
  incomplete: boolean;
}

export class Task {
  readonly idBytes: Uint8Array;
  readonly id: string;
  readonly claim: Claim;
  readonly #wholeLevels: boolean;

  /** Take a definition whose shape was checked. */
  constructor(readonly definition: Definition) {
    this.idBytes = hash("task", canonicalBytes(definition as unknown as Json));
    this.id = base64url(this.idBytes);
    this.claim = claimOf(definition.claim);
    this.#wholeLevels = KINDS[definition.mechanism.kind].allows.levels ?? false;
  }

  static parse(bytes: Uint8Array): Task {
    const value = parseCanonical(bytes);
    definitionShape(value, "task");
    return new Task(value as unknown as Definition);
  }

  /** The mechanism in this task's setting. */
  get measurement(): Measurement {
    const { mechanism: document, columns, servers: { length }, noise } = this.definition;
    return this.#once("measurement", () => {
      const servers = (who: string) => (noise === who ? length : 0);
      const setting: Setting = { noisingServers: servers("servers"), floorServers: servers("both"), merges: this.#maxMerge > 1 };
      const width = encodedNames(columns, this.#wholeLevels).length;
      const made = new Measurement(KINDS[document.kind] as Kind<Document>, document, width, setting);
      return made.numWords > MAX_WORDS ? refuse("invalid_task", "a report is too long") : made;
    });
  }

  /** The sizes of reports that prove how long their rows are; nothing without proofs. */
  get verified(): Sizes | undefined {
    const { verification, servers } = this.definition;
    if (!verification) return undefined;
    return this.#once("verified", () => {
      const { squaredLength, numWords } = this.measurement;
      const variances = this.#isByServers ? [0n] : this.measurement.sigmas().map((sigma) => BigInt(sigma) ** 2n);
      const sizes = new Sizes(numWords, servers.length, noisedBound(squaredLength, variances));
      if (!sizes.isValid) refuse("invalid_task", "a report is too long");
      return sizes;
    });
  }

  get #seen(): SharesSeen | undefined {
    const { verified, definition } = this;
    if (!verified) return undefined;
    const { padded, squaredBound, wordBits } = verified;
    return sharesSeen(padded, squaredBound, wordBits, definition.max_clients, this.#isByServers);
  }

  get #isByServers(): boolean {
    return this.definition.noise === "servers";
  }

  readonly #kept = new Map<string, unknown>();

  /** Compute something at first use. */
  #once<T>(name: string, compute: () => T): T {
    if (!this.#kept.has(name)) this.#kept.set(name, compute());
    return this.#kept.get(name) as T;
  }

  // --- the row -----------------------------------------------------------------------------------------------------

  /** Encode a row and add its noise; one in 2^80 verified rows gets too long, and all its noise anew. */
  encode(row: Row, random: RandomBytes): EncodedRow {
    const values = readRow(this.definition.columns, row);
    const incomplete = values.some(Number.isNaN);
    const outside = isOutside(this.definition.columns, values);
    const { measurement, verified } = this;
    const normalised = normalise(this.definition.columns, values, this.#wholeLevels);
    const draw = () => measurement.noised(measurement.exact(normalised, outside, random), random);
    let words = draw();
    while (verified && isTooLong(words, verified)) words = draw();
    const isLeftOut = incomplete && (measurement.kind.leavesOut?.(measurement.document) ?? false);
    return { words, incomplete, clipped: !isLeftOut && (outside || measurement.isClipped(normalised)) };
  }

  /** The number of the batch that a report of a time, in the task's units, belongs to. */
  batchOf(time: number): number {
    const { windows: held, not_before: begins } = this.definition;
    return held ? Math.floor((time - begins) / held.window) : 0;
  }

  /** The first unit of time after a batch. */
  endOf(batch: number): number {
    const { windows: held, not_before, not_after } = this.definition;
    return held ? not_before + (batch + 1) * held.window : not_after;
  }

  get reportsPerSource(): number {
    return this.definition.windows?.reports_per_source ?? 1;
  }

  get #maxMerge(): number {
    return this.definition.windows?.max_merge ?? 1;
  }

  // --- privacy -----------------------------------------------------------------------------------------------------

  /** What the noise has to keep: the claim, or a little more where reports are verified. */
  get #noiseClaim(): Claim {
    return this.#seen ? claimBeside(this.#seen, this.claim) : this.claim;
  }

  /** The privacy of the worst release that the servers let pass. */
  worstPrivacy(): Statement {
    const seen = this.#seen;
    const ofNoise = this.measurement.worstPrivacy(this.#noiseClaim);
    if (!seen) return ofNoise;
    const corrupt = this.#isByServers ? ofNoise.corrupt : this.claim.corrupt;
    return { ...this.#beside(seen, ofNoise, toNumber(seen.twice)), corrupt };
  }

  /** The same beside shares of verified reports; of which so much more may fail. */
  #beside(seen: SharesSeen, statement: Statement, twice: number): Statement {
    return {
      ...statement, delta: toNumber(this.claim.delta), shift: toNumber(seen.shifted) * (1 + 1e-15),
      failure: Math.min(1, statement.failure + twice * (1 + 1e-15)),
    };
  }

  /** The privacy of one release if all other clients are invented or corrupt; nobody's share is given away there. */
  get #alonePrivacy(): Statement | undefined {
    return this.#once("alone", () => {
      if (this.#isByServers) return this.worstPrivacy();
      const alone = this.measurement.alone(this.claim, claimAlone(this.claim, this.definition.claim));
      return this.#seen && alone ? this.#beside(this.#seen, alone, 0) : alone;
    });
  }

  /**
   * The same of so many reports of a source, if it is promised, or at most `ALONE` times epsilon all the same. Else it
   * rests on who enrols whom.
   */
  boundAlone(reports = this.reportsPerSource): Statement | undefined {
    const [alone, claim] = [this.#alonePrivacy, this.claim];
    const isPromised =
      this.definition.claim.epsilon_alone !== undefined || this.#isByServers || claim.corrupt >= claim.minClients - 1;
    if (!alone || (!isPromised && epsilonAt(alone) > ALONE * claim.epsilon)) return undefined;
    return repeated(alone, reports, this.#maxMerge);
  }

  /** The same of everything that one source may send. */
  worstTogether(): Statement {
    return repeated(this.worstPrivacy(), this.reportsPerSource, this.#maxMerge);
  }

  /** What one report of a source costs it. */
  worstCharge(): Statement {
    return repeated(this.worstPrivacy(), 1, this.#maxMerge);
  }

  // --- the check ---------------------------------------------------------------------------------------------------

  /** Refuse everything that needs no other party: features, keys, sizes, headroom, and a promise that does not hold. */
  check(): void {
    const { definition, claim } = this;
    this.#checkFeatures();
    const names = encodedNames(definition.columns, this.#wholeLevels);
    if (new Set(names).size < names.length) refuse("invalid_task", "a column has an indicator's name");
    this.#checkTokens();
    this.#checkKeys();
    const { measurement } = this;
    measurement.check(this.#noiseClaim, definition.max_clients);
    measurement.kind.checkColumns?.(measurement.document, definition.columns);
    if (this.#maxMerge > 1 && !this.#isByServers && claim.corrupt % this.#maxMerge)
      refuse("invalid_task", "max_corrupt_clients is no multiple of max_merge");
    if ((definition.claim.epsilon_alone === undefined) !== (definition.noise !== "both"))
      refuse("invalid_task", "epsilon_alone: it belongs to noise of both");
    const alone = definition.noise === "both" ? this.#alonePrivacy : undefined;
    if (alone) requireClaim(alone, claimAlone(claim, definition.claim));
    if (definition.windows && epsilonAt(this.worstTogether()) === Infinity)
      refuse("invalid_task", "windows: nothing is left of delta");
  }

  #checkFeatures(): void {
    const { client_auth, extensions, contributors, study, share_form } = this.definition;
    const unsupported = (words: string): never => refuse("unsupported_feature", words);
    if (client_auth === "mtls") unsupported("client_auth: no mutual TLS");
    if (extensions.length) unsupported("extensions: there are none");
    if (contributors !== undefined) unsupported("contributors: this client sends single rows");
    if (study !== undefined) unsupported("study: this client takes no part in studies");
    if (share_form === "spread" && this.verified) unsupported("share_form: spread");
    if (this.#isByServers && !this.measurement.kind.allows.serverNoise)
      unsupported("noise: servers cannot add it");
    if (this.#isByServers && this.claim.deltaCoalition.n)
      refuse("invalid_task", "delta_coalition: not with noise of servers");
    if (this.definition.claim.neighbours === ("add-remove" as string))
      refuse("invalid_task", "neighbours: add-remove is for organisations");
  }

  #checkTokens(): void {
    const { token_keys, client_auth, servers, claim, max_missing } = this.definition;
    const isAdmitted = client_auth === "token";
    if (token_keys.length !== (isAdmitted ? servers.length : 0)) refuse("invalid_task", "token_keys: one for each server");
    const twice = rational(2n * BigInt(claim.max_corrupt_clients), BigInt(claim.min_clients));
    const least = compare(twice, MOST_MAX_MISSING) < 0 ? twice : MOST_MAX_MISSING;
    if (isAdmitted && compare(parseReal(max_missing), least) < 0)
      refuse("invalid_task", "max_missing: too small");
  }

  #checkKeys(): void {
    const { salt, author_key, analyzer, servers, token_keys, suite } = this.definition;
    const check = (place: string, work: () => unknown) => refusingAs("invalid_task", place, work);
    check("salt", () => parseBase64url(salt, 32));
    for (const [place, own] of [["author_key", author_key], ["analyzer", analyzer.identity_key]])
      check(place, () => parsePublicKey(own));
    check("analyzer.sealing_key", () => parseBase64url(analyzer.sealing_key, PUBLIC_KEY_BYTES[suite]));
    servers.forEach((server, j) => check(`servers.${j}.identity_key`, () => parsePublicKey(server.identity_key)));
    token_keys.forEach((own, j) => check(`token_keys.${j}`, () => parseBase64url(own, 32)));
  }
}

/** A delta at which promises are judged by default: a millionth, or one over the smallest cohort if that is less. */
export const usualDelta = (minClients: number) =>
  minClients > 10 ** 6 ? rational(1n, BigInt(minClients)) : rational(1n, 10n ** 6n);

