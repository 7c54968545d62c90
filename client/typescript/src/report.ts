/** A report: what is shared, committed to, and put into an upload (docs/reference/protocol-encoding.md#report). */

import { type RandomBytes, bigEndian, concat, framed, hash } from "./bytes.js";
import { split } from "./sharing.js";
import type { Task } from "./task.js";
import { splitProven } from "./verified.js";

const BLIND_BYTES = 32;
const START_BYTES = 35;
const TIME_BYTES = 8;

export interface Report {
  id: Uint8Array;
  header: Uint8Array;
  /** For each server blind, form and payload: together they are the row. */
  shares: Uint8Array[];
}

/** Share a noised row and commit to every share; randomness is read for proofs, shares and blinds, in this order. */
export function makeReport(task: Task, noised: readonly bigint[], time: number, random: RandomBytes): Report {
  const servers = task.definition.servers.length;
  const payloads = task.verified
    ? splitProven(noised, task.verified, task.definition.share_form === "seeded", random)
    : split(noised, servers, task.definition.share_form, random);
  const blinds = random(BLIND_BYTES * servers);
  const shares = payloads.map((payload, j) => concat(blinds.slice(BLIND_BYTES * j, BLIND_BYTES * (j + 1)), payload));
  const header = headerOf(task.idBytes, time, shares.map((share, j) => commitment(task.idBytes, j, share)));
  return { id: hash("report", header), header, shares };
}

export function commitment(taskId: Uint8Array, server: number, share: Uint8Array): Uint8Array {
  const [blind, form, payload] = [share.slice(0, BLIND_BYTES), share.slice(BLIND_BYTES, BLIND_BYTES + 1), share.slice(BLIND_BYTES + 1)];
  return hash("share", taskId, bigEndian(server, 2), blind, form, payload);
}

export const headerOf = (taskId: Uint8Array, time: number, commitments: Uint8Array[]): Uint8Array =>
  concat(Uint8Array.of(0x4c, 0x52, 1), taskId, bigEndian(time, TIME_BYTES), Uint8Array.of(commitments.length),
    ...commitments, new Uint8Array(2));

/** What a block of one share is sealed beside. */
export function blockContext(taskId: Uint8Array, server: number, keyId: Uint8Array, headers: Uint8Array[]): Uint8Array {
  const together = hash("share block context", taskId, keyId, bigEndian(headers.length, 2), concat(...headers));
  return framed("share block", new TextEncoder().encode("client"), bigEndian(server, 2), together);
}

/** An upload of one report; in a task with tokens behind the pass of its server. */
export function encodeUpload(header: Uint8Array, keyId: Uint8Array, sealed: Uint8Array, pass?: Uint8Array): Uint8Array {
  const one = bigEndian(1, 2);
  const named = concat(header.slice(START_BYTES, START_BYTES + TIME_BYTES), header.slice(START_BYTES + TIME_BYTES + 1, -2));
  return concat(...(pass ? [one, pass] : []), one, one, keyId, header.slice(0, START_BYTES), named, sealed);
}
