/** Servers that lie, one byte at a time: every lie is refused with a token, and nothing of the row has left. */

import assert from "node:assert/strict";
import test from "node:test";
import { canonicalBytes, type Json } from "../src/json.js";
import type { Definition } from "../src/task.js";
import { type Answer, type Meddler, World, isWhole, places, signedBy, tokenOf } from "./world.js";

/** Answer one request, of those whose path fits, otherwise than an honest server. */
const once = (fits: RegExp, change: (answer: Answer) => Answer): Meddler => (server, path, answer) =>
  server === 1 && fits.test(path) ? change(answer) : answer;

function withByte(body: Uint8Array, place: number, value: number): Uint8Array {
  const changed = Uint8Array.from(body);
  changed[place] = value;
  return changed;
}

const TASK = /^\/v1\/tasks\/[^/]+$/;
const KEYS = /^\/v1\/keys$/;
const REPORTS = /\/reports$/;

for (const [what, fits] of [["task", TASK], ["list of keys", KEYS]] as const)
  test(`every changed byte of a ${what} is refused with a token before anything leaves`, async () => {
    const world = new World();
    await world.open();
    let length = 0;
    world.meddle = once(fits, (answer) => ((length = answer.body.length), answer));
    await world.open();
    const tokens = new Set<string>();
    for (const place of places(length)) {
      for (const flip of isWhole ? [1, 32, 128] : [[1, 32, 128][place % 3]]) {
        world.meddle = once(fits, (answer) => ({ ...answer, body: withByte(answer.body, place, answer.body[place] ^ flip) }));
        const token = await tokenOf(() => world.open());
        assert.match(token, /^[a-z_]+$/, `byte ${place}: ${token}`);
        assert.notEqual(token, "none", `byte ${place} ^ ${flip} was not noticed`);
        tokens.add(token);
      }
    }
    assert.ok(world.requests.every(({ path }) => !REPORTS.test(path)));
    assert.ok(tokens.size > 1, [...tokens].join());
  });

test("every changed byte of a receipt is refused with a token", async () => {
  const world = new World();
  const sizes: number[] = [];
  world.meddle = once(REPORTS, (answer) => (sizes.push(answer.body.length), answer));
  await (await world.open(null)).send({ a: 0.5, b: -0.5 });
  const client = await world.open(null);
  for (const place of places(sizes[0])) {
    world.meddle = once(REPORTS, (answer) => ({ ...answer, body: withByte(answer.body, place, answer.body[place] ^ 1) }));
    assert.match(await tokenOf(() => client.send({ a: 0.5, b: 0 })), /^(invalid_message|unauthorized|[a-z_]*refused)$/, `byte ${place}`);
  }
});

