/** Keys by libraries in JavaScript, for machines whose WebCrypto lacks the curves. */

import { gcm } from "@noble/ciphers/aes.js";
import { ed25519, x25519 } from "@noble/curves/ed25519.js";
import { sha512 } from "@noble/hashes/sha2.js";
import { concat, equal, readLittleEndian } from "../bytes.js";
import type { Suite } from "./suite.js";

const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;

export const pureSuite: Suite = {
  async x25519(privateKey, publicKey) {
    try {
      return x25519.getSharedSecret(privateKey, publicKey);
    } catch {
      return new Uint8Array(32); // the library refuses points of small order
    }
  },
  async aes128Gcm(key, nonce, plaintext) {
    return gcm(key, nonce).encrypt(plaintext);
  },
  async verify(publicKey, signature, data) {
    // The library's own check has a cofactor; here [S]B - [k]A is compared with R, as the protocol says.
    try {
      const key = ed25519.Point.fromBytes(publicKey);
      const challenge = readLittleEndian(sha512(concat(signature.slice(0, 32), publicKey, data)), 0, 64) % ORDER;
      const scalar = readLittleEndian(signature, 32, 32);
      const found = ed25519.Point.BASE.multiplyUnsafe(scalar).subtract(key.multiplyUnsafe(challenge));
      return equal(found.toBytes(), signature.slice(0, 32));
    } catch {
      return false;
    }
  },
};
