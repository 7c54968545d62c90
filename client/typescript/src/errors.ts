/** Refusals: what is wrong, by a token that never changes, and in words. They never hold rows, shares or noise. */

export type Token =
  | "refused" | "invalid_message" | "invalid_task" | "unsupported_feature" | "false_claim" | "row_underfilled"
  | "policy_refused" | "task_conflict" | "unauthorized" | "task_not_started" | "task_ended" | "invalid_row"
  | "token_invalid" | "ledger_refused" | "unavailable" | "overloaded" | "internal" | "outdated_key"
  | "unsupported_media_type" | "batch_open" | "cohort_conflict" | "inventory_mismatch" | (string & {});

/** Whoever gets one knows that nothing of the row has left, unless it came while a report was delivered. */
export class LintraError extends Error {
  constructor(readonly token: Token, readonly detail: string, readonly retryAfter?: number) {
    super(`${token}: ${detail}`);
    this.name = "LintraError";
  }
}

/** Refuse. */
export function refuse(token: Token, detail: string): never {
  throw new LintraError(token, detail);
}

/** Run some work whose refusals get another token, such as a malformed key inside a task. */
export function refusingAs<T>(token: Token, where: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof LintraError) refuse(token, `${where}: ${error.detail}`);
    throw error;
  }
}
