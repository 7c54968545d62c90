/** One task as one device sees it: open it, read its promise, send one row, ask later whether it was counted. */

import { base64url, parseBase64url, type RandomBytes } from "./bytes.js";
import { Channel, type Retries, USUAL_RETRIES } from "./channel.js";
import { Destination, parseId } from "./destination.js";
import { LintraError, refuse } from "./errors.js";
import { type Entry, Ledger, NOTHING } from "./ledger.js";
import { type Policy, agreedTask } from "./policy.js";
import { Promised } from "./promise.js";
import { type Counted, askCounted } from "./proofs.js";
import { makeReport } from "./report.js";
import { type Row, folded } from "./schema.js";
import type { Suite } from "./suites/suite.js";
import type { Task } from "./task.js";

export interface Options {
  policy?: Policy;
  /** Charged before a report leaves; null if the program keeps the books itself. */
  ledger: Ledger | null;
  suite: Suite;
  /** Admits one report, in a task that asks for tokens. */
  token?: string | undefined;
  /** Refuse rows with a missing value, too: to test a program. That a report does not come would say that one is missing. */
  strict?: boolean;
  retries?: Partial<Retries>;
  /** Seconds since the epoch. */
  now?: () => number;
  random?: RandomBytes;
}

/** Servers by the URL that the task has; or a mapping from that to where each is reached. */
export type Servers = readonly string[] | Readonly<Record<string, string>>;

export interface Sent {
  reportId: string;
  /** Whether a bound moved the row, and whether a value was missing; unknown of a report that was made before. */
  clipped?: boolean;
  incomplete?: boolean;
  /** Whether the source had a report already: that one was completed, and no other was made. */
  repeated: boolean;
  /** The servers' signed receipts, in the task's order. */
  receipts: string[];
}

export interface SendOptions {
  /** Whose facts the row states: a name, without regard to capitals and blanks around it. */
  source?: string;
  random?: RandomBytes;
}

const GIVEN_UP = "its report was given up: a server has another key now";

export function systemRandom(count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  for (let at = 0; at < count; at += 65536) globalThis.crypto.getRandomValues(bytes.subarray(at, Math.min(at + 65536, count)));
  return bytes;
}

export class Client {
  readonly #destinations: readonly Destination[];
  readonly #options: Options;
  readonly #now: () => number;

