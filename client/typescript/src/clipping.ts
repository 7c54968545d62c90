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

/**
 * Shrink a row to sqrt(bound) - sqrt(e), and round each of its e entries up with the chance that is its fraction: no
 * outcome leaves the ball. In doubles, whose every operation is fixed; reads a word of 32 bits for each entry.
 */
export function dithered(row: readonly number[], bound: bigint, random: RandomBytes): bigint[] {
  const reach = row.map((value) => Math.min(Math.max(value, -(2 ** 400)), 2 ** 400));
  const norm = Math.sqrt(reach.reduce((sum, value) => sum + value * value, 0));
  const limit = Math.max(Math.sqrt(Number(bound)) - Math.sqrt(row.length), 0);
  const factor = limit > 0 ? limit / Math.max(norm, limit) : 0;
  const words = random(4 * row.length);
  return reach.map((value, place) => {
    const low = Math.floor(value * factor);
    const isUp = Number(readLittleEndian(words, 4 * place, 4)) < (value * factor - low) * 2 ** 32;
    return BigInt(low + Number(isUp));
  });
}

/** Whether a row is longer than a bound; one that lies on the sphere but for 2^-30, as doubles may cause, is not. */
export function isLonger(row: readonly number[], bound: number): boolean {
  const { numbers: [limit, ...numbers] } = overOne([bound * (1 + 2 ** -30), ...row]);
  return squaredNorm(numbers) > limit * limit;
}
