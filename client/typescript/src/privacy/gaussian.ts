/** The Gaussian privacy profile and the price of integers (docs/proofs/sketch.md#gaussian-profile). */

const CUTOFF = 42;
const NODES = 64;
const RELATIVE_ERROR = 1e-12;
const EXACT_TERMS = 1024;
const LARGEST_EXPONENT = 700;

/** Narrow a bracket by halves down to neighbouring doubles; the answer is where the condition was seen to hold. */
export function bisect(inside: number, outside: number, holds: (value: number) => boolean): number {
  for (;;) {
    const [low, high] = inside < outside ? [inside, outside] : [outside, inside];
    const middle = low + (high - low) / 2;
    if (!(low < middle && middle < high)) return inside;
    if (holds(middle)) inside = middle;
    else outside = middle;
  }
}

let quadrature: { node: number; weight: number }[] | undefined;

/** Gauss-Legendre on [0, 1]: the roots of the Legendre polynomial by Newton's method. */
function nodes(): { node: number; weight: number }[] {
  return (quadrature ??= Array.from({ length: NODES }, (_, place) => {
    let root = Math.cos((Math.PI * (place + 0.75)) / (NODES + 0.5));
    let slope = 1;
    for (let turn = 0; turn < 10; turn++) {
      let [before, value] = [1, root];
      for (let degree = 2; degree <= NODES; degree++)
        [before, value] = [value, ((2 * degree - 1) * root * value - (degree - 1) * before) / degree];
      slope = (NODES * (root * value - before)) / (root * root - 1);
      root -= value / slope;
    }
    return { node: (1 + root) / 2, weight: 1 / ((1 - root * root) * slope * slope) };
  }));
}

/** R(offset) - R(offset + mu), R being the Gaussian tail over the density; for offset > -1. */
function millsRatio(offset: number, mu = Infinity): number {
  const reach = (2 * CUTOFF) / (offset + Math.hypot(offset, Math.sqrt(2 * CUTOFF)));
  let total = 0;
  for (const { node, weight } of nodes()) {
    const v = reach * node;
    total += weight * Math.exp(-v * (v / 2 + offset)) * -Math.expm1(-mu * v);
  }
  return reach * total;
}

const density = (x: number): number => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);

/** The chance that a standard normal number is above x. */
const tail = (x: number): number => (x < 0 ? 1 - tail(-x) : density(x) * millsRatio(x));

/** The smallest delta for which mu-Gaussian DP gives (epsilon, delta)-DP (Balle, Wang 2018, Theorem 8). */
export function gaussianDelta(epsilon: number, mu: number): number {
  if (mu === Infinity) return 1;
  if (epsilon < 0) return Math.min(1, -Math.expm1(epsilon) + Math.exp(epsilon) * gaussianDelta(-epsilon, mu));
  if (mu === 0) return 0;
  const offset = epsilon / mu - mu / 2;
  if (offset > 40) return 0;
  if (mu < Math.max(1, offset)) return density(offset) * millsRatio(offset, mu);
  return tail(offset) - density(offset) * millsRatio(offset + mu);
}

/** The largest mu whose profile passes through or below (epsilon, delta). */
export function gaussianMu(epsilon: number, delta: number): number {
  let [low, high] = [1, 1];
  while (gaussianDelta(epsilon, high) <= delta) high *= 2;
  while (gaussianDelta(epsilon, low) > delta) low /= 2;
  return bisect(low, high, (mu) => gaussianDelta(epsilon, mu) <= delta);
}

function gaussianEpsilon(mu: number, delta: number): number {
  const target = delta * (1 - RELATIVE_ERROR);
  if (gaussianDelta(0, mu) <= target) return 0;
  if (mu === Infinity) return Infinity;
  let high = 1;
  while (gaussianDelta(high, mu) > target) high *= 2;
  return high === Infinity ? high : bisect(high, 0, (epsilon) => gaussianDelta(epsilon, mu) <= target);
}

