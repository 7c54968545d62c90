/** Admission tokens: a serial, and for each server a MAC that only it can check (docs/reference/protocol-rules.md#tokens). */

import { concat, parseBase64url } from "./bytes.js";
import { refuse, refusingAs } from "./errors.js";

const BYTES = 16;

/** What one server receives of a token: serial and its own MAC. */
export function passOf(token: string | undefined, servers: number, server: number): Uint8Array {
  if (token === undefined) refuse("token_invalid", "the task asks for a token");
  const whole = refusingAs("invalid_message", `not a token for ${servers} servers`, () =>
    parseBase64url(token.trim(), BYTES * (servers + 1)),
  );
  return concat(whole.slice(0, BYTES), whole.slice(BYTES * (server + 1), BYTES * (server + 2)));
}
