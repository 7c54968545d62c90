/** `sum`: the row itself; and under a noisy count a word that counts it (docs/reference/mechanisms/sum.md). */

import { isqrt, rational } from "../rational.js";
import { oneOf, optional } from "../shapes.js";
import { common, type Document, type Kind, squaredBound } from "./kind.js";

export interface Sum extends Document {
  count?: "noisy";
}

/** What a row adds to the count: half of its bound. */
const counted = (document: Sum): bigint => isqrt(squaredBound(document) / 4n);

export const sum: Kind<Sum> = {
  fields: { ...common, count: optional(oneOf("noisy"), "exact") },
  allows: { clipCounter: true, dither: true, serverNoise: true },
  leavesOut: ({ count }) => count === "noisy",
  blocks(document, columns) {
    const row = { size: columns, sigma: document.sigma, bound: isqrt(squaredBound(document)) };
    return document.count ? [row, { size: 1, sigma: document.sigma, bound: counted(document) }] : [row];
  },
  fill: (document, steps) => (document.count ? [...steps, counted(document)] : steps),
  squaredDistance(document, neighbours) {
    const bound = squaredBound(document);
    if (neighbours === "replace-one") return rational(4n * bound);
    return rational(bound + (document.count ? counted(document) ** 2n : 0n));
  },
  squaredLength: (document) => squaredBound(document) + (document.count ? counted(document) ** 2n : 0n),
};
