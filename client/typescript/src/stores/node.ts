/** The store of a Node program: a folder with one file for each entry, and a lock file. */

import { mkdir, open, readFile, readdir, rename, rm, stat } from "node:fs/promises";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { LintraError, refuse } from "../errors.js";
import type { Entry, Store } from "../ledger.js";

const BUSY_SECONDS = 30;

async function inWords<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof LintraError) throw error;
    return refuse("ledger_refused", `the ledger cannot be used: ${(error as NodeJS.ErrnoException).code ?? "damaged"}`);
  }
}

/** Bytes stand in JSON as base64. */
const write = (entry: Entry): string =>
  JSON.stringify(entry, (_, value) => (value instanceof Uint8Array ? { base64: Buffer.from(value).toString("base64") } : value));
const read = (text: string): Entry =>
  JSON.parse(text, (_, value) => (typeof value?.base64 === "string" ? new Uint8Array(Buffer.from(value.base64, "base64")) : value));

export async function fileStore(folder: string): Promise<Store> {
  await inWords(() => mkdir(folder, { recursive: true, mode: 0o700 }));
  const lock = join(folder, "lock");
  const nameOf = ({ task, batch, source }: Entry): string =>
    `${createHash("sha256").update(JSON.stringify([task, batch, source])).digest("hex")}.json`;

  async function durably(path: string, text: string): Promise<void> {
    const fresh = `${path}.${process.pid}.new`;
    const file = await open(fresh, "w", 0o600);
    await file.writeFile(text);
    await file.sync();
    await file.close();
    await rename(fresh, path);
    const holder = await open(folder, "r");
    await holder.sync();
    await holder.close();
  }

  return {
    alone: async (work) => {
      await acquire(lock);
      try {
        return await work();
      } finally {
        await rm(lock, { force: true });
      }
    },
    all: () =>
      inWords(async () => {
        const names = (await readdir(folder)).filter((name) => name.endsWith(".json"));
        return Promise.all(names.map(async (name) => read(await readFile(join(folder, name), "utf8"))));
      }),
    put: (entry) => inWords(() => durably(join(folder, nameOf(entry)), write(entry))),
  };
}

/** Take the lock file; that of a process that is gone is taken over. */
async function acquire(lock: string): Promise<void> {
  const begun = Date.now();
  for (;;) {
    try {
      const file = await open(lock, "wx", 0o600);
      await file.writeFile(String(process.pid));
      await file.close();
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") return refuse("ledger_refused", "the ledger cannot be locked");
    }
    if (await isAbandoned(lock)) await takeOver(lock);
    else if (Date.now() - begun > 1000 * BUSY_SECONDS) refuse("ledger_refused", "another program keeps the ledger locked");
    await new Promise((done) => setTimeout(done, 5 + 20 * Math.random()));
  }
}

/** Remove the lock of a process that is gone; one at a time, lest somebody's fresh lock be taken for the old one. */
async function takeOver(lock: string): Promise<void> {
  const guard = `${lock}.takeover`;
  try {
    await (await open(guard, "wx", 0o600)).close();
  } catch {
    return;
  }
  if (await isAbandoned(lock)) await rm(lock, { force: true });
  await rm(guard, { force: true });
}

async function isAbandoned(lock: string): Promise<boolean> {
  try {
    const owner = Number(await readFile(lock, "utf8"));
    if (!owner) return Date.now() - (await stat(lock)).mtimeMs > 1000;
    process.kill(owner, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}
