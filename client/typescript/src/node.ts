/** For Node 20 and newer: a ledger in a folder. */

import { Ledger } from "./ledger.js";
import { fileStore } from "./stores/node.js";

export { fileStore };

/** A ledger whose files lie in a folder on a local disk. */
export const fileLedger = async (folder: string, ...ceilings: [maxEpsilon?: number, delta?: number, maxEpsilonAlone?: number]): Promise<Ledger> =>
  new Ledger(await fileStore(folder), ...ceilings);
