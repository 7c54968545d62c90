/** Whether a report was counted: proofs of all servers that lead to one cohort (docs/reference/client.md). */

import { sha256 } from "@noble/hashes/sha2.js";
import { base64url, bigEndian, concat, equal, framed, hash, parseBase64url } from "./bytes.js";
import type { Channel } from "./channel.js";
import { type Absence, type Inclusion, type Judged, type Leaf, MESSAGES, parseMessage } from "./documents.js";
import { refuse } from "./errors.js";
import { type Json, canonicalBytes, parseCanonical } from "./json.js";
import { verify } from "./signing.js";
import type { Suite } from "./suites/suite.js";
import type { Task } from "./task.js";

const LEAF_IDS = 64;
const HASH_BYTES = 32;
const MAX_CERTIFICATE = 8 << 20;

export interface Counted {
  reportId: string;
  batch: number;
  /** Whether it is one of the cohort's reports, and in a verified task one of those that were accepted. */
  included: boolean;
  numClients: number;
  cohortRoot: string;
  /** Whether a certificate names this very cohort; else the servers alone do. */
  certified: boolean;
  /** Whether it was frozen, and left out because its check failed. */
  rejected: boolean;
}

const wrong = (words: string): never => refuse("inventory_mismatch", words);
const below = (a: Uint8Array, b: Uint8Array): boolean => {
  const place = a.findIndex((byte, i) => byte !== b[i]);
  return place >= 0 && a[place] < b[place];
};

interface List {
  root: string;
  count: number;
}

/** The identifiers of a leaf that is part of a list; sides and siblings follow from the count and the leaf's number. */
function leafOf({ root, count }: List, { leaf, leaf_ids, siblings }: Leaf): Uint8Array[] {
  const ids = parseBase64url(leaf_ids);
  let [place, size] = [leaf, Math.ceil(count / LEAF_IDS)];
  if (place >= size || ids.length !== HASH_BYTES * Math.min(LEAF_IDS, count - place * LEAF_IDS)) wrong("the list has no such leaf");
  let node = hash("merkle leaf", bigEndian(leaf, 8), ids);
  const left = siblings.map((sibling) => parseBase64url(sibling, HASH_BYTES));
  for (; size > 1; place = Math.floor(place / 2), size = Math.ceil(size / 2)) {
    const other = place % 2 ? place - 1 : place + 1;
    if (other >= size) continue;
    const sibling = left.shift() ?? wrong("the proof does not lead to the root");
    node = sha256(framed("merkle node", place % 2 ? concat(sibling, node) : concat(node, sibling)));
  }
  if (left.length || base64url(node) !== root) wrong("the proof does not lead to the root");
  return Array.from({ length: ids.length / HASH_BYTES }, (_, n) => ids.slice(HASH_BYTES * n, HASH_BYTES * (n + 1)));
}

/** Refuse a proof that does not show that an identifier is in its list. */
export function verifyInclusion(list: List, proof: Leaf, reportId: Uint8Array): void {
  if (!leafOf(list, proof).some((id) => equal(id, reportId))) wrong("the proof is not of this identifier");
}

/** Refuse a proof that does not show that an identifier is not in its list. */
export function verifyAbsence(list: List, leaves: readonly Leaf[], reportId: Uint8Array): void {
  if (!list.count) {
    if (leaves.length || list.root !== base64url(hash("merkle empty"))) wrong("the list is not empty");
    return;
  }
  if (leaves.length < 1 || leaves.length > 2) wrong("one leaf or two show an absence");
  const held = leaves.flatMap((leaf) => leafOf(list, leaf));
  const [first, last] = [leaves[0].leaf, leaves[leaves.length - 1].leaf];
  if (last - first !== leaves.length - 1 || held.some((id, n) => n && !below(held[n - 1], id)))
    wrong("the leaves are no sorted neighbours");
  if (held.some((id) => equal(id, reportId))) wrong("the list holds this identifier");
  const begins = first === 0 || below(held[0], reportId);
  const ends = last === Math.floor((list.count - 1) / LEAF_IDS) || below(reportId, held[held.length - 1]);
  if (!begins || !ends) wrong("the identifier is of another leaf");
}

interface Shown {
  frozen: List;
  isFrozen: boolean;
  accepted?: List;
  isAccepted?: boolean;
}

