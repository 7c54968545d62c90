/** What each operation of the vectors is in this client; and those that are none of a client's. */

import { createCipheriv } from "node:crypto";
import { base64url, framed, hash, parseBase64url, type RandomBytes, utf8, writeLittleEndian } from "../src/bytes.js";
import { dithered, quantise } from "../src/clipping.js";
import { MESSAGES, encoded, parseMessage } from "../src/documents.js";
import { canonical, parseCanonical } from "../src/json.js";
import { Measurement } from "../src/measurement.js";
import { histogram } from "../src/mechanisms/histogram.js";
import type { Document, Kind, Neighbours } from "../src/mechanisms/kind.js";
import { osnap } from "../src/mechanisms/osnap.js";
import { type SecondMoment, secondMoment } from "../src/mechanisms/second_moment.js";
import { sum } from "../src/mechanisms/sum.js";
import { discreteGaussian } from "../src/noise.js";
import { epsilonAt } from "../src/privacy/statement.js";
import { verifyAbsence, verifyInclusion } from "../src/proofs.js";
import { blockContext, encodeUpload, headerOf, makeReport } from "../src/report.js";
import { normalise } from "../src/schema.js";
import { isPrintable, type Shape } from "../src/shapes.js";
import { expandShare, parseWords, split, wordsBytes } from "../src/sharing.js";
import { verify } from "../src/signing.js";
import { type Suite, seal } from "../src/suites/suite.js";
import { refuse } from "../src/errors.js";
import { Task, usualDelta } from "../src/task.js";
import { PRIMES, Sizes, expandProven, fourSquares, lastShare, noisedBound, padding, proof, readShare, shareBytes } from "../src/verified.js";

export const unhex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, "hex"));
export const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
const texts = (values: readonly bigint[]): string[] => values.map(String);

/** Read given bytes from their beginning. */
export function fromBytes(bytes: Uint8Array): RandomBytes {
  let at = 0;
  return (count) => bytes.slice(at, (at += count));
}

/** The keystream of a seed. */
export function keystream(seed: Uint8Array): RandomBytes {
  const cipher = createCipheriv("aes-256-ctr", seed, Buffer.alloc(16));
  return (count) => Uint8Array.from(cipher.update(Buffer.alloc(count)));
}

const KINDS: Record<string, Kind<never>> = { sum, second_moment: secondMoment, histogram, osnap };
export const isSupported = (mechanism: Document & { basis?: string; features_basis?: string[][] }): boolean =>
  Object.keys(KINDS).includes(mechanism.kind) && mechanism.basis === undefined && mechanism.features_basis === undefined;

/** Read given words of 32 bits. */
const fromWords = (words: string[]): RandomBytes => fromBytes(new Uint8Array(Uint32Array.from(words.map(Number)).buffer));

function measurementOf(mechanism: Document, columns: number): Measurement {
  if (!isSupported(mechanism)) refuse("unsupported_feature", mechanism.kind);
  return new Measurement(KINDS[mechanism.kind] as Kind<Document>, mechanism, columns);
}

const none: RandomBytes = () => refuse("refused", "rounding to nearest reads no random bytes");
const numbers = (row: (string | null)[]): number[] => row.map((value) => (value === null ? NaN : Number(value)));
const task = (text: string): Task => Task.parse(utf8(text));

