/**
 * The ledger and outbox of a device (rule R12): at most one report per task, batch and source; each source below the
 * ceiling over all tasks together; the charge durable, together with the sealed messages, before a byte leaves.
 */

import { refuse, refusingAs } from "./errors.js";
import type { Json } from "./json.js";
import { shiftedEpsilon } from "./privacy/gaussian.js";
import type { Statement } from "./privacy/statement.js";
import { type Rational, minus, ofDouble, parseReal, rational, square, times, toNumber } from "./rational.js";
import { anyText, integer, object, real, type Shape } from "./shapes.js";
import type { Task } from "./task.js";

/** What a report cost its source: sums of decimals, which are exact. */
export interface Spending {
  mu_squared: string;
  slack: string;
  delta_coalition: string;
  delta_shares: string;
}

/** A report of one source in one batch: its charge, which stays for ever, and what its servers have not got yet. */
export interface Entry {
  task: string;
  batch: number;
  source: string;
  report: string;
  spent: Spending;
  /** Seconds since the epoch, after which no server takes it. */
  expires: number;
  /** By server: an upload that was not acknowledged; null once it is given up. */
  sealed: Record<number, Uint8Array | null>;
  /** By server: its signed receipt, encoded. */
  receipts: Record<number, string>;
}

/** Where entries are kept. Three functions make a store. */
export interface Store {
  /** Do some work while nobody else, in any tab or process, does such work in this store. */
  alone<T>(work: () => Promise<T>): Promise<T>;
  all(): Promise<Entry[]>;
  /** Keep an entry in place of the one of the same task, batch and source; on disk when this returns. */
  put(entry: Entry): Promise<void>;
}

const record: Shape = (value, place) => {
  if (value === null || typeof value !== "object") refuse("ledger_refused", `${place}: expected an object`);
};
const entryShape = object({
  task: anyText, batch: integer(0), source: anyText, report: anyText, expires: integer(0), sealed: record, receipts: record,
  spent: object({ mu_squared: real, slack: real, delta_coalition: real, delta_shares: real }),
});

const PLACES = 40;
const DIGITS = 20;
const ROUNDING = 1 + 1e-9;

/** Spell a number from 0 on with at most twenty digits and forty places, rounded up. */
function roundedUp(value: Rational): string {
  let unit = 10n ** BigInt(PLACES);
  const ceiling = () => (value.n * unit + value.d - 1n) / value.d;
  let digits = ceiling();
  const excess = String(digits).length - DIGITS;
  if (excess > 0) {
    const cut = 10n ** BigInt(excess);
    digits = ((digits + cut - 1n) / cut) * cut;
  }
  const text = String(digits).padStart(PLACES + 1, "0");
  return `${text.slice(0, -PLACES)}.${text.slice(-PLACES)}`.replace(/\.?0+$/, "");
}

/** What a statement costs, replacing a row: against the null row mu counts twice, and slack once. */
export function priceOf({ mu, slack, failure, shift, neighbours }: Statement): Spending {
  if (!(mu < 1e9)) refuse("ledger_refused", "the task's privacy cannot be counted");
  return {
    mu_squared: roundedUp(square(ofDouble(neighbours === "zero-out" ? 2 * mu : mu))),
    slack: roundedUp(ofDouble(slack)), delta_coalition: roundedUp(ofDouble(failure)), delta_shares: roundedUp(ofDouble(shift)),
  };
}

const FIELDS = ["mu_squared", "slack", "delta_coalition", "delta_shares"] as const;

function sumOf(parts: readonly Spending[]): Record<(typeof FIELDS)[number], Rational> {
  const total = (field: (typeof FIELDS)[number]) =>
    parts.reduce((sum, part) => minus(sum, times(parseReal(part[field]), rational(-1n))), rational(0n));
  return Object.fromEntries(FIELDS.map((field) => [field, total(field)])) as ReturnType<typeof sumOf>;
}

/** Epsilon of everything together, at a delta; infinite where what is no noise does not fit. */
export function epsilonOf(parts: readonly Spending[], delta: number): number {
  const { mu_squared, slack, delta_coalition, delta_shares } = sumOf(parts);
  const left = minus(ofDouble(delta), delta_coalition);
  if (left.n <= 0n) return Infinity;
  const up = (value: Rational) => toNumber(value) * (1 + 1e-15);
  const mu = Math.sqrt(toNumber(mu_squared)) * (1 + 1e-15);
  return shiftedEpsilon(mu, toNumber(left) * (1 - 1e-15), up(slack), up(delta_shares));
}

export class Ledger {
  constructor(readonly store: Store, readonly maxEpsilon = 3, readonly delta = 1e-6) {
    if (!(maxEpsilon > 0 && maxEpsilon < Infinity && delta > 0 && delta < 1))
      throw new RangeError("the ceiling is a positive number, and delta lies between 0 and 1");
  }

  /** All entries; a damaged one lets nothing leave. */
  async entries(): Promise<Entry[]> {
    const entries = await this.store.all();
    for (const entry of entries)
      refusingAs("ledger_refused", "the ledger is damaged", () => entryShape(entry as unknown as Json, "entry"));
    return entries;
  }

  /** The report of a source in a batch, or nothing. */
  async find(task: Task, batch: number, source: string): Promise<Entry | undefined> {
    return (await this.entries()).find((entry) => entry.task === task.id && entry.batch === batch && entry.source === source);
  }

  /** Refuse a report of a source that has none in this batch, if it would be one too many or above the ceiling. */
  async price(task: Task, source: string): Promise<Spending> {
    const own = (await this.entries()).filter((entry) => entry.source === source);
    if (own.filter((entry) => entry.task === task.id).length >= task.reportsPerSource)
      refuse("ledger_refused", `reports_per_source is ${task.reportsPerSource}, and this source has as many`);
    const spent = own.map((entry) => entry.spent);
    const price = priceOf(task.worstCharge());
    const after = epsilonOf([...spent, price], this.delta);
    if (!(after <= this.maxEpsilon * ROUNDING))
      refuse("ledger_refused", `epsilon at delta ${this.delta} would be ${after.toPrecision(6)}; the ceiling is ${this.maxEpsilon}`);
    return price;
  }

  /** Change the entry of a source, which must be there. */
  async change(key: Entry, change: (entry: Entry) => Entry): Promise<void> {
    await this.store.alone(async () => {
      const held = (await this.entries()).find(
        ({ task, batch, source }) => task === key.task && batch === key.batch && source === key.source,
      );
      await this.store.put(change(held ?? key));
    });
  }

  /** Drop messages that no server takes any more; charges and receipts stay. */
  async expire(now: number): Promise<void> {
    await this.store.alone(async () => {
      for (const entry of await this.entries())
        if (entry.expires <= now && Object.keys(entry.sealed).length) await this.store.put({ ...entry, sealed: {} });
    });
  }

  /** Epsilon that a source has spent, at the ledger's delta. */
  async spent(source = "self"): Promise<number> {
    return epsilonOf((await this.entries()).filter((entry) => entry.source === source).map(({ spent }) => spent), this.delta);
  }
}

