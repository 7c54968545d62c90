/** One report of a source, charged before it leaves: after crashes at every step, lost answers, new keys and two tabs. */

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { type Entry, Ledger, type Store, epsilonsOf } from "../src/ledger.js";
import { fileStore } from "../src/stores/node.js";
import { memoryStore } from "../src/stores/memory.js";
import { World, isWhole, tokenOf } from "./world.js";

const REPORTS = /\/reports$/;
const stores: Record<string, () => Promise<Store>> = {
  memory: async () => memoryStore(),
  files: () => fileStore(join(mkdtempSync(join(tmpdir(), "lintra-")), "ledger")),
};

/** The store as a program sees it that dies before its n-th step, or right after it. */
function dying(store: Store, after: number, isDone: boolean): Store {
  let steps = 0;
  const step = async <T>(work: () => Promise<T>): Promise<T> => {
    if (steps++ < after) return work();
    if (isDone && steps === after + 1) await work();
    throw new Error("this program is gone");
  };
  return { alone: (work) => store.alone(work), all: () => step(() => store.all()), put: (entry) => step(() => store.put(entry)) };
}

for (const [name, make] of Object.entries(stores))
  test(`a crash at any step loses nothing and sends nothing twice (${name})`, async () => {
    let crashes = 0;
    const stride = isWhole || name === "memory" ? 1 : 6;
    for (const isDone of [false, true])
      for (let after = 0, isOver = false; !isOver; after += stride) {
        const world = new World();
        const store = await make();
        const client = await world.open(store);
        const broken = await world.open(dying(store, after, isDone)).catch(() => undefined);
        const first = await broken?.send({ a: 0.5, b: 1 }).catch(() => undefined);
        isOver = first !== undefined;
        if (first) continue;
        crashes++;
        const charged = (await store.all()).map(({ report }) => report);
        const left = new Set(world.stored.flatMap((reports) => [...reports.keys()]));
        assert.ok([...left].every((id) => charged.includes(id)), "a report left before it was charged");
        const sent = await client.send({ a: -1, b: 0 });
        assert.deepEqual(world.stored.map((reports) => [...reports.keys()]), [[sent.reportId], [sent.reportId], [sent.reportId]]);
        assert.equal((await store.all()).length, 1);
        if (charged.length) assert.deepEqual([sent.reportId, sent.repeated], [charged[0], true]);
      }
    assert.ok(crashes > 10 / stride, `${crashes} crashes`);
  });

test("a tab that is closed while any request is under way loses nothing and sends nothing twice", async () => {
  let closed = 0;
  for (const isAnswered of [false, true])
    for (let after = 0, isOver = false; !isOver; after++) {
      const world = new World();
      const store = memoryStore();
      const real = globalThis.fetch;
      let requests = 0;
      let close: (value: undefined) => void;
      const gone = new Promise<undefined>((done) => (close = done));
      // From its n-th request on the tab hears nothing more; the server may have heard it.
      globalThis.fetch = (async (url: string, init: RequestInit) => {
        if (requests++ < after) return real(url, init);
        if (isAnswered) await real(url, init);
        close(undefined);
        return new Promise(() => undefined);
      }) as typeof fetch;
      // A request that nobody answers is given up soon, so that this program ends.
      const sending = world.open(store, {}, { retries: { timeout: 5 } }).then((client) => client.send({ a: 0.5, b: 1 }));
      isOver = (await Promise.race([sending, gone])) !== undefined;
      await new Promise((done) => setTimeout(done, 5)); // what is under way beside it reaches its server or not
      globalThis.fetch = real;
      closed += Number(!isOver);
      const charged = (await store.all()).map(({ report }) => report);
      const sent = await (await world.open(store)).send({ a: -1, b: 0 });
      assert.deepEqual(world.stored.map((reports) => [...reports.keys()]), [[sent.reportId], [sent.reportId], [sent.reportId]]);
      if (charged.length) assert.deepEqual([sent.reportId, sent.repeated], [charged[0], true]);
    }
  assert.ok(closed >= 16, `${closed} closed tabs`);
});

test("answers that are lost are no reason for another report", async () => {
  const world = new World();
  const store = memoryStore();
  const client = await world.open(store);
  for (const lost of [[0, 1, 2], [0, 1], [1]]) {
    world.meddle = (server, path, answer) => {
      if (lost.includes(server) && REPORTS.test(path)) throw new TypeError("no answer");
      return answer;
    };
    assert.equal(await tokenOf(() => client.send({ a: 0.5, b: 0 })), "unavailable");
  }
  world.meddle = (_server, _path, answer) => answer;
  const sent = await client.send({ a: 1, b: 0 });
  assert.ok(sent.repeated);
  assert.ok(world.stored.every((reports) => reports.size === 1));
  assert.deepEqual((await store.all())[0].sealed, {}, "what every server has is not kept");
});

test("three programs that send at once make one report", async () => {
  const world = new World();
  const store = await stores.files();
  const clients = await Promise.all([1, 2, 3].map(() => world.open(store)));
  const sent = await Promise.all(clients.map((client, number) => client.send({ a: number / 10, b: 0 })));
  assert.equal(new Set(sent.map(({ reportId }) => reportId)).size, 1);
  assert.equal(sent.filter(({ repeated }) => !repeated).length, 1);
});

