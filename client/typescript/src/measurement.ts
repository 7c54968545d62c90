/** A mechanism in the setting of a task: how a row becomes words, which noise they get, and the privacy of a release. */

import type { RandomBytes } from "./bytes.js";
import { dithered, isLonger, quantise } from "./clipping.js";
import { refuse } from "./errors.js";
import { type Block, type Document, type Kind, MAX_SIGMA, squaredBound } from "./mechanisms/kind.js";
import type { Osnap } from "./mechanisms/osnap.js";
import { discreteGaussian } from "./noise.js";
import { type Claim, noiseDelta, quotaOf } from "./privacy/claim.js";
import { gaussianMu, rowSlack, smoothedSlack } from "./privacy/gaussian.js";
import { MAX_SLACK, SMOOTHING, type Statement, requireClaim, statementOf } from "./privacy/statement.js";
import { type Rational, add, compare, floor, isPositive, isqrt, parseReal, rational, square, times, toNumber } from "./rational.js";

const MAX_SERVERS = 16;
const SEED_ATTEMPTS = 3;
const MIN_OVERLAPPING_SIGMA = 8;
const MAX_SQUARED_BOUND = 1n << 60n;
const LOG_MAX_WRAP = Math.log(1e-12);

const upperRoot = (value: Rational): number => Math.sqrt(toNumber(value)) * (1 + 1e-15);
const largestSigma = ({ sigma }: Block): number => (typeof sigma === "number" ? sigma : Math.max(sigma.product, sigma.square));

export class Measurement {
  readonly blocks: Block[];
  readonly numWords: number;
  /** g, what a clipped row adds to the clip counter; 0 without one. */
  private readonly counter: bigint;
  private readonly sketch: { rows: number; sparsity: number } | undefined;

  constructor(
    readonly kind: Kind<Document>, readonly document: Document, readonly columns: number, readonly noisingServers: number,
  ) {
    this.sketch = kind.sketch?.(document);
    this.blocks = kind.blocks(document, columns).filter(({ size }) => size);
    const weight = parseReal(document.clip_count_weight ?? "0");
    this.counter = isqrt(floor(times(square(weight), this.clipScale())));
    if (document.clip_count_weight)
      this.blocks.push({ size: 1, sigma: document.sigma, bound: this.counter, isTotal: this.sketch !== undefined });
    this.numWords = this.blocks.reduce((total, { size }) => total + size, 0);
  }

  /** The square of what the weight of a clip counter refers to. */
  private clipScale(): Rational {
    const { kind, document, sketch } = this;
    if (!sketch) return kind.squaredDistance(document, "replace-one");
    const rows = this.noisingServers ? sketch.sparsity : sketch.rows;
    return rational(4n * BigInt(rows) * squaredBound(document));
  }

  // --- the client's part -------------------------------------------------------------------------------------------

  /** The noiseless words of a normalised row, in which what is missing is NaN; only dithering reads random bytes. */
  exact(row: number[], isOutside: boolean, random: RandomBytes): bigint[] {
    const { kind, document } = this;
    const steps = kind.clip ? kind.clip(document, row) : this.clipped(row, random);
    if (kind.leavesOut?.(document) && row.some(Number.isNaN)) return new Array<bigint>(this.numWords).fill(0n);
    const words = kind.fill(document, steps);
    return document.clip_count_weight ? [...words, isOutside || this.isClipped(row) ? this.counter : 0n] : words;
  }

  private clipped(row: number[], random: RandomBytes): bigint[] {
    const unit = 2 ** this.document.fraction_bits;
    const steps = row.map((value) => (Number.isNaN(value) ? 0 : value * unit));
    const bound = squaredBound(this.document);
    return this.document.rounding ? dithered(steps, bound, random) : quantise(steps, bound);
  }

  /** Whether the norm bound shortens a row. */
  isClipped(row: number[]): boolean {
    if (this.kind.clip) return false;
    return isLonger(row.map((value) => (Number.isNaN(value) ? 0 : value)), Number(this.document.row_bound));
  }

  /** Add a draw of noise to exact words, those of the smallest deviation first; none where servers add it. */
  noised(exact: readonly bigint[], random: RandomBytes): bigint[] {
    const words = [...exact];
    if (this.noisingServers) return words;
    const places = new Map<number, number[]>();
    this.sigmas().forEach((sigma, place) => {
      const own = places.get(sigma);
      if (own) own.push(place);
      else places.set(sigma, [place]);
    });
    for (const [sigma, own] of [...places].sort(([a], [b]) => a - b)) {
      const drawn = discreteGaussian(own.length, sigma, random);
      own.forEach((place, index) => (words[place] += drawn[index]));
    }
    return words;
  }

