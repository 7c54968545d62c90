/** Rounding a row to integers inside a ball: to nearest, where doubles are fractions and all of it is exact; or dithered. */

import { type RandomBytes, readLittleEndian } from "./bytes.js";
import { isqrt, ofDouble } from "./rational.js";

const abs = (value: bigint): bigint => (value < 0n ? -value : value);
const squaredNorm = (row: readonly bigint[]): bigint => row.reduce((sum, value) => sum + value * value, 0n);

/** The numbers of a row as integers over one power of two. */
function overOne(row: readonly number[]): { numbers: bigint[]; unit: bigint } {
  const exact = row.map(ofDouble);
  const unit = exact.reduce((most, { d }) => (d > most ? d : most), 1n);
  return { numbers: exact.map(({ n, d }) => n * (unit / d)), unit };
}

/**
 * Shrink a row onto the sphere of radius sqrt(bound) if it is longer, and round to nearest, ties to even; what rounding
 * pushes out is cut off towards zero instead.
 */
export function quantise(row: readonly number[], bound: bigint): bigint[] {
  const { numbers, unit } = overOne(row);
  const norm = squaredNorm(numbers);
  const isInside = norm <= bound * unit * unit;
  // Of an entry x the size is |x| / unit, or the root of x^2 bound / norm.
  const down = numbers.map((x) => (isInside ? abs(x) / unit : isqrt((x * x * bound) / norm)));
  const nearest = numbers.map((x, place) => {
    const low = down[place];
    const twice = 2n * low + 1n;
    const above = isInside ? 2n * abs(x) - twice * unit : 4n * x * x * bound - twice * twice * norm;
    return above > 0n || (above === 0n && low % 2n === 1n) ? low + 1n : low;
  });
  const sizes = squaredNorm(nearest) <= bound ? nearest : down;
  return sizes.map((size, place) => (numbers[place] < 0n ? -size : size));
}

/** A number of at most 2^400, so that no square overflows. */
export const withinReach = (value: number): number => Math.min(Math.max(value, -(2 ** 400)), 2 ** 400);

/** sqrt(bound) - sqrt(e), what vectors of e entries are shrunk to: no outcome of dithering them leaves the ball. */
export const ditheredNorm = (bound: bigint, entries: number): number =>
  Math.max(Math.sqrt(Number(bound)) - Math.sqrt(entries), 0);

/** By which factor a row is shrunk to a norm. In doubles, whose every operation is fixed. */
export const shrinkFactor = (row: readonly number[], norm: number): number =>
  norm > 0 ? norm / Math.max(Math.sqrt(row.reduce((sum, value) => sum + value * value, 0)), norm) : 0;

/** Round each entry of a row, times a factor, up with the chance that is its fraction, by a word of 32 bits. */
export function dither(row: readonly number[], factor: number, random: RandomBytes): bigint[] {
  const words = random(4 * row.length);
  return row.map((value, place) => {
    const low = Math.floor(value * factor);
    const isUp = Number(readLittleEndian(words, 4 * place, 4)) < (value * factor - low) * 2 ** 32;
    return BigInt(low + Number(isUp));
  });
}

/** Shrink a row so that it may be dithered, and dither it. */
export function dithered(row: readonly number[], bound: bigint, random: RandomBytes): bigint[] {
  const reach = row.map(withinReach);
  return dither(reach, shrinkFactor(reach, ditheredNorm(bound, row.length)), random);
}

/** Whether a row is longer than a bound; one that lies on the sphere but for 2^-30, as doubles may cause, is not. */
export function isLonger(row: readonly number[], bound: number): boolean {
  const { numbers: [limit, ...numbers] } = overOne([bound * (1 + 2 ** -30), ...row]);
  return squaredNorm(numbers) > limit * limit;
}
