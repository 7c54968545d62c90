/** Ed25519 signatures over framed parts; which of them hold is fixed in docs/reference/protocol.md#signatures. */

import { framed, parseBase64url, readLittleEndian } from "./bytes.js";
import { refuse } from "./errors.js";
import { type Json, canonicalBytes } from "./json.js";
import { key, object, type Shape } from "./shapes.js";
import type { Suite } from "./suites/suite.js";

export const FIELD = 2n ** 255n - 19n;
export const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
const ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022n;
const SMALL_ORDER = [0n, 1n, FIELD - 1n, ORDER_8, FIELD - ORDER_8];

/** Whether 32 bytes may stand for a key or for R: y is canonical, and not that of a point of small order. */
function isSoundPoint(bytes: Uint8Array): boolean {
  const y = BigInt.asUintN(255, readLittleEndian(bytes, 0, 32));
  return y < FIELD && !SMALL_ORDER.includes(y);
}

/** The bytes of an identity key; one of small order, under which one signature fits many messages, is refused. */
export function parsePublicKey(text: string): Uint8Array {
  const bytes = parseBase64url(text, 32);
  if (!isSoundPoint(bytes)) refuse("invalid_message", "an identity key is not canonical, or of small order");
  return bytes;
}

/** Refuse a signature that is not this key's, over these parts, under this label. */
export async function verify(
  suite: Suite, publicKey: string, signature: string, label: string, ...parts: Uint8Array[]
): Promise<void> {
  const [bytes, signed] = [parsePublicKey(publicKey), parseBase64url(signature, 64)];
  const isReduced = readLittleEndian(signed, 32, 32) < ORDER;
  if (!isReduced || !isSoundPoint(signed) || !(await suite.verify(bytes, signed, framed(label, ...parts))))
    refuse("unauthorized", `the "${label}" signature is not by ${publicKey}`);
}

export interface Signed<M> {
  message: M;
  signature: string;
}

export const signed = (message: Shape): Shape => object({ message, signature: key });

/** Refuse a signed message that is not of this key; its kind is the label. */
export async function verifySigned(suite: Suite, publicKey: string, { message, signature }: Signed<unknown>): Promise<void> {
  await verify(suite, publicKey, signature, (message as { kind: string }).kind, canonicalBytes(message as Json));
}
