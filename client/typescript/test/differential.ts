/** Reads cases that Python drew, one in a line, and writes what this client makes of each. */

import { createInterface } from "node:readline";
import { utf8 } from "../src/bytes.js";
import { LintraError } from "../src/errors.js";
import { canonical, type Json } from "../src/json.js";
import { epsilonAt } from "../src/privacy/statement.js";
import { makeReport } from "../src/report.js";
import type { Row } from "../src/schema.js";
import { Task } from "../src/task.js";
import { hex, keystream, unhex } from "./operations.js";

function answer({ task: document, row, seed }: { task: Json; row: Row; seed: string }): unknown {
  try {
    const task = Task.parse(utf8(canonical(document)));
    task.check();
    const random = keystream(unhex(seed));
    const { words, clipped, incomplete } = task.encode(row, random);
    const report = makeReport(task, words, task.definition.not_before, random);
    const together = task.worstTogether();
    return {
      report_id: hex(report.id), shares: report.shares.map(hex), clipped, incomplete,
      epsilons: [1e-6, 0.001].map((delta) => String(epsilonAt(together, delta))), mu: String(together.mu),
    };
  } catch (error) {
    return error instanceof LintraError ? { token: error.token, detail: error.detail } : { token: "crash", detail: String(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) process.stdout.write(`${JSON.stringify(answer(JSON.parse(line)))}\n`);
