/**
 * Discrete Gaussian noise: the words of docs/reference/noise.md, in its order. No double decides anything.
 * After Canonne, Kamath, Steinke 2020, Algorithms 1 to 3.
 */

import { type RandomBytes, readLittleEndian } from "./bytes.js";

const TOP = (1n << 64n) - 1n;
const BLOCK = 16384;
const FEW = 4;
const SIDE_BY_SIDE = 16;
const MANY_STEPS = 8;

/** So many independent samples with P(x) proportional to exp(-x^2 / (2 sigma^2)); sigma from 1 to 2^29 - 1. */
export function discreteGaussian(count: number, sigma: number, random: RandomBytes): bigint[] {
  const words = new Words(random, Math.min(5 * candidatesFor(count), BLOCK));
  const samples: bigint[] = [];
  while (samples.length < count) {
    const missing = count - samples.length;
    samples.push(...judge(Math.min(candidatesFor(missing), BLOCK), BigInt(sigma), words).slice(0, missing));
  }
  return samples;
}

const candidatesFor = (count: number): number => Math.floor((count * 2082) / 1000) + 5 * Math.floor(Math.sqrt(count)) + 4;

/** Random 64-bit words, read ahead in pieces; what is left of the last piece is thrown away. */
class Words {
  #piece = new Uint8Array();
  #next = 0;

  constructor(private readonly random: RandomBytes, private readonly size: number) {}

