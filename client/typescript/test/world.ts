/** A task and servers that live in this process, behind `fetch`: honest ones, and ones that do what a test says. */

import { createHash, generateKeyPairSync, sign, type KeyObject } from "node:crypto";
import { base64url, bigEndian, concat, framed, hash, parseBase64url, utf8 } from "../src/bytes.js";
import { canonical, canonicalBytes, type Json } from "../src/json.js";
import { mediaType, USUAL_RETRIES } from "../src/channel.js";
import { Client } from "../src/client.js";
import { Ledger, type Store } from "../src/ledger.js";
import type { Policy } from "../src/policy.js";
import { memoryStore } from "../src/stores/memory.js";
import { webSuite } from "../src/suites/web.js";
import type { Definition } from "../src/task.js";

/** Whether every byte and step is tried, as `npm test` does; else a sample is, as `make test` does. */
export const isWhole = process.env.LINTRA_WHOLE === "1";

/** The places of an answer whose byte is changed. */
export const places = (length: number): number[] => [...Array(length).keys()].filter((place) => isWhole || place % 16 === 0);

export const NOW = 12 * 3600;
const HOSTS = ["https://0.test", "https://1.test", "https://2.test"];

interface Identity {
  privateKey: KeyObject;
  publicKey: string;
}

const raw = (key: KeyObject): string => base64url(new Uint8Array(key.export({ format: "der", type: "spki" }).subarray(-32)));

function identity(): Identity {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  return { privateKey, publicKey: raw(publicKey) };
}

export const signedBy = ({ privateKey }: Identity, message: Json): Json => {
  const label = (message as { kind: string }).kind;
  const signature = sign(null, framed(label, canonicalBytes(message)), privateKey);
  return { message, signature: base64url(new Uint8Array(signature)) };
};

export const definitionOf = (servers: Identity[], changes: Partial<Record<keyof Definition, unknown>> = {}): Definition => ({
  version: "lintra/1", salt: base64url(new Uint8Array(32)), purpose: "a test", author_key: identity().publicKey,
  servers: servers.map(({ publicKey }, j) => ({ url: HOSTS[j], identity_key: publicKey })),
  analyzer: { identity_key: identity().publicKey, sealing_key: raw(generateKeyPairSync("x25519").publicKey) },
  columns: ["a", "b"].map((name) => ({ name, lower: "-1", upper: "1", center: "0", scale: "1", unit: "" })),
  mechanism: { kind: "sum", row_bound: "1", fraction_bits: 4, sigma: 100, floor: 60 }, noise: "both",
  claim: {
    epsilon: "1", epsilon_alone: "3", delta: "0.000001", neighbours: "replace-one", min_clients: 4, max_corrupt_clients: 0, threat: "static",
    delta_coalition: "0",
  },
  max_clients: 100, max_missing: "0.05", batches: "single", time_precision: 3600, not_before: 10, not_after: 20,
  share_form: "seeded", suite: "x25519", client_auth: "none", token_keys: [], retention: 0, extensions: [], ...changes,
}) as unknown as Definition;

/** What a server answered: a status and a body, of a message's kind. */
export interface Answer {
  name: string;
  body: Uint8Array;
  status?: number;
}

/** Changes an answer of a server; an error is what a lost connection throws. */
export type Meddler = (server: number, path: string, answer: Answer) => Answer;

export class World {
  readonly identities = HOSTS.map(identity);
  readonly analyzer = identity();
  readonly definition: Definition;
  readonly taskId: string;
  /** By server: the reports that it stored, and how often each came. */
  readonly stored = HOSTS.map(() => new Map<string, number>());
  readonly requests: { server: number; path: string; body: Uint8Array }[] = [];
  meddle: Meddler = (_server, _path, answer) => answer;
  private keys = HOSTS.map(() => generateKeyPairSync("x25519"));
  private keyIds = HOSTS.map((_, j) => bigEndian(j, 8));

  constructor(changes: Partial<Record<keyof Definition, unknown>> = {}) {
    this.definition = JSON.parse(JSON.stringify(definitionOf(this.identities, changes))); // without what is undefined
    this.taskId = base64url(hash("task", canonicalBytes(this.definition as unknown as Json)));
    globalThis.fetch = ((url: string, init: RequestInit) => this.fetch(url, init)) as typeof fetch;
  }

