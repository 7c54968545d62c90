/** `osnap`: the row itself, which servers deal to the rows of a sketch (docs/reference/mechanisms/osnap.md). */

import { refuse } from "../errors.js";
import { isqrt, rational } from "../rational.js";
import { integer, real } from "../shapes.js";
import { common, type Document, type Kind, squaredBound } from "./kind.js";

export interface Osnap extends Document {
  rows: number;
  sparsity: number;
  leverage: string;
}

const MAX_OVERLAPPING_ROWS = 4096;

export const osnap: Kind<Osnap> = {
  fields: { ...common, rows: integer(1, 2 ** 20), sparsity: integer(1, 64), leverage: real },
  allows: { clipCounter: true, dither: true, serverNoise: true },
  sketch: ({ rows, sparsity }) => ({ rows, sparsity }),
  blocks: (document, columns) => [{ size: columns, sigma: document.sigma, bound: isqrt(squaredBound(document)) }],
  fill: (_, steps) => steps,
  squaredDistance: (document, neighbours) => rational(squaredBound(document) * (neighbours === "replace-one" ? 4n : 1n)),
  squaredLength: squaredBound,
  check({ rows, sparsity }) {
    if (sparsity > rows) refuse("invalid_task", "sparsity: above rows");
    if (sparsity > 1 && rows > MAX_OVERLAPPING_ROWS)
      refuse("invalid_task", `sparsity: not 1, with more than ${MAX_OVERLAPPING_ROWS} rows`);
  },
};
