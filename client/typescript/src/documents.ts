/** The messages that a client reads (docs/reference/protocol-http.md#messages). */

import { type Json, canonicalBytes, parseCanonical } from "./json.js";
import { anyBytes, anyText, boolean, integer, key, list, object, oneOf, optional, type Shape } from "./shapes.js";
import { type Signed, signed } from "./signing.js";
import type { SuiteName } from "./suites/suite.js";
import { type Definition, definitionShape } from "./task.js";

const count = integer(0);
const serverIndex = integer(0, 255);

export interface KeyList {
  kind: "keys";
  identity_key: string;
  keys: { key_id: string; suite: SuiteName; public_key: string; valid_from: number; valid_until: number }[];
}

export interface Receipt {
  kind: "receipt";
  task_id: string;
  server: number;
  count: number;
  reports: string;
}

export interface UploadAnswer {
  failures: { report_id: string; type: string; detail: string; retryable: boolean }[];
  receipt: Signed<Receipt>;
}

export interface Leaf {
  leaf: number;
  leaf_ids: string;
  siblings: string[];
}

export type Inclusion = Leaf & { kind: "inclusion"; root: string; count: number };

export interface Absence {
  kind: "absence";
  root: string;
  count: number;
  leaves: Leaf[];
  lost?: number;
}

export interface Judged {
  kind: "judged";
  frozen: Inclusion;
  accepted: Inclusion | null;
  rejected: Absence | null;
}

const entry = object({
  key_id: key, suite: oneOf("mlkem768-x25519", "x25519"), public_key: key, valid_from: count, valid_until: count,
});
const leaf = { leaf: count, leaf_ids: anyBytes, siblings: list(key) };
const inclusion = object({ kind: oneOf("inclusion"), root: key, count, ...leaf });
const absence = object({ kind: oneOf("absence"), root: key, count, leaves: list(object(leaf)), lost: optional(count, 0) });
const orNull = (shape: Shape): Shape => (value, place) => {
  if (value !== null) shape(value, place);
};

export const receipt = object({ kind: oneOf("receipt"), task_id: key, server: serverIndex, count, reports: key });

/** What may stand in each message, by its name. */
export const MESSAGES = {
  KeyList: object({ kind: oneOf("keys"), identity_key: key, keys: list(entry) }),
  TaskRecord: object({ kind: oneOf("task"), definition: definitionShape as Shape }),
  Receipt: receipt,
  UploadAnswer: object({
    failures: list(object({ report_id: key, type: anyText, detail: anyText, retryable: boolean })),
    receipt: signed(receipt),
  }),
  Inclusion: inclusion,
  Absence: absence,
  Judged: object({ kind: oneOf("judged"), frozen: inclusion, accepted: orNull(inclusion), rejected: orNull(absence) }),
};

/** Read a message whose bytes are its own canonical encoding. */
export function parseMessage<M>(shape: Shape, bytes: Uint8Array): M {
  const value = parseCanonical(bytes);
  shape(value, "message");
  return value as M;
}

export const parseSigned = <M>(shape: Shape, bytes: Uint8Array): Signed<M> => parseMessage(signed(shape), bytes);

export type SignedTask = Signed<{ kind: "task"; definition: Definition }>;

export const encoded = (message: unknown): Uint8Array => canonicalBytes(message as Json);
