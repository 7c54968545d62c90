/** What a task promises, for the people who are asked to take part. */

import { epsilonAt } from "./privacy/statement.js";
import { toNumber } from "./rational.js";
import { type Task, usualDelta } from "./task.js";
import { type Texts, english, promiseText } from "./texts.js";

export class Promised {
  /** The delta at which epsilon is stated: a millionth, or one over the smallest cohort if that is less. */
  readonly delta: number;
  /** Of everything that one source may send, at that delta; never below the true value. */
  readonly epsilon: number;
  /** The same if everybody else is invented; nothing where that is not bounded. */
  readonly epsilonAlone: number | undefined;

  constructor(private readonly task: Task) {
    this.delta = toNumber(usualDelta(task.definition.claim.min_clients));
    const alone = task.boundAlone();
    [this.epsilon, this.epsilonAlone] = [task.worstTogether(), alone].map(
      (statement) => statement && epsilonAt(statement, this.delta) * (1 + 1e-12),
    ) as [number, number | undefined];
  }

  /** Who asks for what, who must be honest, and what cannot be undone: paragraphs that a user reads before they agree. */
  text(texts: Texts = english): string[] {
    return promiseText(texts, this.task.definition, this);
  }
}
