/** What may stand in each field of a document: small checks that fit together. A shape refuses with `invalid_message`. */

import type { Json } from "./json.js";
import { refuse } from "./errors.js";
import { type Rational, parseReal } from "./rational.js";

/** Checks a value that stands at a place of a document. */
export type Shape = (value: Json | undefined, place: string) => void;

const wrong = (place: string, words: string): never => refuse("invalid_message", `${place}: ${words}`);

export const integer = (least: number, most: number = Number.MAX_SAFE_INTEGER): Shape => (value, place) => {
  if (!Number.isSafeInteger(value) || (value as number) < least || (value as number) > most)
    wrong(place, `expected an integer from ${least} to ${most}`);
};

export const text = (pattern: RegExp, words: string): Shape => (value, place) => {
  if (typeof value !== "string" || !pattern.test(value)) wrong(place, `expected ${words}`);
};

export const boolean: Shape = (value, place) => {
  if (typeof value !== "boolean") wrong(place, "expected true or false");
};

export const oneOf = (...choices: (string | null)[]): Shape => (value, place) => {
  if (!choices.includes(value as string)) wrong(place, `expected one of ${choices.join(", ")}`);
};

export const list = (item: Shape, least = 0, most = Infinity): Shape => (value, place) => {
  if (!Array.isArray(value) || value.length < least || value.length > most)
    return wrong(place, `expected a list of ${least} to ${most}`);
  value.forEach((each, index) => item(each, `${place}.${index}`));
};

const OPTIONAL = Symbol("optional");
type Optional = Shape & { [OPTIONAL]: Json };

/** A field that is left out where it equals its default, and is never written then. */
export function optional(shape: Shape, normal: Json = null): Shape {
  return Object.assign(
    ((value, place) => {
      if (value === undefined) return;
      if (value === normal || (Array.isArray(value) && Array.isArray(normal) && !value.length))
        wrong(place, "a default that is left out is written");
      shape(value, place);
    }) as Shape,
    { [OPTIONAL]: normal },
  );
}

/** An object with exactly these fields. */
export const object = (fields: Record<string, Shape>): Shape => (value, place) => {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return wrong(place, "expected an object");
  for (const name of Object.keys(value)) if (!Object.keys(fields).includes(name)) wrong(`${place}.${name}`, "unknown field");
  for (const [name, shape] of Object.entries(fields)) {
    const held = Object.keys(value).includes(name) ? value[name] : undefined;
    if (held === undefined && !(OPTIONAL in (shape as Optional))) wrong(`${place}.${name}`, "this field is missing");
    shape(held, `${place}.${name}`);
  }
};

// --- texts ---------------------------------------------------------------------------------------------------------

const UNPRINTABLE =
  /[\0-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e00ff}\u{e01f0}-\u{e0fff}\u{f0000}-\u{10ffff}]/u;
/** The last two of every plane are no characters. */
const isNone = (letter: string): boolean => (letter.codePointAt(0)! & 0xfffe) === 0xfffe;

/** Whether a text holds none of the forbidden characters (docs/reference/limits.md#printable-text). */
export const isPrintable = (value: string): boolean => !UNPRINTABLE.test(value) && ![...value].some(isNone);

/** A printable text of so many code points. */
export const printable = (least = 0, most = Infinity): Shape => (value, place) => {
  if (typeof value !== "string" || !isPrintable(value)) return wrong(place, "printable characters only");
  const length = codePoints(value);
  if (length < least || length > most) wrong(place, `expected ${least} to ${most} characters`);
};

export const codePoints = (value: string): number => [...value].length;

export const key = text(/^[A-Za-z0-9_-]{1,2048}$/, "base64url");
export const identifier = text(/^[A-Za-z0-9_-]{43}$/, "an identifier");
export const anyBytes = text(/^[A-Za-z0-9_-]*$/, "base64url");
export const anyText: Shape = (value, place) => {
  if (typeof value !== "string") wrong(place, "expected a text");
};
export const real = text(/^(0|-?0\.[0-9]{0,39}[1-9]|-?[1-9][0-9]{0,17}(\.[0-9]{0,39}[1-9])?)$/, "a real");

/** A real for which a condition holds. */
export const realThat = (holds: (value: Rational) => boolean, words: string): Shape => (value, place) => {
  real(value, place);
  if (!holds(parseReal(value as string))) wrong(place, words);
};

/** A shape, and then a rule of several fields. */
export const ruled = <T>(shape: Shape, holds: (value: T) => boolean, words: string): Shape => (value, place) => {
  shape(value, place);
  if (!holds(value as unknown as T)) wrong(place, words);
};