/* eslint-disable @typescript-eslint/no-explicit-any */
export const operations = (suite: Suite): Record<string, (input: any) => unknown> => ({
  framed: ({ label, parts }) => hex(framed(label, ...parts.map(unhex))),
  hash: ({ label, parts }) => hex(hash(label, ...parts.map(unhex))),
  keystream: ({ seed, count }) => hex(keystream(unhex(seed))(count)),
  receipt_hash: ({ ids }) => base64url(hash("receipt reports", ...ids.map(unhex))),
  parse_json: ({ text }) => canonical(parseCanonical(utf8(text))),
  parse_base64url: ({ text, length }) => hex(parseBase64url(text, length)),
  check_task: ({ text }) => {
    const read = task(text);
    read.check();
    return read.id;
  },
  batch_of: ({ task: text, time }) => {
    const read = task(text);
    if (time < read.definition.not_before || time >= read.definition.not_after) refuse("refused", "outside the task");
    return read.batchOf(time);
  },
  window_epsilons: ({ task: text }) => {
    const read = task(text);
    return [read.worstPrivacy(), read.worstTogether()].map((each) => epsilonAt(each).toFixed(9));
  },
  promise: ({ task: text, delta }) => {
    const read = task(text);
    read.check();
    return python(epsilonAt(read.worstPrivacy(), Number(delta)));
  },
  promise_alone: ({ task: text, delta }) => {
    const read = task(text);
    read.check();
    const alone = read.boundAlone();
    return alone ? python(epsilonAt(alone, Number(delta))) : null;
  },
  usual_delta: ({ min_clients }) => {
    const { n, d } = usualDelta(min_clients);
    return [String(n), String(d)];
  },
  printable: ({ text }) => isPrintable(text),
  normalised: ({ task: text, row }) => {
    const { definition } = task(text);
    return normalise(definition.columns, numbers(row), definition.mechanism.kind === "histogram").map((x) =>
      Number.isInteger(x) ? x.toFixed(1) : String(x),
    );
  },
  quantise: ({ row, squared_bound }) => texts(quantise(row.map(Number), BigInt(squared_bound))),
  dither: ({ row, squared_bound, u }) => texts(dithered(row.map(Number), BigInt(squared_bound), fromWords(u))),
  dithered_report: ({ mechanism, row, outside, u }) =>
    texts(measurementOf(mechanism, row.length).exact(numbers(row), outside, fromWords(u))),
  products: ({ steps, intercept, trace }) =>
    texts(
      secondMoment.fill(
        { kind: "second_moment", row_bound: "1", fraction_bits: 0, sigma: 4, intercept, trace } as SecondMoment,
        steps.map(BigInt),
      ),
    ),
  missing_rows: ({ mechanism, row, outside }) => texts(measurementOf(mechanism, row.length).exact(numbers(row), outside, none)),
  clip_count: ({ mechanism, row, outside }) => {
    const words = measurementOf(mechanism, row.length).exact(numbers(row), outside, none);
    return String(words[words.length - 1]);
  },
  joint_vector: ({ mechanism, row }) => texts(measurementOf(mechanism, row.length).exact(numbers(row), false, none)),
  squared_distance: ({ mechanism, columns, neighbours, contributors }) => {
    if (contributors || neighbours === "add-remove") refuse("unsupported_feature", "organisations");
    measurementOf(mechanism, columns);
    const { n, d } = KINDS[mechanism.kind].squaredDistance(mechanism as never, neighbours as Neighbours);
    return [String(n), String(d)];
  },
  clip_flags: ({ task: text, row }) => {
    const read = task(text);
    const made = read.encode(Object.fromEntries(read.definition.columns.slice(0, row.length).map(({ name }, j) => [name, row[j]])), keystream(new Uint8Array(32)));
    return { clipped: made.clipped, incomplete: made.incomplete };
  },
  noise: ({ sigmas, seed, replaced }) => {
    const stream = keystream(unhex(seed));
    let read = 0;
    const random: RandomBytes = (count) => {
      const bytes = stream(count);
      for (const [place, word] of Object.entries(replaced as Record<string, string>)) {
        const at = 8 * Number(place) - read;
        if (at >= 0 && at < count) writeLittleEndian(bytes, at, BigInt(word), 8);
      }
      read += count;
      return bytes;
    };
    const all = (sigmas as [number, number][]).flatMap(([sigma, count]) => new Array<number>(count).fill(sigma));
    const words = new Array<bigint>(all.length).fill(0n);
    for (const sigma of [...new Set(all)].filter(Boolean).sort((a, b) => a - b)) {
      const places = [...all.keys()].filter((place) => all[place] === sigma);
      discreteGaussian(places.length, sigma, random).forEach((drawn, j) => (words[places[j]] = drawn));
    }
    if (words.length > 1000) return { digest: hex(hash("test", wordsBytes(words))), bytes_read: read };
    return { words: texts(words), bytes_read: read };
  },
  to_ring: ({ value }) => String(BigInt.asUintN(64, BigInt(value))),
  ring_bytes: ({ words }) => hex(wordsBytes(words.map(BigInt))),
  split: ({ secret, servers, random }) =>
    split(secret.map(BigInt), servers, "uniform", fromBytes(unhex(random))).map((share) => texts(parseWords(share.slice(1)))),
  expand_share: ({ seed, words }) => texts(expandShare(unhex(seed), words)),
  make_report: ({ task: text, row, time, random }) => {
    const made = makeReport(task(text), row.map(BigInt), time, fromBytes(unhex(random)));
    return { report_id: hex(made.id), header: hex(made.header), shares: made.shares.map(hex) };
  },
  header: ({ task_id, time, commitments }) => hex(headerOf(unhex(task_id), time, commitments.map(unhex))),
  block_context: ({ task_id, server, key_id, headers }) =>
    hex(blockContext(unhex(task_id), server, unhex(key_id), headers.map(unhex))),
  seal_upload: async ({ task: text, server, key_id, public_key, header, share, presented, random }) => {
    const { definition, idBytes } = task(text);
    const info = blockContext(idBytes, server, unhex(key_id), [unhex(header)]);
    const sealed = await seal(suite, definition.suite, unhex(public_key), info, unhex(share), fromBytes(unhex(random)));
    return hex(encodeUpload(unhex(header), unhex(key_id), sealed, presented ? unhex(presented) : undefined));
  },
  verify: async ({ public_key, signature, label, parts }) => {
    await verify(suite, public_key, signature, label, ...parts.map(unhex));
    return null;
  },
  verify_inclusion: ({ root, count, id, ...leaf }) => {
    verifyInclusion({ root: base64url(unhex(root)), count }, spelled(leaf), unhex(id));
    return null;
  },
  verify_absence: ({ root, count, id, leaves }) => {
    verifyAbsence({ root: base64url(unhex(root)), count }, leaves.map(spelled), unhex(id));
    return null;
  },
  parse_message: ({ kind, text }) => {
    const shape = (MESSAGES as Record<string, Shape>)[kind] ?? refuse("unsupported_feature", kind);
    return new TextDecoder().decode(encoded(parseMessage(shape, utf8(text))));
  },
  verified_sizes: ({ words, servers }) => {
    const sizes = new Sizes(words, servers, 0n);
    return [sizes.padded, sizes.columns, sizes.powers, sizes.wordBits, String(sizes.offset)];
  },
  noised_bound: ({ longest, variances }) => String(noisedBound(BigInt(longest), variances.map(BigInt))),
  padded: ({ row, bound }) => texts([...row.map(BigInt), ...padding(row.map(BigInt), BigInt(bound))]),
  four_squares: ({ numbers }) => numbers.map(fourSquares),
  proof: ({ words, blinds, sizes }) =>
    PRIMES.map((_, field) => texts(proof(sizesOf(sizes), words.map(BigInt), blinds[field].map(BigInt), field))),
  expand_proven: ({ seed, ...sizes }) => hex(shareBytes(sizesOf(sizes), expandProven(sizesOf(sizes), unhex(seed)))),
  last_share: ({ row, elements, others, sizes }) => {
    const own = sizesOf(sizes);
    const shares = others.map((other: string) => readShare(own, fromBytes(unhex(other))));
    return hex(shareBytes(own, lastShare(own, row.map(BigInt), elements.map((each: string[]) => each.map(BigInt)), shares)));
  },
});

