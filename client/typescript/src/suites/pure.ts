/** Keys by libraries in JavaScript, for machines whose WebCrypto lacks the curves. */

import { gcm } from "@noble/ciphers/aes.js";
import { edwards } from "@noble/curves/abstract/edwards.js";
import { montgomery } from "@noble/curves/abstract/montgomery.js";
import { sha512 } from "@noble/hashes/sha2.js";
import { concat, equal, readLittleEndian } from "../bytes.js";
import { FIELD, ORDER } from "../signing.js";
import type { Suite } from "./suite.js";

/** Only what is used of both curves (RFC 7748, RFC 8032): the library's own modules bring signing and hashing along. */
const POINT = edwards({
  p: FIELD, n: ORDER, h: 8n, a: FIELD - 1n,
  d: 37095705934669439343138083508754565189542113879843219016388785533085940283555n,
  Gx: 15112221349535400772501151409588531511454012693041857206046113283949847762202n,
  Gy: 46316835694926478169428394003475163141307993866256225615783033603165251855960n,
});
const X25519 = montgomery({
  P: FIELD, type: "x25519",
  adjustScalarBytes(bytes: Uint8Array) {
    bytes[0] &= 248;
    bytes[31] = (bytes[31] & 127) | 64;
    return bytes;
  },
  powPminus2: (x) => POINT.Fp.pow(x, FIELD - 2n),
});

export const pureSuite: Suite = {
  async x25519(privateKey, publicKey) {
    try {
      return X25519.scalarMult(privateKey, publicKey);
    } catch {
      return new Uint8Array(32); // the library refuses points of small order
    }
  },
  async aes128Gcm(key, nonce, plaintext) {
    return gcm(key, nonce).encrypt(plaintext);
  },
  async verify(publicKey, signature, data) {
    // [S]B - [k]A is compared with R, without a cofactor, as the protocol says.
    try {
      const key = POINT.fromBytes(publicKey);
      const challenge = readLittleEndian(sha512(concat(signature.slice(0, 32), publicKey, data)), 0, 64) % ORDER;
      const scalar = readLittleEndian(signature, 32, 32);
      const found = POINT.BASE.multiplyUnsafe(scalar).subtract(key.multiplyUnsafe(challenge));
      return equal(found.toBytes(), signature.slice(0, 32));
    } catch {
      return false;
    }
  },
};
