/** Additive shares over Z_2^64: uniform words, or seeds that stand for them (docs/reference/protocol-encoding.md#sharing). */

import { shake128 } from "@noble/hashes/sha3.js";
import { type RandomBytes, concat, framed, readLittleEndian, writeLittleEndian } from "./bytes.js";

export type ShareForm = "uniform" | "seeded" | "spread";

export const SEED_BYTES = 32;

/** Ring words as bytes; negative numbers enter as their residues. */
export function wordsBytes(words: readonly bigint[]): Uint8Array {
  const bytes = new Uint8Array(8 * words.length);
  words.forEach((word, place) => writeLittleEndian(bytes, 8 * place, word, 8));
  return bytes;
}

export const parseWords = (bytes: Uint8Array): bigint[] =>
  Array.from({ length: bytes.length / 8 }, (_, place) => readLittleEndian(bytes, 8 * place, 8));

export const expandShare = (seed: Uint8Array, words: number): bigint[] =>
  parseWords(shake128(framed("share seed", seed), { dkLen: 8 * words }));

/** What masks leave of a secret. */
const left = (secret: readonly bigint[], masks: bigint[][]): bigint[] =>
  secret.map((word, place) => BigInt.asUintN(64, masks.reduce((rest, mask) => rest - mask[place], word)));

/** The payloads of all servers, with the byte that says their form. */
export function split(secret: readonly bigint[], servers: number, form: ShareForm, random: RandomBytes): Uint8Array[] {
  const of = (form: number, ...parts: Uint8Array[]) => concat(Uint8Array.of(form), ...parts);
  if (form === "uniform") {
    const masks = parseWords(random(8 * (servers - 1) * secret.length));
    const own = Array.from({ length: servers - 1 }, (_, j) => masks.slice(j * secret.length, (j + 1) * secret.length));
    return [...own, left(secret, own)].map((share) => of(0, wordsBytes(share)));
  }
  const seeds = Array.from({ length: form === "seeded" ? servers - 1 : servers }, () => random(SEED_BYTES));
  const masks = seeds.map((seed) => expandShare(seed, secret.length));
  const rest = left(secret, masks);
  if (form === "seeded") return [...seeds.map((seed) => of(1, seed)), of(0, wordsBytes(rest))];
  return seeds.map((seed, j) => {
    const [start, end] = [j, j + 1].map((server) => Math.floor((server * secret.length) / servers));
    return of(4, seed, wordsBytes(rest.slice(start, end).map((word, place) => word + masks[j][start + place])));
  });
}