  open(store: Store | null = memoryStore(), policy: Policy = {}, changes: { retries?: object; token?: string; strict?: boolean } = {}): Promise<Client> {
    const ledger = store && new Ledger(store, 100);
    const retries = { ...USUAL_RETRIES, attempts: 1, ...changes.retries };
    return Client.open(this.taskId, HOSTS, { suite: webSuite, now: () => NOW, ledger, policy, ...changes, retries });
  }

  /** Give a server a new key; what was sealed to the one before is outdated. */
  renew(server: number): void {
    this.keys[server] = generateKeyPairSync("x25519");
    this.keyIds[server] = bigEndian(100 + server, 8);
  }

  private async fetch(url: string, init: RequestInit): Promise<Response> {
    const server = HOSTS.findIndex((host) => url.startsWith(host));
    const path = url.slice(HOSTS[server].length);
    const body = new Uint8Array((init.body as Uint8Array<ArrayBuffer>) ?? []);
    this.requests.push({ server, path, body });
    const { name, body: answer, status } = this.meddle(server, path, this.answer(server, path, body));
    const type = status && status >= 400 ? "application/problem+json" : mediaType(name);
    return new Response(Uint8Array.from(answer), { status: status ?? 200, headers: { "content-type": type } });
  }

  private answer(server: number, path: string, body: Uint8Array): Answer {
    if (path === "/v1/keys") return { name: "keys", body: canonicalBytes(this.keyList(server)) };
    if (path.endsWith("/reports")) return this.upload(server, body);
    if (path.includes("/inclusion/")) return this.proof(server, path.slice(path.lastIndexOf("/") + 1));
    const record: Json = { kind: "task", definition: this.definition as unknown as Json };
    return { name: "task", body: canonicalBytes(signedBy(this.identities[server], record)) };
  }

  keyList(server: number): Json {
    const public_key = raw(this.keys[server].publicKey);
    const entry = { key_id: base64url(this.keyIds[server]), suite: "x25519", public_key, valid_from: 0, valid_until: 10 ** 9 };
    return signedBy(this.identities[server], {
      kind: "keys", identity_key: this.identities[server].publicKey, keys: [entry],
    });
  }

  private upload(server: number, body: Uint8Array): Answer {
    const [keyId, start, named] = [body.slice(4, 12), body.slice(12, 47), body.slice(47, 47 + 8 + 32 * HOSTS.length)];
    const header = concat(start, named.slice(0, 8), Uint8Array.of(HOSTS.length), named.slice(8), new Uint8Array(2));
    const id = hash("report", header);
    const isKnown = this.stored[server].has(base64url(id));
    const isOutdated = !isKnown && base64url(keyId) !== base64url(this.keyIds[server]);
    if (!isOutdated) this.stored[server].set(base64url(id), (this.stored[server].get(base64url(id)) ?? 0) + 1);
    const failure = { report_id: base64url(id), type: "urn:lintra:problem:outdated_key", detail: "", retryable: true };
    const failures: Json = isOutdated ? [failure] : [];
    return { name: "upload-answer", body: canonicalBytes({ failures, receipt: this.receipt(server, isOutdated ? [] : [id]) }) };
  }

  /** Whether a report is in the only leaf of a list of all reports that the server stored. */
  private proof(server: number, reportId: string): Answer {
    const ids = [...this.stored[server].keys()].map((id) => parseBase64url(id)).sort((a, b) => Buffer.compare(a, b));
    const leaf_ids = concat(...ids);
    const list = { root: base64url(hash("merkle leaf", bigEndian(0, 8), leaf_ids)), count: ids.length };
    const leaf = { leaf: 0, leaf_ids: base64url(leaf_ids), siblings: [] };
    if (this.stored[server].has(reportId)) return { name: "inclusion", body: canonicalBytes({ kind: "inclusion", ...list, ...leaf }) };
    return { name: "absence", body: canonicalBytes({ kind: "absence", ...list, leaves: [leaf] }) };
  }

  receipt(server: number, ids: Uint8Array[]): Json {
    const reports = base64url(hash("receipt reports", ...ids));
    const message: Json = { kind: "receipt", task_id: this.taskId, server, count: ids.length, reports };
    return signedBy(this.identities[server], message);
  }
}

/** The token that some work is refused with; the text of anything else that it throws, and "none" if it does not. */
export async function tokenOf(work: () => Promise<unknown>): Promise<string> {
  try {
    await work();
    return "none";
  } catch (error) {
    return (error as { token?: string }).token ?? `crash: ${error}`;
  }
}

export const random = (label: string): Uint8Array => new Uint8Array(createHash("sha256").update(label).digest());
export { canonical, parseBase64url, utf8 };
