/** What is promised of a release: a point (epsilon, delta), and the Gaussian curve through it. */

import { refuse } from "../errors.js";
import type { Neighbours } from "../mechanisms/kind.js";
import { toNumber } from "../rational.js";
import type { Claim } from "./claim.js";
import { shiftedDelta, shiftedEpsilon } from "./gaussian.js";

/** theta^2 of Theorem D1: how much honest variance pays for the lattice. */
export const SMOOTHING = 4;
export const MAX_SLACK = 1e-12;

export interface Statement {
  neighbours: Neighbours;
  delta: number;
  mu: number;
  slack: number;
  /** The part of delta that no noise covers. */
  failure: number;
  /** How far what is seen beside the release is from saying nothing. */
  shift: number;
  corrupt: number;
  threat: "static" | "adaptive";
}

export function statementOf(claim: Claim, mu: number, slack: number, honest: number): Statement {
  if (honest < 1 || !(mu < Infinity))
    refuse("row_underfilled", `a row holds ${honest} honest clients beyond the tolerated coalition`);
  return {
    neighbours: claim.neighbours, delta: toNumber(claim.delta), mu: mu * (1 + 1e-12), slack,
    failure: toNumber(claim.deltaCoalition), shift: 0, corrupt: claim.corrupt, threat: claim.threat,
  };
}

/** The smallest epsilon for which a release is (epsilon, delta)-differentially private; infinite if none is. */
export function epsilonAt(statement: Statement, delta = statement.delta): number {
  const left = delta - statement.failure;
  if (left <= 0) return Infinity;
  return shiftedEpsilon(statement.mu, left * (1 - 1e-15), statement.slack, statement.shift);
}

/** Refuse a claim that is better than the mathematics. */
export function requireClaim(statement: Statement, claim: Claim): void {
  const adaptive = claim.threat === "adaptive" && claim.corrupt > 0;
  if (statement.corrupt < claim.corrupt || (adaptive && statement.threat !== "adaptive"))
    refuse("false_claim", `the parameters withstand no ${claim.corrupt} corrupt clients`);
  if (!(statement.slack <= MAX_SLACK)) refuse("false_claim", "the noise is too coarse for integers");
  const delta = statement.failure + shiftedDelta(claim.epsilon, statement.mu, statement.slack, statement.shift);
  if (!(Math.min(1, delta) <= toNumber(claim.delta)))
    refuse("false_claim", `promised is epsilon ${claim.epsilon}, the parameters give ${epsilonAt(statement)}`);
}

/** What so many releases promise together of which each promises the same; up to `together` of them may be merged. */
export function repeated(statement: Statement, times: number, together = 1): Statement {
  if (times === 1 && together === 1) return statement;
  const parts = times * (1 + 1e-15);
  return {
    ...statement, mu: statement.mu * Math.sqrt(times * together) * (1 + 1e-12), slack: statement.slack * parts,
    failure: Math.min(1, statement.failure * parts), shift: Math.min(1, statement.shift * parts),
  };
}