  /** The deviation of every word's noise. */
  sigmas(): number[] {
    return this.blocks.flatMap(({ size, sigma }) => {
      if (typeof sigma === "number") return new Array<number>(size).fill(sigma);
      const rows = Array.from({ length: sigma.columns }, (_, row) => sigma.columns - row);
      return rows.flatMap((count) => [sigma.square, ...new Array<number>(count - 1).fill(sigma.product)]);
    });
  }

  // --- what a row can move -----------------------------------------------------------------------------------------

  /** B2, the largest squared norm of a noiseless report. */
  get squaredLength(): bigint {
    return this.kind.squaredLength(this.document) + this.counter ** 2n;
  }

  private ofRows(claim: Claim): Rational {
    return this.kind.squaredDistance(this.document, claim.neighbours);
  }

  /** The squared distance of two releases that one draw of noise has to hide. */
  private shift(claim: Claim): Rational {
    const copies = this.noisingServers && this.sketch ? this.sketch.sparsity : 1;
    return add(times(this.ofRows(claim), rational(BigInt(copies))), rational(this.counter ** 2n));
  }

  /** Whether rows of a release share the noise of clients. */
  get isOverlapping(): boolean {
    return this.sketch !== undefined && this.sketch.sparsity > 1 && !this.noisingServers;
  }

  // --- privacy -----------------------------------------------------------------------------------------------------

  /** The privacy of a release of so many reports, before the matrix is drawn. */
  privacy(claim: Claim, clients: number): Statement {
    const { rows, sparsity } = this.sketch ?? { rows: 1, sparsity: 1 };
    const sigma = this.document.sigma;
    if (this.noisingServers) {
      const words = this.blocks.reduce((sum, { size, isTotal }) => sum + size * (isTotal ? 1 : sparsity), 0);
      const mu = upperRoot(this.shift(claim)) / Math.sqrt(sigma ** 2 - SMOOTHING);
      const statement = statementOf(claim, mu, rowSlack(1, words, sigma ** 2, SMOOTHING), 1);
      return { ...statement, corrupt: Math.max(clients - 1, claim.corrupt), threat: "adaptive" };
    }
    const quota = quotaOf(claim, rows, sparsity, this.sketch ? SEED_ATTEMPTS : 1);
    const honest = Math.floor(clients / Math.ceil(rows / sparsity)) - quota;
    if (honest < 1) refuse("row_underfilled", `a row holds ${honest} honest clients beyond the tolerated coalition`);
    if (!this.sketch) {
      const mu = upperRoot(this.shift(claim)) / Math.sqrt(honest * sigma ** 2 - SMOOTHING);
      return statementOf(claim, mu, rowSlack(honest, this.numWords, sigma ** 2, SMOOTHING), honest);
    }
    const behind = clients - claim.corrupt;
    const beside = (Number(this.counter) / Math.sqrt(behind * sigma ** 2 - SMOOTHING)) * (1 + 1e-15);
    const ofCounter = this.counter ? rowSlack(behind, 1, sigma ** 2, SMOOTHING) : 0;
    const distance = upperRoot(this.ofRows(claim));
    if (this.isOverlapping) {
      const leverage = Number((this.document as Osnap).leverage);
      const slack = smoothedSlack(clients, rows, this.columns, sigma ** 2, this.smoothing ** 2, sparsity);
      return statementOf(claim, Math.hypot((distance * Math.sqrt(leverage)) / sigma, beside), slack + ofCounter, honest);
    }
    const slack = rowSlack(honest, this.columns, sigma ** 2, SMOOTHING);
    const mu = Math.hypot(distance / Math.sqrt(honest * sigma ** 2 - SMOOTHING), beside);
    return statementOf(claim, mu, slack + ofCounter, honest);
  }

  /** The privacy of the worst release that the servers let pass. */
  worstPrivacy(claim: Claim): Statement {
    const statement = this.privacy(claim, claim.minClients);
    if (!this.isOverlapping) return statement;
    const allowed = gaussianMu(claim.epsilon, noiseDelta(claim) * (1 + 1e-14)) * (1 + 1e-12);
    return { ...statement, mu: Math.max(statement.mu, allowed), slack: MAX_SLACK };
  }

