/**
 * `<lintra-form task servers>`: purpose, promise, a field for each column, a box to agree, and receipts. It stands in a
 * closed shadow root, so that the page around it does not read it by accident; nothing is preselected.
 */

import { Client, LintraError, type Row, type Value } from "./index.js";
import type { Column } from "./schema.js";
import { german } from "./texts.de.js";
import { type Texts, english } from "./texts.js";

export { german };

const STYLE = `
  :host { display: block; font: inherit; max-width: 40rem; }
  label { display: block; margin: 0.75rem 0; } input, select { font: inherit; margin-inline-start: 0.5rem; }
  [role="status"] { margin: 0.75rem 0; font-weight: bold; } small { opacity: 0.7; }
`;

type Field = { label: HTMLElement; read(): Value };

function element<K extends keyof HTMLElementTagNameMap>(
  name: K, properties: Partial<HTMLElementTagNameMap[K]> = {}, ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function choice(column: Column, choices: [string, Value][], texts: Texts): Field {
  const select = element("select", {}, element("option", { value: "", textContent: texts.form.optional }));
  select.append(...choices.map(([words], place) => element("option", { value: String(place), textContent: words })));
  const label = element("label", {}, column.name, select);
  return { label, read: () => (select.value === "" ? null : choices[Number(select.value)][1]) };
}

function number(column: Column): Field {
  const { lower, upper, unit, kind } = column;
  const input = element("input", { type: "number", step: kind === "integer" ? "1" : "any", min: lower, max: upper });
  const label = element("label", {}, column.name, input, element("small", { textContent: ` ${lower} – ${upper} ${unit}` }));
  return { label, read: () => (input.value === "" ? null : input.valueAsNumber) };
}

function fieldOf(column: Column, texts: Texts): Field {
  const labelOf = (level: string) => column.code_book?.levels?.find((each) => each.level === level)?.label ?? level;
  if (column.levels) return choice(column, column.levels.map((level) => [labelOf(level), level]), texts);
  if (column.kind === "boolean") return choice(column, [[texts.form.yes, true], [texts.form.no, false]], texts);
  return number(column);
}

/** What happened, for the page around: `lintra-sent` with the answer of `send`, or `lintra-failed` with a token. */
export class LintraForm extends HTMLElement {
  readonly #root = this.attachShadow({ mode: "closed" });

  connectedCallback(): void {
    this.#root.replaceChildren(element("style", { textContent: STYLE }), element("p", { textContent: "…" }));
    this.#show().catch((error: unknown) => this.#fail(error));
  }

  get #texts(): Texts {
    return this.lang.startsWith("de") ? german : english;
  }

  async #show(): Promise<void> {
    const servers = (this.getAttribute("servers") ?? "").split(/\s+/).filter(Boolean);
    const token = this.getAttribute("token") ?? undefined;
    const policy = { trustEnrolment: this.hasAttribute("trust-enrolment") };
    const client = await Client.open(this.getAttribute("task") ?? "", servers, { token, policy });
    const texts = this.#texts;
    const fields = client.task.definition.columns.map((column) => fieldOf(column, texts));
    const agreed = element("input", { type: "checkbox", required: true });
    const send = element("button", { type: "submit", textContent: texts.form.send });
    const status = element("div");
    status.setAttribute("role", "status");
    const form = element(
      "form", { noValidate: false }, ...client.promise.text(texts).map((words) => element("p", { textContent: words })),
      ...fields.map(({ label }) => label), element("label", {}, agreed, ` ${texts.form.agree}`), send, status,
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const row = Object.fromEntries(client.task.definition.columns.map(({ name }, place) => [name, fields[place].read()]));
      send.disabled = true;
      status.textContent = texts.form.sending;
      this.#send(client, row, status).catch((error: unknown) => {
        send.disabled = false;
        this.#fail(error, status);
      });
    });
    this.#root.replaceChildren(element("style", { textContent: STYLE }), form);
  }

  async #send(client: Client, row: Row, status: HTMLElement): Promise<void> {
    const sent = await client.send(row);
    status.textContent = sent.repeated ? this.#texts.form.repeated : this.#texts.form.sent;
    const { reportId, repeated, receipts } = sent;
    this.dispatchEvent(new CustomEvent("lintra-sent", { detail: { reportId, repeated, receipts } }));
  }

  #fail(error: unknown, place: HTMLElement = this.#root.querySelector("p")!): void {
    const [token, detail] = error instanceof LintraError ? [error.token, error.detail] : ["internal", ""];
    place.textContent = `${this.#texts.form.failed} ${token} ${detail}`;
    this.dispatchEvent(new CustomEvent("lintra-failed", { detail: { token } }));
  }
}

customElements.define("lintra-form", LintraForm);
