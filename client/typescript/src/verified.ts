/** Reports that prove their norm: padding, proof and shares (docs/explanation/verified.md#the-proof). */

import { shake128 } from "@noble/hashes/sha3.js";
import { type RandomBytes, concat, framed, readLittleEndian, writeLittleEndian } from "./bytes.js";
import { isqrt } from "./rational.js";
import { SEED_BYTES } from "./sharing.js";

export const PRIMES = [107n, 179n, 279n, 395n].map((gap) => (1n << 60n) - gap);
const ROOTS = [383824447308448458n, 131347044478969944n, 166254837967917052n, 564895608718700323n];
const MASK = (1n << 60n) - 1n;
const PADDING = 7;
export const WORD_BYTES = 10;
const MAX_PADDED = 1 << 18;
const MAX_SQUARED_BOUND = (1n << 62n) - 1n;

/** Of reports of w words to N servers: W padded words in L columns of K powers, shared below 2^g. */
export class Sizes {
  readonly padded: number;
  readonly columns: number;
  readonly powers: number;
  readonly wordBits: number;
  readonly offset: bigint;
  /** Elements of each field in a share: 2 L blinds and K + 3 coefficients. */
  readonly elements: number;

  constructor(words: number, readonly servers: number, readonly squaredBound: bigint) {
    this.padded = words + PADDING;
    this.columns = Math.ceil(Math.sqrt(Math.ceil(this.padded / 16)));
    this.powers = Math.ceil(this.padded / this.columns);
    this.wordBits = 79 - (servers > 2 ? 32 - Math.clz32(servers - 2) : 0);
    this.offset = (BigInt(servers - 1) << BigInt(this.wordBits)) + (1n << 64n);
    this.elements = 2 * this.columns + this.powers + 3;
  }

  get payloadBytes(): number {
    return WORD_BYTES * this.padded + 8 * PRIMES.length * this.elements;
  }

  /** Whether anything is proven for these sizes. */
  get isValid(): boolean {
    return this.squaredBound <= MAX_SQUARED_BOUND && this.padded <= MAX_PADDED;
  }
}

/** R^2, which a noised row exceeds with probability e^-56: B2 + V1 + 2 (isqrt(56 (V2 + 2 m B2)) + 1) + 112 m. */
export function noisedBound(longest: bigint, variances: readonly bigint[]): bigint {
  const [total, squares, largest] = variances.reduce(
    ([sum, square, most], v) => [sum + v, square + v * v, v > most ? v : most], [0n, 0n, 0n],
  );
  if (!largest) return longest;
  return longest + total + 2n * (isqrt(56n * (squares + 2n * largest * longest)) + 1n) + 112n * largest;
}

const squaredNorm = (row: readonly bigint[]): bigint => row.reduce((sum, word) => sum + word * word, 0n);

export const isTooLong = (row: readonly bigint[], sizes: Sizes): boolean => squaredNorm(row) > sizes.squaredBound;

/** Seven squares that fill up a row to R^2: three times the largest that fits, then the first four that decrease. */
export function padding(row: readonly bigint[], squaredBound: bigint): bigint[] {
  let rest = squaredBound - squaredNorm(row);
  const large = Array.from({ length: 3 }, () => {
    const root = isqrt(rest);
    rest -= root * root;
    return root;
  });
  return [...large, ...fourSquares(Number(rest)).map(BigInt)];
}

export function fourSquares(rest: number): number[] {
  const most = Math.floor(Math.sqrt(rest));
  for (let a = 0; a <= most; a++)
    for (let b = 0; b <= a; b++)
      for (let c = 0; c <= b; c++) {
        const square = rest - a * a - b * b - c * c;
        const d = Math.round(Math.sqrt(Math.max(square, 0)));
        if (d <= c && d * d === square) return [a, b, c, d];
      }
  throw new RangeError("every number is a sum of four squares");
}

/** Uniform elements below a prime: words kept to 60 bits, those that are no element skipped. */
function readElements(prime: bigint, count: number, random: RandomBytes): bigint[] {
  const found: bigint[] = [];
  while (found.length < count) {
    const bytes = random(8 * (count - found.length));
    for (let at = 0; at < bytes.length; at += 8) {
      const word = readLittleEndian(bytes, at, 8) & MASK;
      if (word < prime) found.push(word);
    }
  }
  return found;
}

