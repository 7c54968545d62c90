/** What a task promises, how many corrupt clients a row of a sketch may hold, and what verified shares show. */

import { refuse } from "../errors.js";
import type { Neighbours } from "../mechanisms/kind.js";
import {
  type Rational, add, compare, floor, isPositive, isqrt, minus, ofDouble, parseReal, rational, square, times, toNumber,
} from "../rational.js";
import { integer, object, oneOf, optional, real, realThat, ruled } from "../shapes.js";

export interface ClaimDocument {
  epsilon: string;
  delta: string;
  neighbours: Neighbours;
  min_clients: number;
  max_corrupt_clients: number;
  threat: "static" | "adaptive";
  delta_coalition: string;
  epsilon_alone?: string;
}

const isPart = (value: Rational): boolean => isPositive(value) && compare(value, rational(1n)) < 0;

export const claimShape = ruled<ClaimDocument>(
  object({
    epsilon: realThat(isPositive, "epsilon is positive"), delta: realThat(isPart, "delta lies between 0 and 1"),
    neighbours: oneOf("replace-one", "zero-out", "add-remove"), min_clients: integer(2, 2 ** 32),
    max_corrupt_clients: integer(0), threat: oneOf("static", "adaptive"), delta_coalition: real,
    epsilon_alone: optional(real),
  }),
  ({ epsilon, delta, epsilon_alone = epsilon, delta_coalition, max_corrupt_clients, min_clients }) => {
    const coalition = parseReal(delta_coalition);
    const fits = coalition.n >= 0n && compare(coalition, parseReal(delta)) < 0;
    return fits && max_corrupt_clients < min_clients && compare(parseReal(epsilon), parseReal(epsilon_alone)) <= 0;
  },
  "its fields do not fit together",
);

/** What the noise has to keep. */
export interface Claim {
  epsilon: number;
  delta: Rational;
  deltaCoalition: Rational;
  neighbours: Neighbours;
  minClients: number;
  corrupt: number;
  threat: "static" | "adaptive";
}

export const claimOf = (document: ClaimDocument): Claim => ({
  epsilon: Number(document.epsilon), delta: parseReal(document.delta), neighbours: document.neighbours,
  deltaCoalition: parseReal(document.delta_coalition), minClients: document.min_clients,
  corrupt: document.max_corrupt_clients, threat: document.threat,
});

/** What is promised to a client of whom all others are corrupt, or invented: at `epsilon_alone` if there is one. */
export const claimAlone = (claim: Claim, { epsilon_alone }: ClaimDocument): Claim => ({
  ...claim, epsilon: Number(epsilon_alone ?? claim.epsilon), deltaCoalition: rational(0n), corrupt: claim.minClients - 1,
  threat: "adaptive",
});

/** The part of delta that is left to the noise, rounded down. */
export const noiseDelta = (claim: Claim): number => toNumber(minus(claim.delta, claim.deltaCoalition)) * (1 - 1e-15);

/** How many corrupt clients one row of a balanced sketch must be assumed to hold (proofs/sketch.md#coalitions). */
export function quotaOf(claim: Claim, rows: number, sparsity: number, matrices: number): number {
  const { corrupt, threat, minClients } = claim;
  const allowance = toNumber(claim.deltaCoalition) / (sparsity === 1 ? 1 : sparsity * matrices);
  if (!corrupt || threat === "adaptive" || !allowance || sparsity > rows || (sparsity === 1 && rows === 1)) return corrupt;
  const blocks = [Math.floor(rows / sparsity), Math.ceil(rows / sparsity)];
  return Math.max(...blocks.map((block) => staticQuota(corrupt, block, allowance, minClients)));
}

/** The smallest q above its mean with rows exp(-t KL(q/t || share)) <= allowance (Hoeffding 1963). */
function staticQuota(corrupt: number, rows: number, allowance: number, minClients: number): number {
  const share = 1 / rows + (rows - 1) / (rows * minClients);
  if (share >= 1) return corrupt;
  const limit = Math.log(allowance / rows);
  let [inside, outside] = [corrupt + 1, Math.floor(corrupt * share)];
  while (inside - outside > 1) {
    const middle = Math.floor((inside + outside) / 2);
    if (-corrupt * klBernoulli(middle / corrupt, share) <= limit) inside = middle;
    else outside = middle;
  }
  return Math.min(corrupt, inside);
}

function klBernoulli(p: number, q: number): number {
  const heads = p > 0 ? p * Math.log(p / q) : 0;
  const tails = p < 1 ? (1 - p) * (Math.log1p(-p) - Math.log1p(-q)) : 0;
  return Math.max(0, heads + tails);
}

// --- shares of verified reports --------------------------------------------------------------------------------------

/** The parts of delta that shares cost: (n eta')^2 + (1 + e^epsilon) (eta + n 2^-80); see verified.md#privacy. */
export interface SharesSeen {
  shifted: Rational;
  twice: Rational;
  /** How many clients more than the claim's are taken for corrupt. */
  givenAway: number;
}

export function sharesSeen(
  padded: number, squaredBound: bigint, wordBits: number, clients: number, byServers: boolean,
): SharesSeen {
  const size = 1n << BigInt(wordBits);
  const eta = rational(isqrt(BigInt(padded) * squaredBound) + 1n, size);
  if (byServers) return { shifted: eta, twice: rational(0n), givenAway: 0 };
  const several = rational(2n * BigInt(padded) * (isqrt(squaredBound) + 1n) * BigInt(clients), size);
  return { shifted: add(eta, rational(BigInt(clients), 1n << 80n)), twice: square(several), givenAway: 1 };
}

/** What the noise has to keep of a claim beside shares: less delta, against one corrupt client more. */
export function claimBeside(seen: SharesSeen, claim: Claim): Claim {
  const grown = times(ofDouble(Math.exp(Math.min(claim.epsilon, 100))), rational(10n ** 12n + 1n, 10n ** 12n));
  const price = add(seen.twice, times(add(rational(1n), grown), seen.shifted));
  if (compare(times(price, rational(1000n)), claim.delta) > 0)
    refuse("invalid_task", "verification: shares cost too much of delta");
  const corrupt = claim.corrupt + seen.givenAway;
  const scale = 10n ** 40n;
  const delta = rational(floor(times(minus(claim.delta, price), rational(scale))), scale);
  if (corrupt >= claim.minClients || compare(delta, claim.deltaCoalition) <= 0)
    refuse("invalid_task", "verification: the corrupt clients leave nobody");
  return { ...claim, delta, corrupt };
}