  /** The parameter of the noise that every server adds where rows overlap: the least integer of 2 sqrt(s) or more. */
  private get smoothing(): number {
    return this.isOverlapping ? Math.ceil(2 * Math.sqrt(this.sketch!.sparsity)) : 0;
  }

  // --- what a task may say -----------------------------------------------------------------------------------------

  /** Refuse parameters that break the claim or may overflow the ring. */
  check(claim: Claim, maxClients: number): void {
    const { kind, document } = this;
    const byServers = this.noisingServers > 0;
    kind.check?.(document, { columns: this.columns, neighbours: claim.neighbours, byServers });
    if (this.sketch) this.checkLeverage(parseReal((document as Osnap).leverage));
    const weight = parseReal(document.clip_count_weight ?? "0");
    const bound = squaredBound(document);
    if (!isPositive(parseReal(document.row_bound)) || bound <= 0n || bound > MAX_SQUARED_BOUND)
      refuse("invalid_task", `row_bound ${document.row_bound} is not positive, or does not fit 30 bits`);
    if (document.rounding && (!kind.allows.dither || bound < 4n * BigInt(this.columns)))
      refuse("invalid_task", "rounding: not offered here, or the grid is too coarse");
    if (document.floor) refuse("invalid_task", "floor: belongs to noise of both");
    if (document.clip_count_weight && !kind.allows.clipCounter)
      refuse("invalid_task", `clip_count_weight: ${document.kind} cannot count clipped rows`);
    if (weight.n < 0n || compare(weight, rational(1n)) > 0 || (document.clip_count_weight && !this.counter))
      refuse("invalid_task", "clip_count_weight: not from 0 to 1, or less than one step of the grid");
    if (this.blocks.some((block) => largestSigma(block) > MAX_SIGMA)) refuse("invalid_task", "sigma is too large");
    if (this.blocks.some(({ bound: word }) => word >= 1n << 62n) || this.logWrap(maxClients) > LOG_MAX_WRAP)
      refuse("invalid_task", `${maxClients} clients may overflow the ring; use fewer fraction bits`);
    requireClaim(this.privacy(claim, claim.minClients), claim);
    if (kind.leavesOut?.(document) && !this.blocks[this.blocks.length - 1 - Number(!!document.clip_count_weight)].bound)
      refuse("invalid_task", "count: what a row counts is less than one step of the grid");
  }

  private checkLeverage(leverage: Rational): void {
    if (this.isOverlapping !== (isPositive(leverage) && compare(leverage, rational(1n)) <= 0))
      refuse("invalid_task", "leverage: does not fit the sparsity, or who adds the noise");
    if (this.isOverlapping && this.document.sigma < MIN_OVERLAPPING_SIGMA)
      refuse("invalid_task", `sigma is below ${MIN_OVERLAPPING_SIGMA}, the least where rows overlap`);
  }

  /** ln of a bound on the chance that any released entry leaves the ring. */
  private logWrap(maxClients: number): number {
    const { rows, sparsity } = this.sketch ?? { rows: 1, sparsity: 1 };
    const fullest = Math.ceil(maxClients / Math.max(1, Math.floor(rows / sparsity)));
    const parts = [false, true].map((isTotal) => {
      const blocks = this.blocks.filter((block) => (block.isTotal ?? false) === isTotal);
      if (!blocks.length) return -Infinity;
      const behind = isTotal ? maxClients : fullest;
      const largest = blocks.reduce((most, { bound }) => (bound > most ? bound : most), 0n);
      const sigma = Math.max(...blocks.map(largestSigma));
      const variance = (this.noisingServers || behind) * sigma ** 2 + MAX_SERVERS * this.smoothing ** 2;
      const room = (1n << 63n) - BigInt(behind) * largest;
      const entries = rows * blocks.reduce((sum, { size }) => sum + size, 0);
      return room > 0n ? Math.log(2 * entries) - toNumber(rational(room * room)) / (2 * variance) : Infinity;
    });
    const [larger, smaller] = [Math.max(...parts), Math.min(...parts)];
    return Math.abs(larger) === Infinity || smaller === -Infinity ? larger : larger + Math.log1p(Math.exp(smaller - larger));
  }
}
