/** HTTP to one server: bounded answers, refusals by their tokens, and retries of what may pass by itself. */

import { LintraError, refuse } from "./errors.js";
import { isPrintable } from "./shapes.js";

/** How long to keep trying one request; waits double, all in seconds. */
export interface Retries {
  attempts: number;
  patience: number;
  timeout: number;
  firstWait: number;
  longestWait: number;
}

export const USUAL_RETRIES: Retries = { attempts: 8, patience: 120, timeout: 60, firstWait: 0.2, longestWait: 10 };

/** Refusals that may pass within seconds. */
export const TRANSIENT: readonly string[] = ["internal", "unavailable", "overloaded"];

const TOKEN_OF_STATUS: Record<number, string> = {
  429: "overloaded", 500: "internal", 502: "unavailable", 503: "unavailable", 504: "unavailable",
};
const MAX_ANSWER_BYTES = 64 << 20;
const MAX_KEEPALIVE_BYTES = 60_000;
const PROBLEM = "urn:lintra:problem:";

export const mediaType = (name: string): string =>
  `application/vnd.lintra.v1+${name === "reports" ? "octets" : "json"}; message=${name}`;

/** A stranger's words, cut short and without what a terminal or page could take for more. */
export const shown = (words: unknown): string =>
  [...String(words ?? "").slice(0, 500)].map((letter) => (isPrintable(letter) ? letter : "?")).join("");

export class Channel {
  constructor(readonly name: string, private readonly address: string, private readonly retries: Retries) {}

  /** GET a message that is one of some, with retries. A cached list of keys would be an outdated one. */
  get(path: string, ...answers: string[]): Promise<Uint8Array> {
    return this.persistently(() => this.#request(path, { cache: "no-store" }, answers));
  }

  /** POST reports once. No word about caches: browsers would then ask before every upload whether it may be made. */
  post(path: string, body: Uint8Array): Promise<Uint8Array> {
    const keepalive = body.length <= MAX_KEEPALIVE_BYTES;
    const headers = { "content-type": mediaType("reports") };
    return this.#request(path, { method: "POST", body: Uint8Array.from(body), headers, keepalive }, ["upload-answer"]);
  }

  /** Try until it works, is refused for good, or patience ends. */
  async persistently<T>(work: () => Promise<T>): Promise<T> {
    const { attempts, patience, firstWait, longestWait } = this.retries;
    const begun = Date.now();
    for (let attempt = 1; ; attempt++) {
      try {
        return await work();
      } catch (error) {
        const isOver = attempt >= attempts || Date.now() - begun > 1000 * patience;
        if (!(error instanceof LintraError) || !TRANSIENT.includes(error.token) || isOver) throw error;
        const wait = Math.min(longestWait, error.retryAfter ?? firstWait * 2 ** (attempt - 1) * (1 + Math.random() / 2));
        await new Promise((done) => setTimeout(done, 1000 * wait));
      }
    }
  }

  async #request(path: string, init: RequestInit, answers: string[]): Promise<Uint8Array> {
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), 1000 * this.retries.timeout);
    try {
      const response = await fetch(this.address + path, {
        ...init, signal: timeout.signal, redirect: "error", credentials: "omit", referrerPolicy: "no-referrer",
      });
      const bytes = await this.#read(response);
      if (!response.ok) this.#refused(response, bytes);
      const type = (response.headers.get("content-type") ?? "none").replaceAll(" ", "");
      if (!answers.some((name) => mediaType(name).replaceAll(" ", "") === type))
        refuse("unsupported_media_type", `${this.name}: expected ${answers.join(" or ")}, got ${shown(type)}`);
      return bytes;
    } catch (error) {
      if (error instanceof LintraError) throw error;
      return refuse("unavailable", `${this.name}: no answer`); // a library's words may quote what was sent
    } finally {
      clearTimeout(timer);
    }
  }

  async #read(response: Response): Promise<Uint8Array> {
    const reader = response.body?.getReader();
    if (!reader) return new Uint8Array(await response.arrayBuffer());
    const chunks: Uint8Array[] = [];
    let length = 0;
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      length += part.value.length;
      if (length > MAX_ANSWER_BYTES) {
        await reader.cancel();
        refuse("invalid_message", `${this.name}: too long an answer`);
      }
      chunks.push(part.value);
    }
    const whole = new Uint8Array(length);
    chunks.reduce((at, chunk) => (whole.set(chunk, at), at + chunk.length), 0);
    return whole;
  }

  #refused(response: Response, bytes: Uint8Array): never {
    const waiting = response.headers.get("retry-after") ?? "";
    const retryAfter = /^[0-9]{1,8}$/.test(waiting) ? Number(waiting) : undefined;
    const { token, detail } = problemOf(bytes) ?? {
      token: TOKEN_OF_STATUS[response.status] ?? "refused", detail: `HTTP status ${response.status}`,
    };
    throw new LintraError(token, `${this.name}: ${detail}`, retryAfter);
  }
}

function problemOf(bytes: Uint8Array): { token: string; detail: string } | undefined {
  try {
    const problem = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
    if (typeof problem.type !== "string") return undefined;
    return { token: tokenOf(problem.type), detail: shown(problem.detail) };
  } catch {
    return undefined;
  }
}

/** The token of a problem's type; "refused" for a type that is none of ours. */
export function tokenOf(type: string): string {
  const token = type.startsWith(PROBLEM) ? type.slice(PROBLEM.length) : "";
  return /^[a-z_]{1,40}$/.test(token) ? token : "refused";
}
