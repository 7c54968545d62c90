/**
 * The ledger and outbox of a device (rule R12): at most one report per task, batch and source; each source below the
 * ceiling over all tasks together; the charge durable, together with the sealed messages, before a byte leaves.
 */

import { refuse, refusingAs } from "./errors.js";
import type { Json } from "./json.js";
import { shiftedEpsilon } from "./privacy/gaussian.js";
import type { Statement } from "./privacy/statement.js";
import { type Rational, add, minus, ofDouble, parseReal, rational, square, toNumber } from "./rational.js";
import { folded } from "./schema.js";
import { anyText, integer, object, real, type Shape } from "./shapes.js";
import { ALONE, type Task } from "./task.js";

/** What a report cost its source: sums of decimals, which are exact. */
export interface Spending {
  mu_squared: string;
  slack: string;
  delta_coalition: string;
  delta_shares: string;
  /** The second sum: if everybody else is invented. Reports of which nothing bounds that are counted, and not added. */
  mu_squared_alone: string;
  unbounded: string;
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
  spent: object({
    mu_squared: real, slack: real, delta_coalition: real, delta_shares: real, mu_squared_alone: real, unbounded: real,
  }),
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

/**
 * What a release of a task costs a source, replacing a row: against the null row mu counts twice, and slack once. The
 * slack is the larger of both sums.
 */
export function priceOf(task: Task): Spending {
  const { slack, failure, shift, ...worst } = task.worstCharge();
  const alone = task.boundAlone(1);
  return {
    mu_squared: squaredMu(worst), slack: roundedUp(ofDouble(Math.max(slack, alone?.slack ?? 0))),
    delta_coalition: roundedUp(ofDouble(failure)), delta_shares: roundedUp(ofDouble(shift)),
    mu_squared_alone: alone ? squaredMu(alone) : "0", unbounded: alone ? "0" : "1",
  };
}

function squaredMu({ mu, neighbours }: Pick<Statement, "mu" | "neighbours">): string {
  if (!(mu < 1e9)) refuse("ledger_refused", "the task's privacy cannot be counted");
  return roundedUp(square(ofDouble(neighbours === "zero-out" ? 2 * mu : mu)));
}

export const NOTHING: Spending = {
  mu_squared: "0", slack: "0", delta_coalition: "0", delta_shares: "0", mu_squared_alone: "0", unbounded: "0",
};

/** Epsilon of everything together, at a delta; infinite where what is no noise does not fit. And that of the second sum. */
export function epsilonsOf(parts: readonly Spending[], delta: number): { epsilon: number; alone: number } {
  const total = (field: keyof Spending) => parts.reduce((sum, part) => add(sum, parseReal(part[field])), rational(0n));
  const up = (value: Rational) => toNumber(value) * (1 + 1e-15);
  const of = (field: keyof Spending, left: number) =>
    shiftedEpsilon(Math.sqrt(toNumber(total(field))) * (1 + 1e-15), left, up(total("slack")), up(total("delta_shares")));
  const left = minus(ofDouble(delta), total("delta_coalition"));
  return {
    epsilon: left.n > 0n ? of("mu_squared", toNumber(left) * (1 - 1e-15)) : Infinity, alone: of("mu_squared_alone", delta),
  };
}

export class Ledger {
  constructor(
    readonly store: Store, readonly maxEpsilon = 3, readonly delta = 1e-6, readonly maxEpsilonAlone = ALONE * maxEpsilon,
  ) {
    if (![maxEpsilon, maxEpsilonAlone].every((most) => most > 0 && most < Infinity) || !(delta > 0 && delta < 1))
      throw new RangeError("ceilings are positive, and 0 < delta < 1");
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
      refuse("ledger_refused", `this source has its ${task.reportsPerSource} reports`);
    const price = priceOf(task);
    const { epsilon, alone } = epsilonsOf([...own.map(({ spent }) => spent), price], this.delta);
    const within = (who: string, after: number, most: number) => {
      if (!(after <= most * ROUNDING))
        refuse("ledger_refused", `epsilon${who} at delta ${this.delta} would be ${after.toPrecision(6)}; the ceiling is ${most}`);
    };
    within("", epsilon, this.maxEpsilon);
    within(" if everybody else is invented", alone, this.maxEpsilonAlone);
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

  /** Epsilon that a source has spent, at the ledger's delta; and that of what is bounded if everybody else is invented. */
  async spent(source = "self"): Promise<{ epsilon: number; alone: number }> {
    const name = folded(source);
    return epsilonsOf((await this.entries()).filter((entry) => entry.source === name).map(({ spent }) => spent), this.delta);
  }
}

