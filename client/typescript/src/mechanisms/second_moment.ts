/** `second_moment`: all products of two columns (docs/reference/mechanisms/second_moment.md); first rounds only. */

import type { RandomBytes } from "../bytes.js";
import { dither, ditheredNorm, shrinkFactor, withinReach } from "../clipping.js";
import { refuse } from "../errors.js";
import { compare, floor, isPositive, isqrt, max, parseReal, rational, times } from "../rational.js";
import { boolean, integer, oneOf, optional, real } from "../shapes.js";
import { common, type Document, type Kind, squaredBound } from "./kind.js";

export interface SecondMoment extends Document {
  count?: "noisy";
  intercept: string;
  trace: boolean;
  target?: number;
  target_bound?: string;
  target_factor?: string;
}

/** c in steps, rounded down; 0 for none. */
function constantOf({ intercept, fraction_bits }: SecondMoment): bigint {
  const steps = floor(times(parseReal(intercept), rational(1n << BigInt(fraction_bits))));
  return steps > 0n ? steps : 0n;
}

/** What a row adds to a noisy count: c^2, and beside row weights a fifth of the bound of its products. */
const countOf = (document: SecondMoment): bigint => {
  if (!document.count) return 0n;
  return document.row_weights ? squaredBound(document) / 5n : constantOf(document) ** 2n;
};

/** Y, which bounds the target under "features". */
const targetBound = ({ row_weights, target_bound }: SecondMoment): number =>
  row_weights === "features" ? Number(target_bound) : Infinity;

/**
 * Shrink (c, z), the target in it times k, by one factor, and dither it: to R, and under "features" what is beside the
 * target to R / sqrt(2), which then is k Y, too. A row in which a number is missing is all zeros.
 */
function weighted(document: SecondMoment, row: number[], random: RandomBytes): bigint[] {
  const { row_weights, target, target_factor = "1" } = document;
  const [unit, bound] = [2 ** document.fraction_bits, targetBound(document)];
  const norm = ditheredNorm(squaredBound(document), row.length + 1);
  const k = row_weights === "features" ? norm / Math.SQRT2 / (bound * unit) : Number(target_factor);
  const isWhole = !row.some(Number.isNaN);
  const vector = [Number(document.intercept), ...row.map(withinReach)].map((value, place) => {
    const moved = place - 1 === target ? Math.min(Math.max(value, -bound), bound) * k : value;
    return isWhole ? moved * unit : 0;
  });
  let factor = shrinkFactor(vector, norm);
  if (row_weights === "features")
    factor = Math.min(factor, shrinkFactor(vector.filter((_, place) => place - 1 !== target), norm / Math.SQRT2));
  return dither(vector, factor, random);
}

const notYet = optional((value, place) => {
  if (value !== undefined) refuse("unsupported_feature", `${place}: this client does not do that yet`);
}, null);

export const secondMoment: Kind<SecondMoment> = {
  fields: {
    ...common, count: optional(oneOf("noisy"), "exact"), intercept: real, trace: boolean,
    basis: notYet, after: notYet, targets: notYet,
    row_weights: optional(oneOf("features", "all")), target: optional(integer(0, 2 ** 20 - 1)),
    target_bound: optional(real, "0"), target_factor: optional(real, "1"),
    features_basis: notYet,
  },
  allows: { clipCounter: true, dither: true, serverNoise: true },
  leavesOut: ({ count, row_weights }) => count === "noisy" || row_weights !== undefined,
  clip: (document, row, random) => (document.row_weights ? weighted(document, row, random) : undefined),
  isClipped: (document, row) =>
    document.row_weights ? Math.abs(row[document.target ?? 0]) > targetBound(document) : undefined,
  blocks(document, columns) {
    const { sigma, intercept, trace, count, row_weights } = document;
    const [bound, constant, factors] = [squaredBound(document), constantOf(document), columns + Number(!!row_weights)];
    const squares = Number(isqrt(2n * BigInt(sigma) ** 2n - 1n)) + 1;
    return [
      { size: intercept === "0" || row_weights ? 0 : columns, sigma, bound: constant * isqrt(bound) },
      { size: (factors * (factors + 1)) / 2, sigma: { product: sigma, square: squares, columns: factors }, bound },
      { size: Number(trace), sigma: squares, bound },
      { size: Number(count === "noisy"), sigma: row_weights ? sigma : squares, bound: countOf(document) },
    ];
  },
  fill(document, steps) {
    const constant = constantOf(document);
    return [
      ...(document.intercept === "0" || document.row_weights ? [] : steps.map((x) => constant * x)),
      ...steps.flatMap((x, place) => steps.slice(place).map((y) => x * y)),
      ...(document.trace ? [steps.reduce((total, x) => total + x * x, 0n)] : []),
      ...(document.count ? [countOf(document)] : []),
    ];
  },
  squaredDistance(document, neighbours) {
    const weights = document.row_weights !== undefined;
    const bound = squaredBound(document);
    const constant = weights ? 0n : constantOf(document) ** 2n;
    const counts = (weights ? 2n * countOf(document) : countOf(document)) * countOf(document);
    const toNull = rational(bound ** 2n * (document.trace ? 2n : 1n) + 2n * constant * bound + counts, 2n);
    if (neighbours !== "replace-one") return toNull;
    const between = rational(constant <= bound ? (bound + constant) ** 2n : 4n * constant * bound);
    return document.count ? max(between, toNull) : between;
  },
  squaredLength(document) {
    const [bound, constant] = [squaredBound(document), document.row_weights ? 0n : constantOf(document) ** 2n];
    return bound ** 2n * (document.trace ? 2n : 1n) + constant * bound + countOf(document) ** 2n;
  },
  check(document, { columns, neighbours }) {
    const { intercept, trace, count, row_weights } = document;
    if (trace && neighbours !== "replace-one")
      refuse("invalid_task", "trace: not with these neighbours");
    checkWeights(document, columns);
    if (count && intercept === "0") refuse("invalid_task", "count: without an intercept");
    if (compare(parseReal(intercept), rational(0n)) < 0) refuse("invalid_task", "intercept: negative");
    if (isPositive(parseReal(intercept)) && !constantOf(document) && !row_weights)
      refuse("invalid_task", "intercept: below one step");
  },
};

function checkWeights(document: SecondMoment, columns: number): void {
  const { row_weights, rounding, intercept, target, target_bound = "0", target_factor = "1" } = document;
  const isAbove = (text: string) => isPositive(parseReal(text));
  const fits = {
    none: target === undefined && target_bound === "0" && target_factor === "1",
    features: target !== undefined && isAbove(target_bound) && target_factor === "1",
    all: target_bound === "0" && isAbove(target_factor) && (target !== undefined || target_factor === "1"),
  }[row_weights ?? "none"];
  const isWeighable = !row_weights || (rounding && isAbove(intercept) && (target ?? 0) < columns);
  if (!fits || !isWeighable) refuse("invalid_task", "row_weights: no fit to rounding, intercept or target");
}
