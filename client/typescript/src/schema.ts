/** The columns of a row: what may stand in each, and how a row becomes numbers. */

import { refuse } from "./errors.js";
import { compare, isPositive, parseReal } from "./rational.js";
import { codePoints, list, object, oneOf, optional, printable, real, ruled, type Shape } from "./shapes.js";

export interface Column {
  name: string;
  lower: string;
  upper: string;
  center: string;
  scale: string;
  unit: string;
  kind?: "integer" | "boolean" | "category";
  levels?: string[];
}

/** What a row may hold in a column; null and NaN are missing. A level is given by its exact name. */
export type Value = number | boolean | string | null | undefined;
export type Row = Readonly<Record<string, Value>>;

const MAX_NAME = 80;
const OTHER = "(other)";

const name = printable(1, MAX_NAME);

export const column: Shape = ruled<Column>(
  object({
    name, lower: real, upper: real, center: real, scale: real, unit: printable(),
    kind: optional(oneOf("integer", "boolean", "category"), "real"),
    levels: optional(list(name, 0, 1024), []),
    code_book: optional((value, place) => {
      if (value !== undefined) refuse("unsupported_feature", `${place}: this client reads no code books`);
    }),
  }),
  (held) =>
    compare(parseReal(held.lower), parseReal(held.upper)) < 0 && isPositive(parseReal(held.scale)) && fitsKind(held),
  "its fields do not fit together",
);

function fitsKind({ name: own, kind, levels, lower, upper, center, scale }: Column): boolean {
  if (kind !== "category") {
    if (kind === "integer") return !levels && !`${lower}${upper}`.includes(".");
    return !levels && (kind !== "boolean" || (lower === "0" && upper === "1"));
  }
  if (!levels || levels.length < 2 || new Set(levels).size < levels.length) return false;
  if (levels.some((level) => codePoints(own) + codePoints(level) > MAX_NAME - 2)) return false;
  return lower === "0" && upper === String(levels.length - 1) && center === "0" && scale === "1";
}

/** The names of the columns of an encoded row: a category is one for each level but the first, unless kept whole. */
export function encodedNames(columns: readonly Column[], whole: boolean): string[] {
  return columns.flatMap((held) =>
    held.levels && !whole ? held.levels.slice(1).map((level) => `${held.name}[${level}]`) : [held.name],
  );
}

/** Read a row in the user's units: a number for each column, NaN where one is missing. No message repeats a value. */
export function readRow(columns: readonly Column[], row: Row): number[] {
  const unknown = Object.keys(row).find((each) => !columns.some((held) => held.name === each));
  if (unknown !== undefined) refuse("invalid_row", `unknown column "${unknown}"`);
  return columns.map((held) => {
    if (!Object.keys(row).includes(held.name))
      refuse("invalid_row", `column "${held.name}": it is absent from the row; give null if its value is missing`);
    const value = row[held.name];
    const found = held.levels ? levelOf(held, held.levels, value) : numberOf(held, value);
    const fits = !held.kind || Number.isNaN(found) || Number.isInteger(found);
    if (!fits || (held.kind === "boolean" && (found < 0 || found > 1)))
      refuse("invalid_row", `column "${held.name}": expected ${held.kind === "boolean" ? "0 or 1" : "a whole number"}`);
    return found;
  });
}

const isMissing = (value: Value): boolean => value === null || value === undefined || Number.isNaN(value);

function levelOf(held: Column, levels: string[], value: Value): number {
  if (isMissing(value)) return levels.includes(OTHER) ? levels.indexOf(OTHER) : NaN;
  const found = typeof value === "string" ? levels.indexOf(value) : -1;
  if (found >= 0) return found;
  return refuse("invalid_row", `column "${held.name}": expected one of its ${levels.length} levels`);
}

function numberOf(held: Column, value: Value): number {
  if (isMissing(value)) return NaN;
  if (held.kind === "boolean" && typeof value === "boolean") return Number(value);
  if (typeof value !== "number" || !Number.isFinite(value))
    refuse("invalid_row", `column "${held.name}": expected a finite number`);
  return value;
}

/** Move values inside the bounds, centre and scale them; a category becomes indicators. NaN stays NaN. */
export function normalise(columns: readonly Column[], row: readonly number[], whole: boolean): number[] {
  return columns.flatMap((held, place) => {
    const value = row[place];
    if (held.levels && !whole)
      return held.levels.slice(1).map((_, level) => (Number.isNaN(value) ? NaN : Number(value === level + 1)));
    const moved = value < Number(held.lower) ? Number(held.lower) : value > Number(held.upper) ? Number(held.upper) : value;
    return [(moved - Number(held.center)) / Number(held.scale)];
  });
}

/** Whether a bound of a column moves a value. */
export const isOutside = (columns: readonly Column[], row: readonly number[]): boolean =>
  columns.some((held, place) => row[place] < Number(held.lower) || row[place] > Number(held.upper));