  one(): bigint {
    if (this.#next === this.#piece.length) {
      this.#piece = this.random(8 * this.size) as Uint8Array<ArrayBuffer>;
      this.#next = 0;
    }
    this.#next += 8;
    return readLittleEndian(this.#piece, this.#next - 8, 8);
  }

  take(count: number): bigint[] {
    return Array.from({ length: count }, () => this.one());
  }

  /** Uniform words below a limit; all are read, then those that are not below it again. */
  below(limit: bigint, count: number): bigint[] {
    const words = this.take(count);
    let over = [...words.keys()];
    while ((over = over.filter((lane) => words[lane] >= limit)).length) for (const lane of over) words[lane] = this.one();
    return words;
  }
}

interface Lane {
  y: bigint;
  /** The coin that decides shows exp(-exponent / (2 sigma^2)). */
  exponent: bigint;
  refused: boolean;
}

function judge(count: number, sigma: bigint, words: Words): bigint[] {
  const whole = 2n * sigma * sigma;
  const step = TOP / (2n * sigma);
  const starts = words.below(step * 2n * sigma, count).map((word) => word / step);
  const draws = words.take(count);
  const lanes = starts.map((start, place) => laneOf(start, stepsOf(draws[place]), sigma));
  draws.forEach((word, place) => {
    if (isUnsettled(word)) lanes[place] = settled(starts[place], word, sigma, whole, words);
  });
  const heavy = lanes.filter((lane) => lane.exponent >= whole);
  const tried = words.take(heavy.length);
  heavy.forEach((lane, place) => {
    if (!belowPower(tried[place], Number(lane.exponent / whole), words)) lane.refused = true;
    lane.exponent %= whole;
  });
  const left = lanes.filter((lane) => !lane.refused);
  const kept = coins(left.map((lane) => lane.exponent), whole, words);
  return left.filter((_, place) => kept[place]).map((lane) => lane.y);
}

/** The candidate u + sigma v, whose sign is the lowest bit of `start` = 2 u + s; minus zero is refused. */
function laneOf(start: bigint, steps: number, sigma: bigint): Lane {
  const u = start >> 1n;
  const size = u + sigma * BigInt(steps);
  const negative = start & 1n;
  const distance = size - sigma;
  return {
    y: negative ? -size : size,
    exponent: 2n * sigma * u + distance * distance,
    refused: size === 0n && negative === 1n,
  };
}

/** How many powers of 1/e, of the first eight, are above a word. */
function stepsOf(word: bigint): number {
  let steps = 0;
  while (steps < MANY_STEPS && word < power(steps + 1)) steps++;
  return steps;
}

/** Whether a word is at most the eighth power, or ties with one: then it alone does not say how many steps it means. */
function isUnsettled(word: bigint): boolean {
  const steps = stepsOf(word);
  return steps === MANY_STEPS || word === power(steps + 1);
}

/** A lane whose word ties with a power, or means many steps: these are judged at once. */
function settled(start: bigint, word: bigint, sigma: bigint, whole: bigint, words: Words): Lane {
  const steps = geometric(word, words);
  const lane = laneOf(start, steps, sigma);
  if (steps < MANY_STEPS) return lane;
  const kept =
    belowPower(words.one(), Number(lane.exponent / whole), words) && series(lane.exponent % whole, whole, 1, words);
  return { y: lane.y, exponent: 0n, refused: !kept };
}

/** For each numerator a <= b a coin that shows exp(-a / b): whether the first trial that fails has an odd number. */
function coins(numerators: bigint[], whole: bigint, words: Words): boolean[] {
  const shown = numerators.map(() => true);
  let live = [...numerators.keys()];
  let trial = 0;
  while (live.length > FEW && trial < SIDE_BY_SIDE) {
    trial++;
    const bound = BigInt(trial) * whole;
    const step = TOP / bound;
    const draws = words.below(step * bound, live.length);
    live = live.filter((lane, place) => draws[place] < numerators[lane] * step);
    for (const lane of live) shown[lane] = trial % 2 === 0;
  }
  for (const lane of live) shown[lane] = series(numerators[lane], whole, trial + 1, words);
  return shown;
}

function series(numerator: bigint, whole: bigint, trial: number, words: Words): boolean {
  while (bernoulli(numerator, BigInt(trial) * whole, words)) trial++;
  return trial % 2 === 1;
}

function bernoulli(numerator: bigint, denominator: bigint, words: Words): boolean {
  let top = TOP;
  while (top < denominator) top = (top << 64n) | TOP;
  const step = top / denominator;
  for (;;) {
    let draw = 0n;
    for (let rest = top; rest; rest >>= 64n) draw = (draw << 64n) | words.one();
    if (draw < step * denominator) return draw < step * numerator;
  }
}

/** v with P(v >= j) = exp(-j), of a uniform real that begins with a word. */
function geometric(word: bigint, words: Words): number {
  let [value, bits, steps] = [word, 64, 0];
  for (;;) {
    while (value === power(steps + 1, bits)) [value, bits] = [(value << 64n) | words.one(), bits + 64];
    if (value > power(steps + 1, bits)) return steps;
    steps++;
  }
}

function belowPower(word: bigint, exponent: number, words: Words): boolean {
  let [value, bits] = [word, 64];
  while (value === power(exponent, bits)) [value, bits] = [(value << 64n) | words.one(), bits + 64];
  return value < power(exponent, bits);
}

const POWERS: bigint[][] = [];

/**
 * floor(2^bits exp(-exponent)). The sum of exponent^i / i!, each term rounded down, encloses exp(exponent); precision
 * grows until both ends give the same digits.
 */
function power(exponent: number, bits = 64): bigint {
  const known = (POWERS[bits / 64] ??= []);
  let digits: bigint | undefined = known[exponent];
  for (let precision = BigInt(bits) + 64n; digits === undefined; precision *= 2n) {
    let [low, loss, term, termLoss] = [0n, 0n, 1n << precision, 0n];
    for (let index = 1n; term || index <= 2n * BigInt(exponent) + 1n; index++) {
      low += term;
      loss += termLoss;
      [term, termLoss] = [(term * BigInt(exponent)) / index, (termLoss * BigInt(exponent)) / index + 2n];
    }
    const dividend = 1n << (BigInt(bits) + precision);
    const high = low + loss + 2n * (term + termLoss);
    if (dividend / low === dividend / high) known[exponent] = digits = dividend / low;
  }
  return digits;
}
