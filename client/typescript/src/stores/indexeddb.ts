/** The store of a browser: one IndexedDB database, and a Web Lock so that tabs take turns. */

import { LintraError, refuse } from "../errors.js";
import type { Entry, Store } from "../ledger.js";

const TABLE = "entries";

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(request.error);
  });
}

/** Turn every trouble of the database into a refusal: in doubt nothing leaves. */
async function inWords<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof LintraError) throw error;
    return refuse("ledger_refused", `the ledger cannot be used: ${(error as Error | null)?.name ?? "unknown trouble"}`);
  }
}

export async function indexedDbStore(name = "lintra"): Promise<Store> {
  if (!globalThis.indexedDB || !globalThis.navigator?.locks)
    refuse("ledger_refused", "a ledger needs IndexedDB and Web Locks; ledger: null does without");
  const opening = globalThis.indexedDB.open(name, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE, { keyPath: ["task", "batch", "source"] });
  const db = await inWords(() => settled(opening));
  db.onversionchange = () => db.close();
  return {
    alone: (work) => globalThis.navigator.locks.request(`lintra:${name}`, work) as ReturnType<typeof work>,
    all: () => inWords(() => settled<Entry[]>(db.transaction(TABLE).objectStore(TABLE).getAll())),
    put: (entry) =>
      inWords(
        () =>
          new Promise<void>((done, failed) => {
            const transaction = db.transaction(TABLE, "readwrite", { durability: "strict" });
            transaction.oncomplete = () => done();
            transaction.onabort = transaction.onerror = () => failed(transaction.error);
            transaction.objectStore(TABLE).put(entry);
          }),
      ),
  };
}

/** Whether the browser may delete the ledger: it is asked to keep it, and says what it does. */
export async function storageKind(): Promise<"persistent" | "evictable" | "none"> {
  const storage = globalThis.navigator?.storage;
  if (!storage?.persist) return "none";
  return (await storage.persist().catch(() => false)) ? "persistent" : "evictable";
}