test("every changed byte of a proof is refused with a token, be a report counted or not", async () => {
  const world = new World();
  const client = await world.open(null);
  const { reportId } = await client.send({ a: 0.5, b: -0.5 });
  await client.send({ a: 0, b: 0.5 });
  const absent = `${reportId[0] === "A" ? "B" : "A"}${reportId.slice(1)}`;
  for (const [id, included] of [[reportId, true], [absent, false]] as const) {
    let length = 0;
    world.meddle = once(/\/inclusion\//, (answer) => ((length = answer.body.length), answer));
    assert.deepEqual([(await client.counted(id)).included, (await client.counted(id)).numClients], [included, 2]);
    for (const place of places(length)) {
      const flip = [1, 32, 128][place % 3];
      world.meddle = once(/\/inclusion\//, (answer) => ({ ...answer, body: withByte(answer.body, place, answer.body[place] ^ flip) }));
      assert.match(await tokenOf(() => client.counted(id)), /^(invalid_message|inventory_mismatch|cohort_conflict)$/, `byte ${place}`);
    }
  }
});

test("a task that rests on who enrols whom is taken only by an owner who says so, and unproven reports likewise", async () => {
  const claim = { epsilon: "1", delta: "0.000001", neighbours: "replace-one", max_corrupt_clients: 0, threat: "static", delta_coalition: "0" };
  const alone = (sigma: number, min_clients: number) =>
    new World({ noise: undefined, mechanism: { kind: "sum", row_bound: "1", fraction_bits: 4, sigma }, claim: { ...claim, min_clients } });
  const open = (sigma: number, clients: number, policy: object) => tokenOf(() => alone(sigma, clients).open(undefined, policy));
  // Alone a client's own noise leaves epsilon 1.39, or 6.51: the first is within three times epsilon, the other is not.
  assert.deepEqual([await open(100, 4, {}), await open(25, 64, {})], ["none", "policy_refused"]);
  assert.equal(await open(25, 64, { trustEnrolment: true }), "none");
  assert.deepEqual([await open(100, 4, { maxEpsilonAlone: 1.2 }), await open(100, 4, { maxEpsilon: 1, maxEpsilonAlone: 2 })], ["policy_refused", "none"]);
  assert.equal(await tokenOf(() => new World().open(undefined, { requireVerified: true })), "policy_refused");
  const bound = await alone(100, 4).open();
  const unbound = await alone(25, 64).open(undefined, { trustEnrolment: true });
  assert.equal(bound.promise.epsilonAlone?.toFixed(9), "1.385566490"); // as the vectors have it
  assert.equal(unbound.promise.epsilonAlone, undefined);
  assert.match(bound.promise.text().join(" "), /invented, epsilon is at most 1\.386\..*Anybody can take a place/);
  assert.match(unbound.promise.text().join(" "), /invented, nothing bounds what is seen of you/);
});

test("a strict client refuses a row with a missing value, and any other treats it as the task says", async () => {
  const world = new World();
  const strict = await world.open(null, {}, { strict: true });
  assert.equal(await tokenOf(() => strict.send({ a: null, b: 0 })), "invalid_row");
  assert.ok(world.requests.every(({ path }) => !REPORTS.test(path)));
  assert.equal((await (await world.open(null)).send({ a: null, b: 0 })).incomplete, true);
});

test("answers cut short, too long, of another kind or another status are refused with a token", async () => {
  const world = new World();
  const answers: Record<string, (answer: Answer) => Answer> = {
    empty: (answer) => ({ ...answer, body: new Uint8Array() }),
    "cut short": (answer) => ({ ...answer, body: answer.body.slice(0, -1) }),
    "of another kind": (answer) => ({ ...answer, name: "receipt" }),
    null: (answer) => ({ ...answer, body: canonicalBytes(null) }),
    "a list": (answer) => ({ ...answer, body: canonicalBytes([]) }),
    deep: (answer) => ({ ...answer, body: new TextEncoder().encode("[".repeat(100_000)) }),
    "a problem of nobody": (answer) => ({ ...answer, status: 418, body: canonicalBytes({ type: "urn:x", detail: 7 }) }),
    "a problem in no JSON": (answer) => ({ ...answer, status: 400, body: Uint8Array.of(255) }),
    lost: () => {
      throw new TypeError("a row that nobody may see");
    },
  };
  for (const fits of [TASK, KEYS, REPORTS])
    for (const [name, change] of Object.entries(answers)) {
      world.meddle = once(fits, change);
      const token = await tokenOf(async () => (await world.open(null)).send({ a: 0.5, b: 0 }));
      assert.match(token, /^[a-z_]+$/, `${name}: ${token}`);
      assert.notEqual(token, "none", name);
    }
});

test("servers that agree on another task, or sign as somebody else, are refused", async () => {
  const world = new World();
  const record = (definition: unknown, signer: number): Answer => ({
    name: "task", body: canonicalBytes(signedBy(world.identities[signer], { kind: "task", definition: definition as Json })),
  });
  const lies: [string, Meddler][] = [
    ["invalid_message", (server, path, answer) =>
      TASK.test(path) ? record({ ...world.definition, purpose: "another" }, server) : answer],
    ["task_conflict", once(TASK, () => record({ ...world.definition, purpose: "another" }, 1))],
    ["task_conflict", once(TASK, () => record(world.definition, 2))],
    ["unauthorized", once(TASK, () => ({
      name: "task", body: canonicalBytes(signedBy(world.analyzer, { kind: "task", definition: world.definition as unknown as Json })),
    }))],
    ["unauthorized", once(KEYS, () => ({ name: "keys", body: canonicalBytes(world.keyList(2)) }))],
  ];
  for (const [token, meddle] of lies) {
    world.meddle = meddle;
    assert.equal(await tokenOf(() => world.open()), token);
  }
});

test("streams and columns that are counted together are fields that it does not know, and says so", async () => {
  const stream = { window: 1, grace: 1, max_windows: 10, reports_per_source: 1, stream: { damping: "1", blur: "0.5" } };
  const crossed = { kind: "histogram", row_bound: "1", sigma: 4, edges: [["-1", "1"], ["-1", "1"]], levels: [0, 0], crossed: true };
  await assert.rejects(() => new World({ batches: "windowed", windows: stream }).open(), /windows\.stream: unknown field/);
  await assert.rejects(() => new World({ mechanism: crossed }).open(), /mechanism\.crossed: unknown field/);
});

test("a claim better than the noise, an odd task and a strict owner are refused before a key is asked for", async () => {
  const cases: [string, Partial<Record<keyof Definition, unknown>>, object][] = [
    ["false_claim", { mechanism: { kind: "sum", row_bound: "1", fraction_bits: 4, sigma: 10, floor: 60 } }, {}],
    ["false_claim", { mechanism: { kind: "sum", row_bound: "1", fraction_bits: 4, sigma: 50 } }, {}],
    ["invalid_task", { noise: undefined }, {}],
    ["invalid_task", { mechanism: { kind: "osnap", row_bound: "1", fraction_bits: 4, sigma: 100, rows: 2, sparsity: 2, leverage: "0.5" } }, {}],
    ["unsupported_feature", { mechanism: { kind: "ron_gauss" } }, {}],
    ["unsupported_feature", { mechanism: { kind: "newton_step" } }, {}],
    ["unsupported_feature", { mechanism: { kind: "sum_laplace" } }, {}],
    ["unsupported_feature", { mechanism: { kind: "histogram_laplace" } }, {}],
    ["unsupported_feature", { extensions: ["more"] }, {}],
    ["invalid_task", { author_key: "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" }, {}],
    ["invalid_message", { purpose: "turned \u202e around" }, {}],
    ["policy_refused", {}, { maxEpsilon: 0.1 }],
    ["policy_refused", {}, { minServers: 4 }],
    ["policy_refused", {}, { requireHybrid: true }],
    ["policy_refused", {}, { authors: [] }],
    ["policy_refused", { retention: 40 * 86_400 }, {}],
  ];
  for (const [token, changes, policy] of cases) {
    const world = new World(changes);
    assert.equal(await tokenOf(() => world.open(undefined, policy)), token, JSON.stringify([changes, policy]));
    assert.ok(world.requests.every(({ path }) => path !== "/v1/keys"));
  }
});

test("a row with names such as __proto__ is refused, and no message repeats a value", async () => {
  const world = new World();
  const client = await world.open();
  for (const row of [JSON.parse('{"__proto__": 1}'), { constructor: 1 }, { a: "secret-value" }, { a: 1n }, { c: 1 }]) {
    await assert.rejects(client.send(row as never), (error: Error) => !error.message.includes("secret-value") && /invalid_row/.test(error.message));
  }
  assert.ok(world.requests.every(({ path }) => !REPORTS.test(path)));
});
