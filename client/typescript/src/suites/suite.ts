/** The arithmetic of keys, which WebCrypto or a library does; and sealing over it (docs/reference/protocol-encoding.md#sealing). */

import { sha256 } from "@noble/hashes/sha2.js";
import { sha3_256 } from "@noble/hashes/sha3.js";
import { ml_kem768 } from "@noble/post-quantum/ml-kem.js";
import { type RandomBytes, bigEndian, concat, utf8 } from "../bytes.js";
import { refuse } from "../errors.js";

export interface Suite {
  /** X25519 of a private and a public key; all zeros where the public key is of small order. */
  x25519(privateKey: Uint8Array, publicKey: Uint8Array): Promise<Uint8Array>;
  aes128Gcm(key: Uint8Array, nonce: Uint8Array, plaintext: Uint8Array): Promise<Uint8Array>;
  /** Whether an Ed25519 signature fits; key and R were checked before. */
  verify(publicKey: Uint8Array, signature: Uint8Array, data: Uint8Array): Promise<boolean>;
}

export type SuiteName = "mlkem768-x25519" | "x25519";

const MLKEM_BYTES = 1184;
export const PUBLIC_KEY_BYTES: Record<SuiteName, number> = { "mlkem768-x25519": MLKEM_BYTES + 32, x25519: 32 };

const BASE = Uint8Array.of(9, ...new Uint8Array(31));

/** Seal bytes to a public key, with HPKE in base mode. Randomness: ML-KEM's 32 bytes if there are any, the ephemeral key. */
export async function seal(
  suite: Suite, name: SuiteName, publicKey: Uint8Array, info: Uint8Array, plaintext: Uint8Array, random: RandomBytes,
): Promise<Uint8Array> {
  if (publicKey.length !== PUBLIC_KEY_BYTES[name]) refuse("invalid_message", `not a ${name} public key`);
  const { secret, encapsulated, id } = await (name === "x25519" ? dhkem : hybrid)(suite, publicKey, random);
  const hpke = concat(utf8("HPKE"), id, bigEndian(1, 2), bigEndian(1, 2));
  const empty = new Uint8Array();
  const context = concat(Uint8Array.of(0), extract(empty, hpke, "psk_id_hash", empty), extract(empty, hpke, "info_hash", info));
  const schedule = extract(secret, hpke, "secret", empty);
  const [key, nonce] = [expand(schedule, hpke, "key", context, 16), expand(schedule, hpke, "base_nonce", context, 12)];
  return concat(encapsulated, await suite.aes128Gcm(key, nonce, plaintext));
}

interface Encapsulation {
  secret: Uint8Array;
  encapsulated: Uint8Array;
  id: Uint8Array;
}

async function exchange(suite: Suite, publicKey: Uint8Array, random: RandomBytes) {
  const ephemeral = random(32);
  const shared = await suite.x25519(ephemeral, publicKey);
  if (shared.every((byte) => !byte)) refuse("invalid_message", "not a x25519 public key");
  return { shared, own: await suite.x25519(ephemeral, BASE) };
}

/** DHKEM(X25519, HKDF-SHA256), KEM 0x0020. */
async function dhkem(suite: Suite, publicKey: Uint8Array, random: RandomBytes): Promise<Encapsulation> {
  const { shared, own } = await exchange(suite, publicKey, random);
  const id = bigEndian(0x20, 2);
  const kem = concat(utf8("KEM"), id);
  const secret = expand(extract(new Uint8Array(), kem, "eae_prk", shared), kem, "shared_secret", concat(own, publicKey), 32);
  return { secret, encapsulated: own, id };
}

/** ML-KEM-768 joined with X25519, KEM 0x647a. */
async function hybrid(suite: Suite, publicKey: Uint8Array, random: RandomBytes): Promise<Encapsulation> {
  const receiver = publicKey.slice(MLKEM_BYTES);
  let first: { cipherText: Uint8Array; sharedSecret: Uint8Array };
  try {
    first = ml_kem768.encapsulate(publicKey.slice(0, MLKEM_BYTES), random(32));
  } catch {
    refuse("invalid_message", "not a mlkem768-x25519 public key");
  }
  const { shared, own } = await exchange(suite, receiver, random);
  const secret = sha3_256(concat(first.sharedSecret, shared, own, receiver, utf8("\\.//^\\")));
  return { secret, encapsulated: concat(first.cipherText, own), id: bigEndian(0x647a, 2) };
}

/** HMAC-SHA256 (RFC 2104) under a key of at most 64 bytes. */
function hmac(key: Uint8Array, message: Uint8Array): Uint8Array {
  const padded = (byte: number) => Uint8Array.from({ length: 64 }, (_, place) => (key[place] ?? 0) ^ byte);
  return sha256(concat(padded(0x5c), sha256(concat(padded(0x36), message))));
}

const extract = (salt: Uint8Array, suite: Uint8Array, label: string, secret: Uint8Array): Uint8Array =>
  hmac(salt, concat(utf8("HPKE-v1"), suite, utf8(label), secret));

function expand(secret: Uint8Array, suite: Uint8Array, label: string, info: Uint8Array, length: number): Uint8Array {
  const labelled = concat(bigEndian(length, 2), utf8("HPKE-v1"), suite, utf8(label), info);
  return hmac(secret, concat(labelled, Uint8Array.of(1))).slice(0, length);
}
