/** One server of a task: its key, uploads to it, and receipts that must fit. */

import { base64url, hash, parseBase64url } from "./bytes.js";
import { type Channel, TRANSIENT, shown, tokenOf } from "./channel.js";
import { MESSAGES, type Receipt, type UploadAnswer, encoded, parseMessage } from "./documents.js";
import { LintraError, refuse } from "./errors.js";
import { canonical, type Json } from "./json.js";
import { type ServerKey, sealingKey } from "./policy.js";
import { type Report, blockContext, encodeUpload } from "./report.js";
import { type Signed, verifySigned } from "./signing.js";
import { type Suite, seal } from "./suites/suite.js";
import type { Task } from "./task.js";
import { passOf } from "./tokens.js";
import type { RandomBytes } from "./bytes.js";

export class Destination {
  readonly #suite: Suite;
  readonly #task: Task;
  readonly #now: () => number;
  #held: ServerKey | undefined;

  constructor(
    suite: Suite, task: Task, readonly index: number, readonly channel: Channel, now: () => number,
  ) {
    [this.#suite, this.#task, this.#now] = [suite, task, now];
  }

  /** A valid key; fetched if none is known, if it expired, or if it is the stale one. */
  async key(stale?: ServerKey): Promise<ServerKey> {
    if (!this.#held || this.#held === stale || this.#held.validUntil <= this.#now())
      this.#held = await sealingKey(this.#suite, this.#task, this.index, await this.channel.get("/v1/keys", "keys"), this.#now());
    return this.#held;
  }

  /** The upload of one report, sealed to a key of this server. */
  async sealed(report: Report, key: ServerKey, token: string | undefined, random: RandomBytes): Promise<Uint8Array> {
    const { definition, idBytes } = this.#task;
    const pass = definition.client_auth === "token" ? passOf(token, definition.servers.length, this.index) : undefined;
    const info = blockContext(idBytes, this.index, key.id, [report.header]);
    const share = await seal(this.#suite, definition.suite, key.publicKey, info, report.shares[this.index], random);
    return encodeUpload(report.header, key.id, share, pass);
  }

  /** Upload one report until it is taken or refused; the server's signed receipt, encoded. */
  upload(reportId: Uint8Array, body: Uint8Array): Promise<string> {
    return this.channel.persistently(async () => {
      const answer = await this.channel.post(`/v1/tasks/${this.#task.id}/reports`, body);
      return this.#accepted(reportId, parseMessage<UploadAnswer>(MESSAGES.UploadAnswer, answer));
    });
  }

  async #accepted(reportId: Uint8Array, { failures, receipt }: UploadAnswer): Promise<string> {
    const isOurs = failures.length <= 1 && failures.every(({ report_id }) => report_id === base64url(reportId));
    if (!isOurs) refuse("invalid_message", `server ${this.index} refused other reports`);
    await this.checkReceipt(receipt, failures.length ? [] : [reportId]);
    const [failure] = failures;
    if (failure) throw new LintraError(tokenOf(failure.type), shown(failure.detail));
    return canonical(receipt as unknown as Json);
  }

  /** Refuse a receipt that is not this server's, or covers other reports. */
  async checkReceipt(receipt: Signed<Receipt>, reportIds: Uint8Array[]): Promise<void> {
    await verifySigned(this.#suite, this.#task.definition.servers[this.index].identity_key, receipt);
    const expected: Receipt = {
      kind: "receipt", task_id: this.#task.id, server: this.index, count: reportIds.length,
      reports: base64url(hash("receipt reports", ...reportIds)),
    };
    if (encoded(expected).join() !== encoded(receipt.message).join())
      refuse("invalid_message", `server ${this.index} signed for other reports`);
  }
}

export const isTransient = (error: unknown): boolean => error instanceof LintraError && TRANSIENT.includes(error.token);
export const parseId = (text: string): Uint8Array => parseBase64url(text, 32);
