/** What a device's owner accepts, and the checks of a task that nothing may leave before (docs/reference/client.md). */

import { canonical, type Json } from "./json.js";
import { parseBase64url, utf8 } from "./bytes.js";
import { encoded, type KeyList, MESSAGES, parseSigned, type SignedTask } from "./documents.js";
import { LintraError, refuse } from "./errors.js";
import { epsilonAt } from "./privacy/statement.js";
import { type Rational, compare, ofDouble, parseReal, rational, toNumber } from "./rational.js";
import { verify, verifySigned } from "./signing.js";
import { PUBLIC_KEY_BYTES, type Suite } from "./suites/suite.js";
import { ALONE, Task, usualDelta } from "./task.js";

export interface Policy {
  /** Largest epsilon, at `delta` and not at the author's. */
  maxEpsilon?: number;
  /** Largest promised delta; 1e-4 if not given. */
  maxDelta?: number;
  /** The same if everybody else is invented; three times `maxEpsilon` if not given. */
  maxEpsilonAlone?: number;
  /** Take tasks, too, of which nothing bounds what is seen if everybody else is invented. */
  trustEnrolment?: boolean;
  /** Refuse tasks whose reports carry no proof of their length. */
  requireVerified?: boolean;
  /** At which epsilon is compared; a millionth, or one over the smallest cohort if that is less. */
  delta?: number;
  minServers?: number;
  minClients?: number;
  /** Refuse tasks whose reports are sealed without the post-quantum part. */
  requireHybrid?: boolean;
  /** Public keys of the authors whose tasks are accepted. */
  authors?: readonly string[];
  /** Seconds after the release for which servers may keep shares: 30 days, and none where servers add the noise. */
  maxRetention?: number;
  maxRetentionOfRows?: number;
}

const DAY = 86_400;
const CLOCK_SKEW = 300;
const ROUNDING = 1 + 1e-9;

/** A decimal is meant, and not a double's exact value: 1e-6 is a millionth. */
function decimal(value: number): Rational {
  const [digits, exponent = "0"] = String(value).split("e");
  const { n, d } = parseReal(digits);
  const power = 10n ** BigInt(Math.abs(Number(exponent)));
  return Number(exponent) < 0 ? rational(n, d * power) : rational(n * power, d);
}

/** Refuse a task that the owner does not allow. */
export function requirePolicy(task: Task, policy: Policy): void {
  const { claim, servers, suite, author_key, retention, noise } = task.definition;
  const no = (words: string): never => refuse("policy_refused", words);
  const worst = task.worstTogether();
  if (compare(parseReal(claim.delta), decimal(policy.maxDelta ?? 1e-4)) > 0) no(`delta ${claim.delta} is too large`);
  const delta = policy.delta === undefined ? usualDelta(claim.min_clients) : decimal(policy.delta);
  if (compare(ofDouble(worst.failure), delta) >= 0) no("what is no noise does not fit into delta");
  const { maxEpsilon = Infinity, maxEpsilonAlone = ALONE * maxEpsilon } = policy;
  const within = (who: string, epsilon: number, most: number) => {
    if (!(epsilon <= most * ROUNDING)) no(`epsilon${who} is ${epsilon.toPrecision(6)} at delta ${toNumber(delta)}, more than ${most}`);
  };
  const epsilon = epsilonAt(worst, toNumber(delta));
  if (epsilon === Infinity && worst.shift) no("shares of verified reports do not fit into delta");
  within("", epsilon, maxEpsilon);
  const alone = task.boundAlone();
  if (alone) within(" if everybody else is invented", epsilonAt(alone, toNumber(delta)), maxEpsilonAlone);
  else if (!policy.trustEnrolment)
    no("nothing bounds what is seen if everybody else is invented; trustEnrolment would allow it");
  if (policy.requireVerified && !task.verified) no("reports are not verified");
  if (servers.length < (policy.minServers ?? 2)) no(`${servers.length} servers are too few`);
  if (claim.min_clients < (policy.minClients ?? 2)) no(`a release of ${claim.min_clients} reports is too small`);
  if (policy.requireHybrid && suite !== "mlkem768-x25519") no(`suite ${suite} has no post-quantum part`);
  if (policy.authors && !policy.authors.includes(author_key)) no(`author ${author_key} is not allowed here`);
  const most = noise === "servers" ? (policy.maxRetentionOfRows ?? 0) : (policy.maxRetention ?? 30 * DAY);
  if (retention > most) no(`shares are kept for ${retention} s, more than ${most}`);
}

/**
 * Check what the servers say that a task is: (1) all the same, (2) the one that was asked for, (3) each signed by another
 * server of the task, (4) the servers that the user named, (5) consistent, with a promise that holds, (6) allowed.
 */
export async function agreedTask(
  suite: Suite, taskId: string, names: readonly string[], bodies: readonly Uint8Array[], policy: Policy,
): Promise<{ task: Task; indices: number[] }> {
  const records = bodies.map((body) => parseSigned(MESSAGES.TaskRecord, body) as SignedTask);
  const definitions = records.map((record) => canonical(record.message.definition as unknown as Json));
  names.forEach((name, place) => {
    if (definitions[place] !== definitions[0]) refuse("task_conflict", `${name} holds another definition than ${names[0]}`);
  });
  const task = Task.parse(utf8(definitions[0]));
  if (task.id !== taskId) refuse("invalid_message", `the servers returned task ${task.id}`);
  const indices = await Promise.all(records.map((record, place) => signerOf(suite, task, names[place], record)));
  if (new Set(indices).size < indices.length || indices.length !== task.definition.servers.length)
    refuse("task_conflict", `not every server of the task answered, only ${indices}`);
  indices.forEach((index, place) => {
    const { url } = task.definition.servers[index];
    if (url !== names[place]) refuse("task_conflict", `${names[place]} signed as ${url}`);
  });
  task.check();
  requirePolicy(task, policy);
  return { task, indices };
}

async function signerOf(suite: Suite, task: Task, name: string, record: SignedTask): Promise<number> {
  for (const [index, server] of task.definition.servers.entries()) {
    try {
      await verify(suite, server.identity_key, record.signature, "task", encoded(record.message));
      return index;
    } catch (error) {
      if (!(error instanceof LintraError)) throw error;
      if (error.token === "invalid_message") refuse("invalid_task", `server ${index}: ${error.detail}`);
    }
  }
  return refuse("unauthorized", `${name} signed with no key of the task's servers`);
}

export interface ServerKey {
  id: Uint8Array;
  publicKey: Uint8Array;
  validUntil: number;
}

/** The first key of the task's suite that is valid now, of a server's signed list; `now` in seconds since the epoch. */
export async function sealingKey(suite: Suite, task: Task, server: number, body: Uint8Array, now: number): Promise<ServerKey> {
  const identity = task.definition.servers[server].identity_key;
  const signed = parseSigned<KeyList>(MESSAGES.KeyList, body);
  await verifySigned(suite, identity, signed);
  const { identity_key, keys } = signed.message;
  if (identity_key !== identity) refuse("invalid_message", `server ${server} returned the keys of ${identity_key}`);
  const name = task.definition.suite;
  const valid = keys.find(
    (key) => key.suite === name && key.valid_from - CLOCK_SKEW <= now && now < key.valid_until + CLOCK_SKEW,
  );
  if (!valid) refuse("unavailable", `server ${server} has no ${name} key that is valid now by this clock`);
  const publicKey = parseBase64url(valid.public_key, PUBLIC_KEY_BYTES[name]);
  return { id: parseBase64url(valid.key_id, 8), publicKey, validUntil: valid.valid_until };
}