const sizesOf = ({ words, servers, bound }: { words: number | string; servers: number | string; bound?: string }): Sizes =>
  new Sizes(Number(words), Number(servers), BigInt(bound ?? "0"));

const spelled = ({ leaf, leaf_ids, siblings }: { leaf: number; leaf_ids: string; siblings: string[] }) => ({
  leaf, leaf_ids: base64url(unhex(leaf_ids)), siblings: siblings.map((each) => base64url(unhex(each))),
});

/** Ten digits behind the point, as Python spells them. */
const python = (value: number): string => value.toExponential(10).replace(/e([+-])(\d)$/, "e$10$2");

/** What servers, analyzers, authors or organisations do. */
export const NOT_A_CLIENTS = new Set([
  "accepted", "aggregate_context", "carried", "check_pass", "check_points", "check_seed", "check_share", "clip_entries", "clip_exactly",
  "columns", "contribution", "decode", "decode_sealed_document", "derive", "deviations", "difference", "dithered_contribution", "expand_spread", "floor_deviations",
  "halvings", "intersection", "judge", "laplace_shares", "late_seed", "matrix", "merkle_root", "nonce_commitment", "omega", "open",
  "open_upload", "orthonormal", "parse_ids", "pieces", "positions", "problem", "project", "prove", "prove_absence",
  "public_key", "published_sigma", "range_products", "range_projection", "rebuild", "require_formed", "sigmas", "sign",
  "sign_request", "sketch", "smallest_sigma", "sorted_ids", "span", "squared_mu", "stream_matrix", "token", "token_key_hashes", "token_keys",
  "usable_points", "verify_census", "verify_cohorts", "verify_inventories", "verify_list", "verify_request",
  "window_nonce_commitment", "combine",
]);