const named = ({ root, count }: List): List => ({ root, count });

function shownBy(task: Task, body: Uint8Array, reportId: Uint8Array): Shown {
  const kind = (parseCanonical(body) as { kind?: Json } | null)?.kind;
  if (kind === "judged" && task.verified) {
    const judged = parseMessage<Judged>(MESSAGES.Judged, body);
    if ((judged.accepted === null) === (judged.rejected === null)) wrong("a report was either accepted or rejected");
    verifyInclusion(judged.frozen, judged.frozen, reportId);
    if (judged.accepted) verifyInclusion(judged.accepted, judged.accepted, reportId);
    if (judged.rejected) verifyAbsence(judged.rejected, judged.rejected.leaves, reportId);
    const accepted = named((judged.accepted ?? judged.rejected)!);
    return { frozen: named(judged.frozen), isFrozen: true, accepted, isAccepted: judged.accepted !== null };
  }
  if (kind === "absence") {
    const absence = parseMessage<Absence>(MESSAGES.Absence, body);
    verifyAbsence(absence, absence.leaves, reportId);
    return { frozen: named(absence), isFrozen: false };
  }
  const inclusion = parseMessage<Inclusion>(MESSAGES.Inclusion, body);
  verifyInclusion(inclusion, inclusion, reportId);
  return { frozen: named(inclusion), isFrozen: true };
}

const same = (a: List | undefined, b: List | undefined): boolean => a?.root === b?.root && a?.count === b?.count;

export async function askCounted(
  suite: Suite, task: Task, channels: readonly Channel[], reportId: string, batch: number, certificate?: string,
): Promise<Counted> {
  const wanted = parseBase64url(reportId, HASH_BYTES);
  const path = `/v1/tasks/${task.id}/batches/${batch}/inclusion/${reportId}`;
  const certified = certificate === undefined ? undefined : await certifiedCohorts(suite, task, batch, certificate);
  const bodies = await Promise.all(channels.map((channel) => channel.get(path, "inclusion", "absence", "judged")));
  const every = bodies.map((body) => shownBy(task, body, wanted));
  if (task.verified && every.some(({ isFrozen, accepted }) => isFrozen && !accepted))
    refuse("batch_open", "not every server has judged yet");
  const [first] = every;
  const agree = (each: Shown) =>
    same(each.frozen, first.frozen) && same(each.accepted, first.accepted) && each.isFrozen === first.isFrozen && each.isAccepted === first.isAccepted;
  if (!every.every(agree)) refuse("cohort_conflict", "the servers prove different cohorts");
  if (certified && (!same(certified.frozen, first.frozen) || (first.accepted && !same(first.accepted, certified.released))))
    refuse("cohort_conflict", "the certificate is of another cohort");
  const { root, count } = first.accepted ?? first.frozen;
  const included = first.accepted ? first.isAccepted === true : first.isFrozen;
  const rejected = first.isFrozen && !included;
  return { reportId, batch, included, numClients: count, cohortRoot: root, certified: certified !== undefined, rejected };
}

/** The cohorts that the certificate of a release names, signed by the task's analyzer. */
async function certifiedCohorts(suite: Suite, task: Task, batch: number, certificate: string) {
  const malformed = (): never => refuse("invalid_message", "no certificate of this task and window");
  let found: { record?: Record<string, Json>; signature?: Json } | null;
  try {
    found = JSON.parse(certificate.slice(0, MAX_CERTIFICATE));
  } catch {
    return malformed();
  }
  const { record, signature } = found ?? {};
  if (!record || typeof record !== "object" || typeof signature !== "string" || record.kind !== "release") return malformed();
  await verify(suite, task.definition.analyzer.identity_key, signature, "release", canonicalBytes(record as Json));
  const { task_id, batch: number, cohort_root: root, num_clients: count, verification } = record;
  if (task_id !== task.id || number !== batch || typeof root !== "string" || typeof count !== "number") return malformed();
  if (!task.verified) return { released: { root, count }, frozen: { root, count } };
  const { frozen_root, frozen } = (verification ?? {}) as Record<string, Json>;
  if (typeof frozen_root !== "string" || typeof frozen !== "number") return malformed();
  return { released: { root, count }, frozen: { root: frozen_root, count: frozen } };
}
