/** Canonical JSON (RFC 8785) of strings, integers, booleans, null, lists and objects; all other bytes are refused. */

import { utf8 } from "./bytes.js";
import { refuse } from "./errors.js";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

const MAX_DEPTH = 64;
const LONE_SURROGATE = /[\ud800-\udfff]/u;

/** Write a value in its one spelling. */
export function canonical(value: Json, room = MAX_DEPTH): string {
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) refuse("invalid_message", "integers lie within 2^53 - 1");
    return String(value);
  }
  if (typeof value === "string") {
    if (LONE_SURROGATE.test(value)) refuse("invalid_message", "half of a surrogate pair is no text");
    return JSON.stringify(value);
  }
  if (value === null || typeof value === "boolean") return String(value);
  if (!room) refuse("invalid_message", `more than ${MAX_DEPTH} levels of lists and objects`);
  if (Array.isArray(value)) return `[${value.map((item) => canonical(item, room - 1)).join(",")}]`;
  const members = Object.keys(value).sort(); // by UTF-16 code units
  return `{${members.map((key) => `${canonical(key)}:${canonical(value[key], room - 1)}`).join(",")}}`;
}

export const canonicalBytes = (value: Json): Uint8Array => utf8(canonical(value));

/** Parse JSON that is its own canonical encoding, which duplicate keys and fractions are not. */
export function parseCanonical(bytes: Uint8Array): Json {
  let text: string;
  let value: Json;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    value = JSON.parse(text);
  } catch {
    refuse("invalid_message", "not JSON in UTF-8");
  }
  if (canonical(value) !== text) refuse("invalid_message", "not canonical JSON (RFC 8785)");
  return value;
}