// --- integers --------------------------------------------------------------------------------------------------------

/** ln((1+e)/(1-e)), e being how far sums over a lattice stay from their average; infinite where there is no bound. */
function kappa(variance: number): number {
  let deviation = 0;
  for (let k = 1; deviation < 1; k++) {
    const term = 2 * Math.exp(-2 * Math.PI ** 2 * variance * k * k);
    if (!(term > deviation * 2 ** -60)) break;
    deviation += term;
  }
  return deviation < 1 ? 2 * Math.atanh(deviation) : Infinity;
}

/** kappa of the variance that two noises leave to each other. */
const kappaOfBoth = (a: number, b: number): number => kappa(1 / (1 / a + 1 / b));

/** K of Theorems D1 and T1: one row, or a plain sum, of so many honest reports, and of one server's floor if there is one. */
export function rowSlack(clients: number, words: number, variance: number, smoothing: number, floor: number): number {
  const exact = Math.min(clients, EXACT_TERMS);
  let total = kappa(smoothing);
  for (let j = 1, term = 1; j < exact && term; j++) total += term = kappa(variance * (j / (j + 1)));
  if (clients > exact) total += (clients - exact) * kappa(variance * (exact / (exact + 1)));
  return words * (total + (floor && kappaOfBoth(clients * variance, floor)));
}

/** K of Theorem T2: a client's own noise, and one server's floor. */
export const aloneSlack = (words: number, variance: number, smoothing: number, floor: number, entries = 1): number =>
  words * (entries * kappa(smoothing) + (floor && kappaOfBoth(variance, floor / entries)));

/** K of Theorem D2: any integer matrix, with noise of servers; of their floor only `smoothing` pays for the lattice. */
export function smoothedSlack(
  clients: number, rows: number, words: number, variance: number, ofServers: number, squaredColumn: number,
  smoothing = ofServers,
): number {
  return words * (clients * kappaOfBoth(variance, ofServers / squaredColumn) + rows * kappa(smoothing));
}

function discreteDelta(epsilon: number, mu: number, slack: number): number {
  return Math.min(1, Math.exp(Math.min(slack, LARGEST_EXPONENT)) * gaussianDelta(epsilon - 2 * slack, mu));
}

function discreteEpsilon(mu: number, delta: number, slack: number): number {
  let epsilon = gaussianEpsilon(mu, delta * Math.exp(-slack));
  if (discreteDelta(0, mu, slack) <= delta) return 0;
  epsilon += 2 * slack;
  while (discreteDelta(epsilon, mu, slack) > delta) epsilon *= 1 + 2 ** -52;
  return epsilon;
}

/** The same beside what shares of verified reports show, whose distance from nothing is `shift`. */
export function shiftedDelta(epsilon: number, mu: number, slack: number, shift: number): number {
  const noise = discreteDelta(epsilon, mu, slack);
  if (!shift) return noise;
  return epsilon > LARGEST_EXPONENT ? 1 : Math.min(1, noise + shift * (1 + Math.exp(epsilon)) * (1 + 1e-12));
}

/** The smallest epsilon of a delta; infinite where there is none. */
export function shiftedEpsilon(mu: number, delta: number, slack: number, shift: number): number {
  if (!shift) return discreteEpsilon(mu, delta, slack);
  const isEnough = (epsilon: number) => shiftedDelta(epsilon, mu, slack, shift) * (1 + RELATIVE_ERROR) <= delta;
  const weight = shift * Math.exp(Math.min(slack, LARGEST_EXPONENT));
  const quantile = bisect(0, 40, (z) => tail(z) > weight);
  const lowest = Math.max(0, 2 * slack + mu * (quantile - mu / 2));
  if (isEnough(0)) return 0;
  return isEnough(lowest) ? bisect(lowest, 0, isEnough) : Infinity;
}
