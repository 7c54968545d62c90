/** `histogram`: U in one cell of each column (docs/reference/mechanisms/histogram.md). */

import { refuse } from "../errors.js";
import { compare, parseReal, rational } from "../rational.js";
import { integer, list, real, ruled } from "../shapes.js";
import { common, type Document, type Kind } from "./kind.js";

export interface Histogram extends Document {
  edges: string[][];
  levels: number[];
  indicator: number;
}

/** The cells of each column without that of missing values. */
const cellsOf = ({ edges, levels }: Histogram): number[] => levels.map((count, place) => count || edges[place].length - 1);

const fitsColumn = (edges: string[], levels: number): boolean =>
  levels !== 1 && levels > 0 === !edges.length && edges.length !== 1 &&
  edges.every((edge, place) => !place || compare(parseReal(edges[place - 1]), parseReal(edge)) < 0);

export const histogram: Kind<Histogram> = {
  fields: {
    ...common, edges: list(list(real, 0, 4097)), levels: list(integer(0, 1024)), indicator: integer(1, 2 ** 30),
  },
  allows: { levels: true },
  blocks(document) {
    const words = cellsOf(document).reduce((total, cells) => total + cells + 1, 0);
    return [{ size: words, sigma: document.sigma, bound: BigInt(document.indicator) }];
  },
  clip: (document, row) =>
    row.map((value, place) => {
      const cells = cellsOf(document)[place];
      const edges = document.edges[place];
      if (Number.isNaN(value)) return BigInt(cells);
      if (!edges.length) return BigInt(value); // a level's number, or 0 or 1: `readRow` lets nothing else pass
      return BigInt(edges.slice(1, -1).filter((edge) => Number(edge) <= value).length);
    }),
  isClipped: () => false,
  fill: (document, steps) =>
    cellsOf(document).flatMap((cells, place) =>
      Array.from({ length: cells + 1 }, (_, cell) => (BigInt(cell) === steps[place] ? BigInt(document.indicator) : 0n)),
    ),
  squaredDistance: ({ edges, indicator }, neighbours) =>
    rational(BigInt(edges.length) * BigInt(indicator) ** 2n * (neighbours === "replace-one" ? 2n : 1n)),
  squaredLength: ({ edges, indicator }) => BigInt(edges.length) * BigInt(indicator) ** 2n,
  check(document, { columns }) {
    if (document.row_bound !== "1" || document.fraction_bits)
      refuse("invalid_task", "a histogram has row_bound 1 and fraction_bits 0");
    if (document.edges.length !== columns) refuse("invalid_task", "edges: of another number of columns");
  },
  checkColumns(document, columns) {
    columns.forEach((column, place) => {
      const [edges, levels] = [document.edges[place], document.levels[place]];
      const held = column.kind === "boolean" ? 2 : (column.levels?.length ?? 0);
      if (held !== levels) refuse("invalid_task", `column "${column.name}": ${held} levels, not ${levels}`);
      if (column.center !== "0" || column.scale !== "1")
        refuse("invalid_task", `column "${column.name}": centred or scaled`);
      if (edges.length && (edges[0] !== column.lower || edges[edges.length - 1] !== column.upper))
        refuse("invalid_task", `column "${column.name}": outer edges and bounds differ`);
    });
  },
};

/** The rule of two fields: as many edges as levels, and of each column one of both. */
export const fittingColumns = (shape: ReturnType<typeof list>) =>
  ruled<Histogram>(
    shape,
    ({ edges, levels }) => edges.length === levels.length && edges.every((each, place) => fitsColumn(each, levels[place])),
    "a column has 2 levels or 2 ascending edges, or more",
  );
