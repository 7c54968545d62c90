/** Reads cases that Python drew, one in a line, and writes what this client makes of each. */

import { createInterface } from "node:readline";
import { utf8 } from "../src/bytes.js";
import { LintraError } from "../src/errors.js";
import { canonical, type Json } from "../src/json.js";
import { priceOf } from "../src/ledger.js";
import { type Policy, requirePolicy } from "../src/policy.js";
import { epsilonAt } from "../src/privacy/statement.js";
import { makeReport } from "../src/report.js";
import type { Row } from "../src/schema.js";
import { Task } from "../src/task.js";
import { hex, keystream, unhex } from "./operations.js";

function isRefused(task: Task, policy: Policy): boolean {
  try {
    requirePolicy(task, policy);
    return false;
  } catch (error) {
    if (error instanceof LintraError && error.token === "policy_refused") return true;
    throw error;
  }
}

interface Case {
  task: Json;
  row: Row;
  seed: string;
  /** At which epsilon is asked for; null where it is not. */
  delta: number | null;
  policy: Policy;
}

function answer({ task: document, row, seed, delta, policy }: Case): unknown {
  try {
    const task = Task.parse(utf8(canonical(document)));
    task.check();
    const random = keystream(unhex(seed));
    const { words, clipped, incomplete } = task.encode(row, random);
    const report = makeReport(task, words, task.definition.not_before, random);
    const alone = delta && task.boundAlone();
    return {
      report_id: hex(report.id), shares: report.shares.map(hex), clipped, incomplete,
      epsilon: delta && String(epsilonAt(task.worstTogether(), delta)), alone: alone ? String(epsilonAt(alone, delta!)) : null,
      price: delta && priceOf(task), refused: delta && isRefused(task, policy),
    };
  } catch (error) {
    return error instanceof LintraError ? { token: error.token, detail: error.detail } : { token: "crash", detail: String(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) process.stdout.write(`${JSON.stringify(answer(JSON.parse(line)))}\n`);