test("a newer key gets the same shares; after a crash such a report is given up", async () => {
  const world = new World();
  const client = await world.open();
  world.renew(1);
  const sent = await client.send({ a: 0.5, b: 0 });
  assert.ok(world.stored.every((reports) => [...reports.keys()].join() === sent.reportId));
  const other = new World();
  const store = memoryStore();
  const second = await other.open(store);
  other.meddle = (server, path, answer) => {
    if (server === 1 && REPORTS.test(path)) throw new TypeError("away");
    return answer;
  };
  // The answer is lost after the server stored it: a later attempt finds it there, whatever key it was sealed to.
  assert.equal(await tokenOf(() => second.send({ a: 0.5, b: 0 })), "unavailable");
  other.stored[1].clear();
  other.renew(1);
  other.meddle = (_server, _path, answer) => answer;
  assert.equal(await tokenOf(() => second.send({ a: 0.5, b: 0 })), "outdated_key");
  assert.equal(await tokenOf(() => second.send({ a: 0.5, b: 0 })), "ledger_refused");
  assert.equal((await store.all()).length, 1);
});

test("a source stays below the ceiling over all tasks, and charges are exact sums", async () => {
  const store = memoryStore();
  const ledger = new Ledger(store, 1.5);
  const epsilons: number[] = [];
  for (let number = 0; ; number++) {
    const world = new World({ salt: Buffer.alloc(32, number).toString("base64url") });
    const client = await world.open(store);
    const price = await ledger.price(client.task, "self").catch(() => undefined);
    if (!price) break;
    await client.send({ a: 0.1, b: 0 });
    epsilons.push((await ledger.spent()).epsilon);
  }
  assert.ok(epsilons.length >= 2 && epsilons.every((epsilon, n) => epsilon <= 1.5 && (!n || epsilon > epsilons[n - 1])));
  const entries = await store.all();
  assert.deepEqual(epsilonsOf(entries.map(({ spent }) => spent), 1e-6), epsilonsOf(entries.reverse().map(({ spent }) => spent), 1e-6));
});

test("the second sum is of what is bounded if everybody else is invented, and has a ceiling of its own", async () => {
  const store = memoryStore();
  const open = (number: number, changes: object = {}, policy: object = {}) =>
    new World({ salt: Buffer.alloc(32, number).toString("base64url"), ...changes }).open(store, policy);
  const first = await open(1);
  await first.send({ a: 0.1, b: 0 });
  const second = await open(2);
  const { epsilon, alone } = await new Ledger(store).spent();
  assert.ok(epsilon < first.promise.epsilon * (1 + 1e-9) && Math.abs(alone / first.promise.epsilonAlone! - 1) < 1e-9);
  const most = (ceiling: number) => tokenOf(() => new Ledger(store, 100, 1e-6, ceiling).price(second.task, "self"));
  assert.deepEqual([await most(1.3 * alone), await most(1.7 * alone)], ["ledger_refused", "none"]);
  const unbound = await open(3, {
    noise: undefined, mechanism: { kind: "sum", row_bound: "1", fraction_bits: 4, sigma: 25 },
    claim: { ...first.task.definition.claim, epsilon_alone: undefined, min_clients: 64 },
  }, { trustEnrolment: true });
  await unbound.send({ a: 0.1, b: 0 });
  const spent = (await store.all()).map(({ spent: { mu_squared_alone, unbounded } }) => [mu_squared_alone !== "0", unbounded]);
  assert.deepEqual(spent, [[true, "0"], [false, "1"]]);
});

test("one source is one, however its name is spelled", async () => {
  const world = new World();
  const store = memoryStore();
  const client = await world.open(store);
  const names = ["Ann Lee", " ann  LEE", "\uff21nn\u00a0Lee"];
  const sent = [];
  for (const source of names) sent.push(await client.send({ a: 0.1, b: 0 }, { source }));
  assert.deepEqual([new Set(sent.map(({ reportId }) => reportId)).size, (await store.all()).length], [1, 1]);
  assert.ok((await new Ledger(store).spent("ANN LEE")).epsilon > 0);
  await assert.rejects(client.send({ a: 0.1, b: 0 }, { source: " " }), RangeError);
});

test("a damaged ledger lets nothing leave", async () => {
  const folder = join(mkdtempSync(join(tmpdir(), "lintra-")), "ledger");
  const world = new World();
  await (await world.open(await fileStore(folder))).send({ a: 0.5, b: 0 });
  const [file] = readdirSync(folder).filter((name) => name.endsWith(".json"));
  const whole = readFileSync(join(folder, file), "utf8");
  const entry = JSON.parse(whole) as Entry;
  const damages = [whole.slice(0, -1), "", "null", "[]", JSON.stringify({ ...entry, spent: { ...entry.spent, mu_squared: "-1e3" } }),
    JSON.stringify({ ...entry, batch: "0" })];
  const before = world.requests.filter(({ path }) => REPORTS.test(path)).length;
  for (const damage of damages) {
    writeFileSync(join(folder, file), damage);
    assert.equal(await tokenOf(async () => (await world.open(await fileStore(folder))).send({ a: 0.5, b: 0 }, { source: "another" })), "ledger_refused", damage);
  }
  assert.equal(world.requests.filter(({ path }) => REPORTS.test(path)).length, before);
});

test("the lock of a process that is gone is taken over", async () => {
  const folder = join(mkdtempSync(join(tmpdir(), "lintra-")), "ledger");
  const store = await fileStore(folder);
  writeFileSync(join(folder, "lock"), "999999999");
  assert.equal(await store.alone(async () => "mine"), "mine");
});
