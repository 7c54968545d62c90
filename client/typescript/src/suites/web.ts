/** Keys by WebCrypto: faster than a library, smaller, and in constant time. */

import { concat } from "../bytes.js";
import type { Suite } from "./suite.js";

/** What stands before the 32 private bytes in PKCS #8 (RFC 8410). */
const PKCS8 = Uint8Array.of(0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20);

const plain = (bytes: Uint8Array): Uint8Array<ArrayBuffer> => Uint8Array.from(bytes);

export const webSuite: Suite = {
  async x25519(privateKey, publicKey) {
    const { subtle } = globalThis.crypto;
    const own = await subtle.importKey("pkcs8", plain(concat(PKCS8, privateKey)), "X25519", false, ["deriveBits"]);
    const other = await subtle.importKey("raw", plain(publicKey), "X25519", false, []);
    try {
      return new Uint8Array(await subtle.deriveBits({ name: "X25519", public: other }, own, 256));
    } catch {
      return new Uint8Array(32); // WebCrypto refuses points of small order
    }
  },
  async aes128Gcm(key, nonce, plaintext) {
    const imported = await globalThis.crypto.subtle.importKey("raw", plain(key), "AES-GCM", false, ["encrypt"]);
    const sealed = await globalThis.crypto.subtle.encrypt({ name: "AES-GCM", iv: plain(nonce) }, imported, plain(plaintext));
    return new Uint8Array(sealed);
  },
  async verify(publicKey, signature, data) {
    try {
      const key = await globalThis.crypto.subtle.importKey("raw", plain(publicKey), "Ed25519", false, ["verify"]);
      return await globalThis.crypto.subtle.verify("Ed25519", key, plain(signature), plain(data));
    } catch {
      return false; // no point has this key
    }
  },
};

/** Whether this machine's WebCrypto has the curves. */
export async function hasCurves(): Promise<boolean> {
  const subtle = globalThis.crypto?.subtle;
  if (!subtle) return false;
  const known = Uint8Array.of(9, ...new Uint8Array(31));
  try {
    await subtle.importKey("raw", known, "X25519", false, []);
    await subtle.importKey("raw", Uint8Array.of(0x58, ...new Uint8Array(31).fill(0x66)), "Ed25519", false, ["verify"]);
    return true;
  } catch {
    return false;
  }
}
