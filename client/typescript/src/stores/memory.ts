/** A store that lasts as long as the program: for tests, and for programs that vouch for their own books. */

import type { Entry, Store } from "../ledger.js";

export function memoryStore(): Store {
  const entries = new Map<string, Entry>();
  let last: Promise<unknown> = Promise.resolve();
  return {
    alone(work) {
      const turn = last.then(work);
      last = turn.catch(() => undefined);
      return turn;
    },
    all: async () => [...entries.values()].map((entry) => structuredClone(entry)),
    put: async (entry) => void entries.set(JSON.stringify([entry.task, entry.batch, entry.source]), structuredClone(entry)),
  };
}
