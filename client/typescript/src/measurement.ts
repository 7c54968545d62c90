/** A mechanism in the setting of a task: how a row becomes words, which noise they get, and the privacy of a release. */

import type { RandomBytes } from "./bytes.js";
import { dithered, isLonger, quantise } from "./clipping.js";
import { refuse } from "./errors.js";
import { type Block, type Document, type Kind, MAX_SIGMA, squaredBound } from "./mechanisms/kind.js";
import type { Osnap } from "./mechanisms/osnap.js";
import { discreteGaussian } from "./noise.js";
import { type Claim, noiseDelta, quotaOf } from "./privacy/claim.js";
import { aloneSlack, gaussianMu, rowSlack, smoothedSlack } from "./privacy/gaussian.js";
import { MAX_SLACK, SMOOTHING, type Statement, requireClaim, statementOf } from "./privacy/statement.js";
import { type Rational, add, compare, floor, isPositive, isqrt, parseReal, rational, square, times, toNumber } from "./rational.js";

const MAX_SERVERS = 16;
const SEED_ATTEMPTS = 3;
const MIN_OVERLAPPING_SIGMA = 8;
const MAX_SQUARED_BOUND = 1n << 60n;
const MIN_FLOOR = 2;
const LOG_MAX_WRAP = Math.log(1e-12);

/** What a task decides for its mechanism: who adds noise, and whether a release may hold several reports of a source. */
export interface Setting {
  /** How many servers add the noise in place of clients. */
  noisingServers: number;
  /** How many add a floor of noise to that of clients. */
  floorServers: number;
  merges: boolean;
}

export const CLIENTS_NOISE: Setting = { noisingServers: 0, floorServers: 0, merges: false };

const upperRoot = (value: Rational): number => Math.sqrt(toNumber(value)) * (1 + 1e-15);
/** What is missing stands at its column's centre. */
const known = (value: number): number => (Number.isNaN(value) ? 0 : value);
const largestSigma = ({ sigma }: Block): number => (typeof sigma === "number" ? sigma : Math.max(sigma.product, sigma.square));

export class Measurement {
  readonly #setting: Setting;
  readonly blocks: Block[];
  readonly numWords: number;
  /** g, what a clipped row adds to the clip counter; 0 without one. */
  readonly #counter: bigint;
  readonly #sketch: { rows: number; sparsity: number } | undefined;

