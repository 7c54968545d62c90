/** Does what it reads, one request in a line: sends a row from known random bytes, or asks whether a report was counted. */

import { createInterface } from "node:readline";
import { Client } from "../src/index.js";
import { fileLedger } from "../src/node.js";
import { keystream, unhex } from "./operations.js";

const [taskId, folder, trusted, ...servers] = process.argv.slice(2);
const policy = { trustEnrolment: trusted === "trust-enrolment" };
const client = await Client.open(taskId, servers, { ledger: await fileLedger(folder, 1000), policy });

for await (const line of createInterface({ input: process.stdin })) {
  const { row, seed, source, counted, certificate } = JSON.parse(line);
  const answer = counted
    ? await client.counted(counted, { certificate })
    : await client.send(row, { source, random: keystream(unhex(seed)) });
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
