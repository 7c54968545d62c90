/** For tests of other programs, and of this one: reports from known randomness. Never for people's rows. */

import { type RandomBytes, readLittleEndian } from "./bytes.js";
import { makeReport } from "./report.js";
import { type Row, isOutside, normalise, readRow } from "./schema.js";
import { expandShare, parseWords } from "./sharing.js";
import { Task } from "./task.js";
import { WORD_BYTES, expandProven } from "./verified.js";

export { canonicalBytes } from "./json.js";
export { Task };
export { seal } from "./suites/suite.js";
export { webSuite } from "./suites/web.js";
export { makeReport, type Report } from "./report.js";
export { epsilonAt } from "./privacy/statement.js";

/** What becomes of a row: its exact words, their noise, what is sent, what each server has of it, and all of them together. */
export interface Explained {
  exact: bigint[];
  noise: bigint[];
  sent: bigint[];
  shares: bigint[][];
  together: bigint[];
}

const reader = (bytes: Uint8Array): RandomBytes => {
  let at = 0;
  return (count) => bytes.slice(at, (at += count));
};

/** Explain the report that was made of a row from these random bytes; not of a task whose shares are spread. */
export function explained(task: Task, row: Row, bytes: Uint8Array): Explained {
  const { columns, mechanism, not_before } = task.definition;
  const values = readRow(columns, row);
  const normalised = normalise(columns, values, mechanism.kind === "histogram");
  const exact = task.measurement.exact(normalised, isOutside(columns, values), reader(bytes));
  const random = reader(bytes);
  const sent = task.encode(row, random).words;
  const shares = makeReport(task, sent, not_before, random).shares.map((share) => wordsOf(task, share.slice(32), sent.length));
  const sums = sent.map((_, place) => shares.reduce((sum, share) => sum + share[place], -(task.verified?.offset ?? 0n)));
  return {
    exact, noise: sent.map((word, place) => word - exact[place]), sent, shares,
    together: task.verified ? sums : sums.map((sum) => BigInt.asIntN(64, sum)),
  };
}

/** The words that a share is of, behind its blind: spelled out, or as a seed. */
function wordsOf({ verified }: Task, share: Uint8Array, words: number): bigint[] {
  const [form, payload] = [share[0], share.slice(1)];
  if (!verified) return form ? expandShare(payload, words) : parseWords(payload);
  if (form === 3) return expandProven(verified, payload).words.slice(0, words);
  return Array.from({ length: words }, (_, place) => readLittleEndian(payload, WORD_BYTES * place, WORD_BYTES));
}
