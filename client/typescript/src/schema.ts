/** The columns of a row: what may stand in each, and how a row becomes numbers. */

import { refuse } from "./errors.js";
import { compare, isPositive, parseReal } from "./rational.js";
import { codePoints, list, object, oneOf, optional, printable, real, realThat, ruled, type Shape } from "./shapes.js";

export interface Column {
  name: string;
  lower: string;
  upper: string;
  center: string;
  scale: string;
  unit: string;
  kind?: "integer" | "boolean" | "category";
  levels?: string[];
  code_book?: CodeBook;
}

/** What a sender may write besides the names of levels, and codes for missing values; units are for readers of files. */
export interface CodeBook {
  levels?: { level: string; label?: string; synonyms?: string[] }[];
  units?: { unit: string; factor: string }[];
  missing?: string[];
}

/**
 * What a row may hold in a column; null, NaN and the codes of its code book are missing. A level is given by its name, or
 * as the code book spells it.
 */
export type Value = number | boolean | string | null | undefined;
export type Row = Readonly<Record<string, Value>>;

const MAX_NAME = 80;
const OTHER = "(other)";

const name = printable(1, MAX_NAME);
const some = (item: Shape, most = 64): Shape => optional(list(item, 0, most), []);

const codeBook = object({
  levels: some(object({ level: name, label: optional(printable(0, MAX_NAME), ""), synonyms: some(name) }), 1024),
  units: some(object({ unit: name, factor: realThat(isPositive, "a factor is positive") })), missing: some(name),
});

/** A text as spellings are compared: NFKC, full case folding, no superfluous blanks. */
export const folded = (text: string): string =>
  [...text.normalize("NFKC")].map((letter) => (letter === "ı" ? letter : letter.toLowerCase().toUpperCase().toLowerCase()))
    .join("").split(/[\t-\r\x1c-\x20\x85\u1680\u2028\u2029]+/).filter(Boolean).join(" ");

/** Each level with its spellings: its own name, its label, its synonyms. */
const spellings = ({ levels = [], code_book }: Column): [string, string][] => [
  ...levels.map((level): [string, string] => [level, level]),
  ...(code_book?.levels ?? []).flatMap(({ level, label, synonyms = [] }) =>
    (label ? [label, ...synonyms] : synonyms).map((spelling): [string, string] => [level, spelling])),
];

const areDistinct = (names: readonly string[]): boolean => new Set(names).size === names.length;

function fitsCodeBook(held: Column): boolean {
  const { levels: own = [], unit, code_book } = held;
  const { levels = [], units = [], missing = [] } = code_book!;
  const folds = new Map<string, string>();
  return (
    levels.length + units.length + missing.length > 0 && areDistinct(missing) &&
    areDistinct(levels.map(({ level }) => level)) && levels.every(({ level }) => own.includes(level)) &&
    areDistinct([...units.map((other) => other.unit), unit]) && !(units.length && (own.length || !unit)) &&
    !missing.some((code) => own.includes(code)) &&
    spellings(held).every(([level, spelling]) => {
      const fold = folded(spelling);
      if (!folds.has(fold)) folds.set(fold, level);
      return folds.get(fold) === level;
    })
  );
}

export const column: Shape = ruled<Column>(
  object({
    name, lower: real, upper: real, center: real, scale: real, unit: printable(),
    kind: optional(oneOf("integer", "boolean", "category"), "real"),
    levels: optional(list(name, 0, 1024), []),
    code_book: optional(codeBook),
  }),
  (held) =>
    compare(parseReal(held.lower), parseReal(held.upper)) < 0 && isPositive(parseReal(held.scale)) && fitsKind(held) &&
    (!held.code_book || fitsCodeBook(held)),
  "its fields do not fit together",
);

function fitsKind({ name: own, kind, levels, lower, upper, center, scale }: Column): boolean {
  if (kind !== "category") {
    if (kind === "integer") return !levels && !`${lower}${upper}`.includes(".");
    return !levels && (kind !== "boolean" || (lower === "0" && upper === "1"));
  }
  if (!levels || levels.length < 2 || !areDistinct(levels)) return false;
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
      refuse("invalid_row", `column "${held.name}": absent; give null for a missing value`);
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
  if (isMissing(value) || held.code_book?.missing?.includes(value as string))
    return levels.includes(OTHER) ? levels.indexOf(OTHER) : NaN;
  if (typeof value === "string") {
    const fold = held.code_book && folded(value);
    const [level] = spellings(held).find(([, each]) => each === value || folded(each) === fold) ?? [];
    if (level !== undefined) return levels.indexOf(level);
  }
  return refuse("invalid_row", `column "${held.name}": expected one of its ${levels.length} levels`);
}

function numberOf(held: Column, value: Value): number {
  if (isMissing(value)) return NaN;
  const found = held.kind === "boolean" && typeof value === "boolean" ? Number(value) : value;
  if (typeof found !== "number" || !Number.isFinite(found))
    refuse("invalid_row", `column "${held.name}": expected a finite number`);
  return held.code_book?.missing?.some((code) => /^[+-]?[0-9]+(\.[0-9]+)?$/.test(code) && Number(code) === found) ? NaN : found;
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
