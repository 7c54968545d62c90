/** All texts that people read, in English; other languages are tables of their own. */

import type { Definition } from "./task.js";

/** What a page says in one language. */
export interface Texts {
  promise(purpose: string, hosts: string, servers: number, reports: number): string[];
  /** Up to which epsilon it may be said like this. */
  epsilon: readonly [number, string][];
  atDelta(epsilon: string, delta: string, words: string): string;
  /** What is left if everybody else is invented. */
  alone(epsilon?: string): string;
  places: { byTokens: string; open: string };
  byServers: string;
  /** What cannot be undone. */
  lasting: string[];
  form: { agree: string; send: string; sending: string; sent: string; repeated: string; failed: string; optional: string; yes: string; no: string };
}

export const english: Texts = {
  promise: (purpose, hosts, servers, reports) => [
    `What it is for: ${purpose}`,
    `Your answers are changed by random noise on this device, then split among ${servers} servers: ${hosts}. One of them must be honest; then nobody sees your answers. Only sums over at least ${reports} people are opened.`,
  ],
  epsilon: [
    [0.5, "it is hardly possible to tell from the result whether you took part with these answers or others"],
    [2, "somebody who guesses your answers learns a little from the result, and not much"],
    [Infinity, "somebody who guesses your answers may learn noticeably more from the result"],
  ],
  atDelta: (epsilon, delta, words) => `Promised, and computed by this device: epsilon ${epsilon} at delta ${delta}. That means: ${words}.`,
  lasting: [
    "That you took part can be seen. What was sent cannot be taken back.",
    "This device remembers that it took part. If its storage is deleted, it no longer knows.",
  ],
  alone: (epsilon) => `If everybody else who takes part is invented, ${epsilon ? `epsilon is at most ${epsilon}` : "nothing bounds what is seen of you"}.`,
  places: {
    byTokens: "Whoever wrote the task hands out the places, and decides who the others are.",
    open: "Anybody can take a place, any number of times.",
  },
  byServers: "In this task the servers add the noise: if all of them work together they see your answers as they are.",
  form: {
    agree: "I have read this and agree", send: "Send", sending: "Sending …", sent: "Sent. All servers have confirmed it.",
    repeated: "Your earlier report was completed. A device sends one.", failed: "It was not sent:", optional: "no answer", yes: "yes", no: "no",
  },
};

interface Epsilons {
  epsilon: number;
  epsilonAlone: number | undefined;
  delta: number;
}

export function promiseText(texts: Texts, task: Definition, { epsilon, epsilonAlone, delta }: Epsilons): string[] {
  const hosts = task.servers.map(({ url }) => url.replace(/^https?:\/\//, "")).join(", ");
  const rounded = (value: number) => (Math.ceil(value * 1000) / 1000).toFixed(3);
  const words = texts.epsilon.find(([most]) => epsilon <= most)![1];
  return [
    ...texts.promise(task.purpose, hosts, task.servers.length, task.claim.min_clients),
    texts.atDelta(rounded(epsilon), String(delta), words),
    `${texts.alone(epsilonAlone === undefined ? undefined : rounded(epsilonAlone))} ${texts.places[task.client_auth === "token" ? "byTokens" : "open"]}`,
    ...(task.noise === "servers" ? [texts.byServers] : []),
    ...texts.lasting,
  ];
}
