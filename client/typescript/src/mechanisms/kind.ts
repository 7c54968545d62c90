/** What one kind of mechanism says of itself: its document, the words of a report, and how far a row can move them. */

import type { RandomBytes } from "../bytes.js";
import type { Column } from "../schema.js";
import { type Rational, floor, parseReal, rational, square, times } from "../rational.js";
import { integer, oneOf, optional, real, type Shape } from "../shapes.js";

/** The fields that all kinds have. Rows are shrunk to `row_bound` and counted in steps of 2^-`fraction_bits`. */
export interface Document {
  kind: string;
  row_bound: string;
  fraction_bits: number;
  sigma: number;
  clip_count_weight?: string;
  rounding?: "dithered";
  /** The deviation of every server's noise beside a client's of deviation `sigma`. */
  floor?: number;
  /** What says how much a row counts; of `second_moment` only. */
  row_weights?: "features" | "all";
}

/** A run of words of one meaning; `sigma` is the noise of each, or of products and squares of so many columns. */
export interface Block {
  size: number;
  sigma: number | { product: number; square: number; columns: number };
  /** Largest absolute value of a word of a noiseless report. */
  bound: bigint;
  /** Whether servers add the words up past the matrix of a sketch. */
  isTotal?: boolean;
}

export interface Kind<D extends Document> {
  fields: Record<string, Shape>;
  allows: { clipCounter?: boolean; dither?: boolean; serverNoise?: boolean; levels?: boolean };
  blocks(document: D, columns: number): Block[];
  /** The words of a clipped row, as `clip` returns it. */
  fill(document: D, steps: bigint[]): bigint[];
  /** Largest squared distance of two noiseless reports, in multiples of each word's noise over `sigma`. */
  squaredDistance(document: D, neighbours: Neighbours): Rational;
  /** Largest squared norm of a noiseless report. */
  squaredLength(document: D): bigint;
  /** Whether a row in which a number is missing is sent as zeros. */
  leavesOut?(document: D): boolean;
  /** The integers of a row that is clipped in a way of its own; nothing where it is not. */
  clip?(document: D, row: number[], random: RandomBytes): bigint[] | undefined;
  /** Whether such a row is too large to be encoded as it is; nothing where its norm says so. */
  isClipped?(document: D, row: number[]): boolean | undefined;
  /** m and s of a sketch. */
  sketch?(document: D): { rows: number; sparsity: number };
  /** Refuses options that do not fit. */
  check?(document: D, given: { columns: number; neighbours: Neighbours }): void;
  checkColumns?(document: D, columns: readonly Column[]): void;
}

export type Neighbours = "replace-one" | "zero-out";

export const MAX_SIGMA = 2 ** 29 - 1;

/** The fields of every document; `row_bound` and `fraction_bits` are checked further with the grid. */
export const common: Record<string, Shape> = {
  row_bound: real,
  fraction_bits: integer(0, 40),
  sigma: integer(4, MAX_SIGMA),
  clip_count_weight: optional(real, "0"),
  rounding: optional(oneOf("dithered"), "nearest"),
  floor: optional(integer(0, MAX_SIGMA), 0),
};

/** floor(4^f B^2), the largest squared norm of a row in steps. */
export const squaredBound = ({ row_bound, fraction_bits }: Document): bigint =>
  floor(times(square(parseReal(row_bound)), rational(1n << BigInt(2 * fraction_bits))));
