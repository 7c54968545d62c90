/** All vectors of the reference implementation that are a client's, with both suites. */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { LintraError } from "../src/errors.js";
import { pureSuite } from "../src/suites/pure.js";
import { webSuite } from "../src/suites/web.js";
import { NOT_A_CLIENTS, operations } from "./operations.js";

const FOLDER = process.env.LINTRA_VECTORS ?? "../../tests/vectors";

interface Vector {
  name: string;
  operation: string;
  input: Record<string, unknown>;
  output?: unknown;
  error?: string;
}

const files = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));
const vectors = files.flatMap((file) =>
  (JSON.parse(readFileSync(`${FOLDER}/${file}`, "utf8")) as Vector[]).map((vector) => ({ file, ...vector })),
);

/** Tasks that this version leaves to other clients may be refused as such, whatever else is wrong with them. */
const UNSUPPORTED = /newton_step|osnap_published|range_finder|ron_gauss|wishart|laplace|contributors|organisations|"?study"?|basis|second_round|mtls|after|targets|sparsity\W+[2-9].*noise\W+both/;

/** Of the pure suite; nothing else depends on one. */
const OF_A_SUITE = new Set(["seal_upload", "verify"]);

for (const [name, suite] of Object.entries({ web: webSuite, pure: pureSuite }))
  test(`this client does what the reference implementation says, with the ${name} suite`, async (context) => {
    const known = operations(suite);
    const complaints: string[] = [];
    let [passed, unsupported] = [0, 0];
    for (const vector of vectors) {
      const work = known[vector.operation];
      if (!work || (suite === pureSuite && !OF_A_SUITE.has(vector.operation))) continue;
      const where = `${vector.file}: ${vector.operation}: ${vector.name}`;
      try {
        const output = await work(vector.input);
        if (vector.error !== undefined) complaints.push(`${where}: not refused by ${vector.error}`);
        else {
          assert.deepEqual(output, vector.output ?? null, where);
          passed++;
        }
      } catch (error) {
        if (!(error instanceof LintraError)) complaints.push(`${where}: ${error}`.slice(0, 600));
        else if (error.token === vector.error) passed++;
        else if (error.token === "unsupported_feature" && UNSUPPORTED.test(JSON.stringify(vector.input))) unsupported++;
        else if (error.token === "unsupported_feature" && vector.operation === "parse_message") unsupported++;
        else complaints.push(`${where}: refused by ${error}, not by ${vector.error}`);
      }
    }
    assert.equal(complaints.length, 0, `${complaints.length} of them:\n${complaints.slice(0, 40).join("\n")}`);
    context.diagnostic(`${passed} passed, ${unsupported} are for other clients`);
    assert.ok(passed > (suite === webSuite ? 700 : 20) && unsupported < 700, `${passed} passed, ${unsupported} are for other clients`);
  });

test("every operation is either this client's or listed as none of a client's", () => {
  const known = operations(webSuite);
  const all = new Set(vectors.map(({ operation }) => operation));
  assert.deepEqual([...all].filter((each) => !known[each] && !NOT_A_CLIENTS.has(each)), []);
  assert.deepEqual([...NOT_A_CLIENTS].filter((each) => known[each]), []);
});
