/** Lintra's client for browsers and web views: `Client.open(taskId, servers)`, `client.send(row)`. */

import { Client as Core, type Options as CoreOptions, type Servers } from "./client.js";
import { refuse } from "./errors.js";
import { Ledger } from "./ledger.js";
import { indexedDbStore, storageKind } from "./stores/indexeddb.js";
import type { Suite } from "./suites/suite.js";
import { hasCurves, webSuite } from "./suites/web.js";

export type Options = Partial<CoreOptions>;
export { LintraError, type Token } from "./errors.js";
export { type Counted } from "./proofs.js";
export { Ledger, type Entry, type Store } from "./ledger.js";
export { memoryStore } from "./stores/memory.js";
export { indexedDbStore } from "./stores/indexeddb.js";
export type { Sent, SendOptions, Servers } from "./client.js";
export type { Policy } from "./policy.js";
export type { Row, Value } from "./schema.js";
export type { Texts } from "./texts.js";
export type { Suite } from "./suites/suite.js";

/** The version of the protocol that this client speaks. */
export const protocolVersion = "lintra/1";

/** WebCrypto where it has the curves; else a library, which is loaded only then. */
async function usualSuite(): Promise<Suite> {
  if (!globalThis.crypto?.getRandomValues) refuse("unavailable", "this machine has no generator of random numbers");
  return (await hasCurves()) ? webSuite : (await import("./suites/pure.js")).pureSuite;
}

/** Open a task: refused unless everything about it was checked. Without options the books are kept in IndexedDB. */
async function open(taskId: string, servers: Servers, options: Options = {}): Promise<Core> {
  const suite = options.suite ?? (await usualSuite());
  const ledger = options.ledger === undefined ? new Ledger(await indexedDbStore()) : options.ledger;
  return Core.open(taskId, servers, { ...options, suite, ledger });
}

export const Client = { open };
export type Client = Core;

export { storageKind };