/** P_1 .. P_(K+3) of one field, from a padded row and its blinds: betas, then gammas. */
export function proof(sizes: Sizes, row: readonly bigint[], blinds: readonly bigint[], field: number): bigint[] {
  const [prime, root] = [PRIMES[field], ROOTS[field]];
  const { columns, powers } = sizes;
  const result = new Array<bigint>(powers + 4).fill(0n); // by power, from 0
  autocorrelation(sizes, row).forEach((value, lag) => (result[lag + 1] += value));
  for (let power = 0; power < powers; power++) {
    let [beta, gamma] = [0n, 0n];
    for (let column = 0; column < columns && power * columns + column < row.length; column++) {
      const word = row[power * columns + column];
      beta += blinds[column] * word;
      gamma += blinds[columns + column] * word;
    }
    result[powers - power] += beta;
    result[powers - power + 1] += root * beta;
    result[powers - power + 2] += gamma;
    result[powers - power + 3] += root * gamma;
  }
  for (let column = 0; column < columns; column++) {
    const [beta, gamma] = [blinds[column], blinds[columns + column]];
    result[1] += root * ((beta * beta + beta * gamma + gamma * gamma) % prime);
    result[3] += root * ((beta * gamma) % prime);
  }
  return result.slice(1).map((value) => ((value % prime) + prime) % prime);
}

/** sum a_i a_(i + dL) for d = 1 .. K-1. Limbs of 16 bits keep every sum of doubles exact: words are below 2^31. */
function autocorrelation({ columns, powers }: Sizes, row: readonly bigint[]): bigint[] {
  const words = Float64Array.from(row, Number);
  const high = words.map((word) => Math.floor(word / 65536));
  const low = words.map((word, place) => word - high[place] * 65536);
  return Array.from({ length: powers - 1 }, (_, place) => {
    const lag = columns * (place + 1);
    let [upper, middle, lower] = [0, 0, 0];
    for (let i = 0, j = lag; j < words.length; i++, j++) {
      upper += high[i] * high[j];
      middle += high[i] * low[j] + low[i] * high[j];
      lower += low[i] * low[j];
    }
    return (BigInt(upper) << 32n) + (BigInt(middle) << 16n) + BigInt(lower);
  });
}

export interface ProvenShare {
  words: bigint[];
  /** For each field. */
  elements: bigint[][];
}

/** Read a share from random bytes: words kept to g bits, then elements. */
export function readShare(sizes: Sizes, random: RandomBytes): ProvenShare {
  const bytes = random(WORD_BYTES * sizes.padded);
  const kept = (1n << BigInt(sizes.wordBits)) - 1n;
  const words = Array.from({ length: sizes.padded }, (_, n) => readLittleEndian(bytes, WORD_BYTES * n, WORD_BYTES) & kept);
  return { words, elements: PRIMES.map((prime) => readElements(prime, sizes.elements, random)) };
}

/** The share that a seed stands for. */
export function expandProven(sizes: Sizes, seed: Uint8Array): ProvenShare {
  const stream = shake128.create({}).update(framed("verified share seed", seed));
  return readShare(sizes, (count) => stream.xof(count));
}

/** What the shares of all other servers leave of a padded row and its elements. */
export function lastShare(sizes: Sizes, row: readonly bigint[], elements: bigint[][], others: ProvenShare[]): ProvenShare {
  const words = row.map((word, n) => others.reduce((rest, other) => rest - other.words[n], word + sizes.offset));
  const left = elements.map((own, field) =>
    own.map((element, n) => {
      const rest = others.reduce((sum, other) => sum - other.elements[field][n], element) % PRIMES[field];
      return rest < 0n ? rest + PRIMES[field] : rest;
    }),
  );
  return { words, elements: left };
}

export function shareBytes(sizes: Sizes, { words, elements }: ProvenShare): Uint8Array {
  const bytes = new Uint8Array(sizes.payloadBytes);
  words.forEach((word, n) => writeLittleEndian(bytes, WORD_BYTES * n, word, WORD_BYTES));
  elements.flat().forEach((element, n) => writeLittleEndian(bytes, WORD_BYTES * words.length + 8 * n, element, 8));
  return bytes;
}

/** Prove and share a noised row: the payloads of all servers, with the byte that says their form. */
export function splitProven(row: readonly bigint[], sizes: Sizes, isSeeded: boolean, random: RandomBytes): Uint8Array[] {
  const padded = [...row, ...padding(row, sizes.squaredBound)];
  const blinds = PRIMES.map((prime) => readElements(prime, 2 * sizes.columns, random));
  const elements = blinds.map((own, field) => [...own, ...proof(sizes, padded, own, field)]);
  const others = Array.from({ length: sizes.servers - 1 }, () => {
    if (!isSeeded) {
      const share = readShare(sizes, random);
      return { share, payload: concat(Uint8Array.of(2), shareBytes(sizes, share)) };
    }
    const seed = random(SEED_BYTES);
    return { share: expandProven(sizes, seed), payload: concat(Uint8Array.of(3), seed) };
  });
  const last = lastShare(sizes, padded, elements, others.map(({ share }) => share));
  return [...others.map(({ payload }) => payload), concat(Uint8Array.of(2), shareBytes(sizes, last))];
}
