/** `second_moment`: all products of two columns (docs/reference/mechanisms/second_moment.md); first rounds only. */

import { refuse } from "../errors.js";
import { compare, floor, isPositive, isqrt, max, parseReal, rational, times } from "../rational.js";
import { boolean, oneOf, optional, real, type Shape } from "../shapes.js";
import { common, type Document, type Kind, squaredBound } from "./kind.js";

export interface SecondMoment extends Document {
  count?: "noisy";
  intercept: string;
  trace: boolean;
}

/** c in steps, rounded down; 0 for none. */
function constantOf({ intercept, fraction_bits }: SecondMoment): bigint {
  const steps = floor(times(parseReal(intercept), rational(1n << BigInt(fraction_bits))));
  return steps > 0n ? steps : 0n;
}

const later: Shape = (value, place) => {
  if (value !== undefined) refuse("unsupported_feature", `${place}: this client does not do that yet`);
};
const notYet = optional(later, null);

export const secondMoment: Kind<SecondMoment> = {
  fields: {
    ...common, count: optional(oneOf("noisy"), "exact"), intercept: real, trace: boolean,
    basis: notYet, after: notYet, targets: notYet,
    row_weights: notYet, target: notYet, target_bound: notYet, target_factor: notYet,
  },
  allows: { clipCounter: true, dither: true, serverNoise: true },
  leavesOut: ({ count }) => count === "noisy",
  blocks(document, columns) {
    const { sigma, intercept, trace, count } = document;
    const [bound, constant] = [squaredBound(document), constantOf(document)];
    const squares = Number(isqrt(2n * BigInt(sigma) ** 2n - 1n)) + 1;
    return [
      { size: intercept === "0" ? 0 : columns, sigma, bound: constant * isqrt(bound) },
      { size: (columns * (columns + 1)) / 2, sigma: { product: sigma, square: squares, columns }, bound },
      { size: Number(trace), sigma: squares, bound },
      { size: Number(count === "noisy"), sigma: squares, bound: constant ** 2n },
    ];
  },
  fill(document, steps) {
    const constant = constantOf(document);
    return [
      ...(document.intercept === "0" ? [] : steps.map((x) => constant * x)),
      ...steps.flatMap((x, place) => steps.slice(place).map((y) => x * y)),
      ...(document.trace ? [steps.reduce((total, x) => total + x * x, 0n)] : []),
      ...(document.count ? [constant ** 2n] : []),
    ];
  },
  squaredDistance(document, neighbours) {
    const [bound, constant] = [squaredBound(document), constantOf(document) ** 2n];
    const counts = document.count ? constant ** 2n : 0n;
    const toNull = rational(bound ** 2n * (document.trace ? 2n : 1n) + 2n * constant * bound + counts, 2n);
    if (neighbours !== "replace-one") return toNull;
    const between = rational(constant <= bound ? (bound + constant) ** 2n : 4n * constant * bound);
    return document.count ? max(between, toNull) : between;
  },
  squaredLength(document) {
    const [bound, constant] = [squaredBound(document), constantOf(document) ** 2n];
    return bound ** 2n * (document.trace ? 2n : 1n) + constant * bound + (document.count ? constant ** 2n : 0n);
  },
  check(document, { neighbours }) {
    const { intercept, trace, count } = document;
    if (trace && neighbours !== "replace-one")
      refuse("invalid_task", "trace: use neighbours replace-one, or leave it out");
    if (count && intercept === "0") refuse("invalid_task", "count: rows are counted by an intercept; give one");
    if (compare(parseReal(intercept), rational(0n)) < 0) refuse("invalid_task", "intercept: negative; use 0 for none");
    if (isPositive(parseReal(intercept)) && !constantOf(document))
      refuse("invalid_task", "intercept: less than one step of the grid; use a larger one");
  },
};