  private constructor(readonly task: Task, destinations: readonly Destination[], options: Options, now: () => number) {
    [this.#destinations, this.#options, this.#now] = [destinations, options, now];
  }

  /** Check a task before anything leaves: see docs/reference/client.md#what-is-checked-before-anything-leaves. */
  static async open(taskId: string, servers: Servers, options: Options): Promise<Client> {
    const random = options.random ?? systemRandom;
    random(1); // a machine without a generator is refused here, before a row is looked at
    parseId(taskId);
    const isList = Array.isArray(servers);
    const addresses = (isList ? servers.map((url: string) => [url, url]) : Object.entries(servers)) as [string, string][];
    const trimmed = addresses.map(([name, address]) => [name, address].map((url) => url.replace(/\/+$/, "")));
    if (trimmed.length < 2 || new Set(trimmed.map(([name]) => name)).size < trimmed.length)
      throw new RangeError("name each of the task's servers once, at least two");
    if (trimmed.flat().some((url) => !/^https?:\/\//.test(url))) throw new RangeError("a server's URL begins with https:// or http://");
    const retries = { ...USUAL_RETRIES, ...options.retries };
    const now = options.now ?? (() => Date.now() / 1000);
    await options.ledger?.expire(now());
    const channels = trimmed.map(([name, address]) => new Channel(name, address, retries));
    const bodies = await Promise.all(channels.map((channel) => channel.get(`/v1/tasks/${taskId}`, "task")));
    const names = channels.map(({ name }) => name);
    const { task, indices } = await agreedTask(options.suite, taskId, names, bodies, options.policy ?? {});
    const destinations = indices
      .map((index, place) => new Destination(options.suite, task, index, channels[place], now))
      .sort((a, b) => a.index - b.index);
    await Promise.all(destinations.map((destination) => destination.key()));
    return new Client(task, destinations, { ...options, random }, now);
  }

  /** What the task promises, computed here. */
  get promise(): Promised {
    return new Promised(this.task);
  }

  /**
   * Send one row. A source has one report in a batch: sent again, after a failure, a crash or a success, it is that
   * report which goes to the servers that lack it, whatever the row is now.
   */
  async send(row: Row, { source: name = "self", random }: SendOptions = {}): Promise<Sent> {
    const source = folded(name);
    if (!source || source.length > 200) throw new RangeError("a source's name has 1 to 200 characters");
    const time = this.#time();
    const batch = this.task.batchOf(time);
    const { ledger } = this.#options;
    const begin = async () => {
      const held = await ledger?.find(this.task, batch, source);
      return held ? { entry: held, made: undefined } : this.#make(row, time, batch, source, random ?? this.#options.random!);
    };
    const { entry, made } = await (ledger ? ledger.store.alone(begin) : begin());
    const receipts = await this.#deliver(entry, made?.reseal);
    const flags = made && { clipped: made.clipped, incomplete: made.incomplete };
    return { reportId: entry.report, ...flags, repeated: made === undefined, receipts };
  }

  /** Ask all servers for a proof whether a report was counted; `certificate` is that of the published release. */
  counted(reportId: string, { batch = 0, certificate }: { batch?: number; certificate?: string } = {}): Promise<Counted> {
    const channels = this.#destinations.map(({ channel }) => channel);
    return askCounted(this.#options.suite, this.task, channels, reportId, batch, certificate);
  }

  #time(): number {
    const { time_precision, not_before, not_after } = this.task.definition;
    const time = Math.floor(Math.floor(this.#now()) / time_precision);
    if (time < not_before) refuse("task_not_started", `it starts in about ${(not_before - time) * time_precision} s`);
    if (time >= not_after) refuse("task_ended", `it ended about ${(time - not_after) * time_precision} s ago`);
    return time;
  }

  /** Make, seal, charge and keep a report: on disk when this returns, and before a byte of it leaves. */
  async #make(row: Row, time: number, batch: number, source: string, random: RandomBytes) {
    const { ledger, token, strict } = this.#options;
    const spent = await ledger?.price(this.task, source);
    const { words, clipped, incomplete } = this.task.encode(row, random);
    if (strict && incomplete) refuse("invalid_row", "a value is missing, and this client is strict");
    const report = makeReport(this.task, words, time, random);
    // Seals have randomness of their own: that of a report may be a test's.
    const seal = async (each: Destination, stale?: Awaited<ReturnType<Destination["key"]>>) =>
      each.sealed(report, await each.key(stale), token, this.#options.random!);
    const keys = await Promise.all(this.#destinations.map((each) => each.key()));
    const sealed = await Promise.all(this.#destinations.map((each) => seal(each)));
    const { windows, time_precision } = this.task.definition;
    const entry: Entry = {
      task: this.task.id, batch, source, report: base64url(report.id), expires: 0, receipts: {},
      spent: spent ?? NOTHING,
      sealed: Object.fromEntries(sealed.map((body, j) => [j, body])),
    };
    entry.expires = (this.task.endOf(batch) + (windows?.grace ?? 1)) * time_precision;
    await ledger?.store.put(entry);
    return { entry, made: { clipped, incomplete, reseal: (each: Destination) => seal(each, keys[each.index]) } };
  }

  /** Bring a report to the servers that lack it; the first refusal in the task's order, once all were asked. */
  async #deliver(entry: Entry, reseal?: (destination: Destination) => Promise<Uint8Array>): Promise<string[]> {
    const outcomes = await Promise.allSettled(this.#destinations.map((each) => this.#deliverTo(each, entry, reseal)));
    return outcomes.map((outcome) => {
      if (outcome.status === "rejected") throw outcome.reason;
      return outcome.value;
    });
  }

  async #deliverTo(
    destination: Destination, entry: Entry, reseal?: (destination: Destination) => Promise<Uint8Array>,
  ): Promise<string> {
    const { index } = destination;
    const [known, body] = [entry.receipts[index], entry.sealed[index]];
    if (known !== undefined) return known;
    if (!body) refuse("ledger_refused", GIVEN_UP);
    let receipt: string;
    try {
      receipt = await destination.upload(parseBase64url(entry.report), body);
    } catch (error) {
      if (!(error instanceof LintraError) || error.token !== "outdated_key") throw error;
      const again = await reseal?.(destination);
      await this.#change(entry, (held) => ({ ...held, sealed: { ...held.sealed, [index]: again ?? null } }));
      if (!again) throw error;
      receipt = await destination.upload(parseBase64url(entry.report), again);
    }
    await this.#change(entry, ({ sealed, ...held }) => {
      const { [index]: _, ...left } = sealed;
      return { ...held, sealed: left, receipts: { ...held.receipts, [index]: receipt } };
    });
    return receipt;
  }

  async #change(entry: Entry, change: (entry: Entry) => Entry): Promise<void> {
    await this.#options.ledger?.change(entry, change);
  }
}