  constructor(
    readonly kind: Kind<Document>, readonly document: Document, readonly columns: number, setting: Setting = CLIENTS_NOISE,
  ) {
    this.#setting = setting;
    this.#sketch = kind.sketch?.(document);
    this.blocks = kind.blocks(document, columns).filter(({ size }) => size);
    const weight = parseReal(document.clip_count_weight ?? "0");
    this.#counter = isqrt(floor(times(square(weight), this.#clipScale())));
    if (document.clip_count_weight)
      this.blocks.push({ size: 1, sigma: document.sigma, bound: this.#counter, isTotal: this.#sketch !== undefined });
    this.numWords = this.blocks.reduce((total, { size }) => total + size, 0);
  }

  /** The square of what the weight of a clip counter refers to. */
  #clipScale(): Rational {
    const { kind, document } = this;
    const sketch = this.#sketch;
    if (!sketch) return kind.squaredDistance(document, "replace-one");
    const rows = this.#setting.noisingServers || this.#setting.floorServers ? sketch.sparsity : sketch.rows;
    return rational(4n * BigInt(rows) * squaredBound(document));
  }

  // --- the client's part -------------------------------------------------------------------------------------------

  /** The noiseless words of a normalised row, in which what is missing is NaN; only dithering reads random bytes. */
  exact(row: number[], isOutside: boolean, random: RandomBytes): bigint[] {
    const { kind, document } = this;
    const steps = kind.clip?.(document, row, random) ?? this.#clipped(row, random);
    if (kind.leavesOut?.(document) && row.some(Number.isNaN)) return new Array<bigint>(this.numWords).fill(0n);
    const words = kind.fill(document, steps);
    return document.clip_count_weight ? [...words, isOutside || this.isClipped(row) ? this.#counter : 0n] : words;
  }

  #clipped(row: number[], random: RandomBytes): bigint[] {
    const unit = 2 ** this.document.fraction_bits;
    const steps = row.map((value) => known(value) * unit);
    const bound = squaredBound(this.document);
    return this.document.rounding ? dithered(steps, bound, random) : quantise(steps, bound);
  }

  /** Whether a row is too large to be encoded as it is: longer than the norm bound, unless the kind says otherwise. */
  isClipped(row: number[]): boolean {
    const { kind, document } = this;
    return kind.isClipped?.(document, row) ?? isLonger(row.map(known), Number(document.row_bound));
  }

  /** Add a draw of noise to exact words, those of the smallest deviation first; none where servers add it. */
  noised(exact: readonly bigint[], random: RandomBytes): bigint[] {
    const words = [...exact];
    if (this.#setting.noisingServers) return words;
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
    return this.kind.squaredLength(this.document) + this.#counter ** 2n;
  }

  #ofRows(claim: Claim): Rational {
    return this.kind.squaredDistance(this.document, claim.neighbours);
  }

  /** The squared distance of two releases that one draw of noise has to hide. */
  #shift(claim: Claim): Rational {
    const copies = this.#setting.noisingServers && this.#sketch ? this.#sketch.sparsity : 1;
    return add(times(this.#ofRows(claim), rational(BigInt(copies))), rational(this.#counter ** 2n));
  }

  /** Whether rows of a release share the noise of clients. */
  get isOverlapping(): boolean {
    return this.#sketch !== undefined && this.#sketch.sparsity > 1 && !this.#setting.noisingServers;
  }

  // --- privacy -----------------------------------------------------------------------------------------------------

  /** The privacy of a release of so many reports, before the matrix is drawn. */
  privacy(claim: Claim, clients: number): Statement {
    const { rows, sparsity } = this.#sketch ?? { rows: 1, sparsity: 1 };
    const [variance, floor] = this.#variances;
    const slack = (honest: number, words: number) => rowSlack(honest, words, variance, SMOOTHING, floor);
    const mu = (distance: number, honest: number) => distance / Math.sqrt(honest * variance + floor - SMOOTHING);
    if (this.#setting.noisingServers) {
      const words = this.blocks.reduce((sum, { size, isTotal }) => sum + size * (isTotal ? 1 : sparsity), 0);
      const statement = statementOf(claim, mu(upperRoot(this.#shift(claim)), 1), slack(1, words), 1);
      return { ...statement, corrupt: Math.max(clients - 1, claim.corrupt), threat: "adaptive" };
    }
    const quota = quotaOf(claim, rows, sparsity, this.#sketch ? SEED_ATTEMPTS : 1);
    const honest = Math.floor(clients / Math.ceil(rows / sparsity)) - quota;
    if (honest < 1) refuse("row_underfilled", `a row holds ${honest} honest clients`);
    if (!this.#sketch) return statementOf(claim, mu(upperRoot(this.#shift(claim)), honest), slack(honest, this.numWords), honest);
    const behind = clients - claim.corrupt;
    const beside = mu(Number(this.#counter), behind) * (1 + 1e-15);
    const ofCounter = this.#counter ? slack(behind, 1) : 0;
    const distance = upperRoot(this.#ofRows(claim));
    if (this.isOverlapping) {
      // A floor leaves L / (1 + r L / s) of a leverage L, r = (floor - 4) / variance (servers.md, two layers).
      const least = floor ? SMOOTHING : this.#smoothing ** 2;
      const own = smoothedSlack(clients, rows, this.columns, variance, floor || least, sparsity, least);
      const planned = Number((this.document as Osnap).leverage);
      const hidden = floor && ((floor - SMOOTHING) / variance) * (planned / sparsity) * (1 - 1e-15);
      const shown = (distance * Math.sqrt(planned / (1 + hidden))) / this.document.sigma;
      return statementOf(claim, Math.hypot(shown, beside), own + ofCounter, honest);
    }
    return statementOf(claim, Math.hypot(mu(distance, honest), beside), slack(honest, this.columns) + ofCounter, honest);
  }

  /**
   * The privacy of a client of whom all others are invented or corrupt (Theorem T2); `lone` is what is promised of it.
   * None is known where only its own noise hides a row that enters several ones.
   */
  alone(claim: Claim, lone: Claim): Statement | undefined {
    if ((this.#sketch?.rows ?? 1) === 1 && claim.corrupt >= lone.corrupt) return this.privacy(claim, claim.minClients);
    const [variance, floor] = this.#variances;
    const entries = this.isOverlapping ? this.#sketch!.sparsity : 1;
    if (entries > 1 && !floor) return undefined;
    const own = floor && this.#setting.merges ? 0 : variance; // of merged reports the source's own noise does not count
    const behind = (copies: number) => Math.sqrt(((floor - SMOOTHING) / copies + own) * (1 - 1e-15));
    const mu = Math.hypot(upperRoot(this.#ofRows(claim)) / behind(entries), Number(this.#counter) / behind(1));
    return statementOf(lone, mu, aloneSlack(this.numWords, variance, SMOOTHING, floor, entries), 1);
  }

  /** The variance of a client's noise, and that of one server's floor. */
  get #variances(): [number, number] {
    return [this.document.sigma ** 2, (this.document.floor ?? 0) ** 2];
  }

  /** The privacy of the worst release that the servers let pass. */
  worstPrivacy(claim: Claim): Statement {
    const statement = this.privacy(claim, claim.minClients);
    if (!this.isOverlapping) return statement;
    const allowed = gaussianMu(claim.epsilon, noiseDelta(claim) * (1 + 1e-14)) * (1 + 1e-12);
    return { ...statement, mu: Math.max(statement.mu, allowed), slack: MAX_SLACK };
  }

  /** The parameter of the noise that every server adds where rows overlap: the least integer of 2 sqrt(s) or more. */
  get #smoothing(): number {
    return this.isOverlapping && !this.#setting.floorServers ? this.#leastSmoothing : 0;
  }

  get #leastSmoothing(): number {
    return Math.ceil(2 * Math.sqrt(this.#sketch?.sparsity ?? 1));
  }

  // --- what a task may say -----------------------------------------------------------------------------------------

  /** Refuse parameters that break the claim or may overflow the ring. */
  check(claim: Claim, maxClients: number): void {
    const { kind, document } = this;
    kind.check?.(document, { columns: this.columns, neighbours: claim.neighbours });
    this.#checkFloor();
    if (this.#sketch) this.#checkLeverage(parseReal((document as Osnap).leverage));
    const weight = parseReal(document.clip_count_weight ?? "0");
    const bound = squaredBound(document);
    if (!isPositive(parseReal(document.row_bound)) || bound <= 0n || bound > MAX_SQUARED_BOUND)
      refuse("invalid_task", "row_bound: not positive, or too large");
    if (document.rounding && (!kind.allows.dither || bound < 4n * BigInt(this.columns + Number(!!document.row_weights))))
      refuse("invalid_task", "rounding: not offered here, too coarse");
    const counts = kind.allows.clipCounter && this.#counter && weight.n > 0n && compare(weight, rational(1n)) <= 0;
    if (document.clip_count_weight && !counts)
      refuse("invalid_task", "clip_count_weight: not offered here, not from 0 to 1, or below one step");
    if (this.blocks.some((block) => largestSigma(block) > MAX_SIGMA)) refuse("invalid_task", "sigma: too large");
    if (this.blocks.some(({ bound: word }) => word >= 1n << 62n) || this.#logWrap(maxClients) > LOG_MAX_WRAP)
      refuse("invalid_task", "max_clients: the ring may overflow");
    requireClaim(this.privacy(claim, claim.minClients), claim);
    if (kind.leavesOut?.(document) && !this.blocks[this.blocks.length - 1 - Number(!!document.clip_count_weight)].bound)
      refuse("invalid_task", "count: too small");
  }

  #checkFloor(): void {
    const { floor = 0 } = this.document;
    const setting = this.#setting;
    // Two signs or more in a column need a floor of 3 or more, as merged windows do.
    const least = this.isOverlapping ? this.#leastSmoothing : floor && MIN_FLOOR + Number(setting.merges);
    const largest = this.#floorOf(Math.max(...this.blocks.map(largestSigma)));
    if (setting.floorServers ? floor < least || largest > MAX_SIGMA : floor)
      refuse("invalid_task", `floor ${floor}: too small or large, or not for this noise`);
  }

  /** The deviation of the floor in a word whose noise has such a one. */
  #floorOf(sigma: number): number {
    const own = BigInt(this.document.sigma);
    return Number((BigInt(this.document.floor ?? 0) * BigInt(sigma) + own - 1n) / own);
  }

  #checkLeverage(leverage: Rational): void {
    if (this.isOverlapping !== (isPositive(leverage) && compare(leverage, rational(1n)) <= 0))
      refuse("invalid_task", "leverage: no fit to sparsity or noise");
    if (this.isOverlapping && this.document.sigma < MIN_OVERLAPPING_SIGMA)
      refuse("invalid_task", `sigma: below ${MIN_OVERLAPPING_SIGMA}`);
  }

  /** ln of a bound on the chance that any released entry leaves the ring. */
  #logWrap(maxClients: number): number {
    const { rows, sparsity } = this.#sketch ?? { rows: 1, sparsity: 1 };
    const fullest = Math.ceil(maxClients / Math.max(1, Math.floor(rows / sparsity)));
    const parts = [false, true].map((isTotal) => {
      const blocks = this.blocks.filter((block) => (block.isTotal ?? false) === isTotal);
      if (!blocks.length) return -Infinity;
      const behind = isTotal ? maxClients : fullest;
      const largest = blocks.reduce((most, { bound }) => (bound > most ? bound : most), 0n);
      const sigma = Math.max(...blocks.map(largestSigma));
      const ofServers = MAX_SERVERS * (this.#smoothing ** 2 + this.#floorOf(sigma) ** 2);
      const variance = (this.#setting.noisingServers || behind) * sigma ** 2 + ofServers;
      const room = (1n << 63n) - BigInt(behind) * largest;
      const entries = rows * blocks.reduce((sum, { size }) => sum + size, 0);
      return room > 0n ? Math.log(2 * entries) - toNumber(rational(room * room)) / (2 * variance) : Infinity;
    });
    const [larger, smaller] = [Math.max(...parts), Math.min(...parts)];
    return Math.abs(larger) === Infinity || smaller === -Infinity ? larger : larger + Math.log1p(Math.exp(smaller - larger));
  }
}
