/** For React Native, and other machines without WebCrypto's curves: the same client over libraries in JavaScript. */

import { Client as Core, type Options as CoreOptions, type Servers } from "./client.js";
import { pureSuite } from "./suites/pure.js";

export { LintraError } from "./errors.js";
export { Ledger, type Entry, type Store } from "./ledger.js";
export { pureSuite };

/** There is no IndexedDB here: give a ledger over a store of three functions, or null. */
export type Options = Omit<CoreOptions, "suite">;

const open = (taskId: string, servers: Servers, options: Options): Promise<Core> =>
  Core.open(taskId, servers, { ...options, suite: pureSuite });

export const Client = { open };
export type Client = Core;
