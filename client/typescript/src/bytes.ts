/** Unique encodings: labelled hashes, base64url, and numbers as bytes (docs/reference/protocol.md#framing). */

import { sha256 } from "@noble/hashes/sha2.js";
import { refuse } from "./errors.js";

/** Random bytes of a cryptographic source; so many as are asked for. */
export type RandomBytes = (count: number) => Uint8Array;

const ENCODER = new TextEncoder();
export const utf8 = (text: string): Uint8Array => ENCODER.encode(text);

export function concat(...parts: Uint8Array[]): Uint8Array {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

export const equal = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && a.every((x, i) => x === b[i]);

/** A number as so many bytes, the highest first. */
export function bigEndian(value: number, count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  for (let at = count - 1; at >= 0; at--, value = Math.floor(value / 256)) bytes[at] = value % 256;
  return bytes;
}

/** An integer as so many bytes, the lowest first; what does not fit is cut off, so that negative ones are residues. */
export function writeLittleEndian(target: Uint8Array, at: number, value: bigint, count: number): void {
  let low = BigInt.asUintN(8 * count, value);
  for (const end = at + count; at < end; low >>= 32n)
    for (let word = Number(low & 0xffffffffn), place = 0; place < 4 && at < end; place++, word >>>= 8) target[at++] = word;
}

/** The integer of so many bytes, an even number, the lowest first; by words of 32 bits, which are faster than bytes. */
export function readLittleEndian(bytes: Uint8Array, at: number, count: number): bigint {
  let value = 0n;
  let end = at + count;
  for (; (end - at) % 4; end -= 2) value = BigInt(bytes[end - 2] | (bytes[end - 1] << 8));
  for (; end > at; end -= 4)
    value = (value << 32n) | BigInt((bytes[end - 4] | (bytes[end - 3] << 8) | (bytes[end - 2] << 16) | (bytes[end - 1] << 24)) >>> 0);
  return value;
}

/** `"lintra/1 "`, a label, a zero byte, and every part behind its length as 64 bits. */
export function framed(label: string, ...parts: Uint8Array[]): Uint8Array {
  return concat(utf8(`lintra/1 ${label}\0`), ...parts.flatMap((part) => [bigEndian(part.length, 8), part]));
}

/** H(label, parts ..): SHA-256 of the framed parts. */
export const hash = (label: string, ...parts: Uint8Array[]): Uint8Array => sha256(framed(label, ...parts));

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

export function base64url(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 3) {
    const left = bytes.length - at;
    const group = (bytes[at] << 16) | ((left > 1 ? bytes[at + 1] : 0) << 8) | (left > 2 ? bytes[at + 2] : 0);
    for (let place = 0; place < Math.min(left, 3) + 1; place++) text += LETTERS[(group >> (18 - 6 * place)) & 63];
  }
  return text;
}

/** Decode unpadded, canonical base64url, of a length in bytes if one is given. */
export function parseBase64url(text: string, length?: number): Uint8Array {
  const bytes = new Uint8Array(Math.floor((text.length * 3) / 4));
  let group = 0;
  let at = 0;
  for (let place = 0; place < text.length; place++) {
    const value = LETTERS.indexOf(text[place]);
    if (value < 0) refuse("invalid_message", "not base64url");
    group = ((group << 6) | value) & 0xffffff;
    if (place % 4) bytes[at++] = group >> (6 - 2 * (place % 4));
  }
  if (base64url(bytes) !== text) refuse("invalid_message", "not canonical base64url");
  if (length !== undefined && bytes.length !== length)
    refuse("invalid_message", `expected ${length} bytes of base64url, got ${bytes.length}`);
  return bytes;
}
