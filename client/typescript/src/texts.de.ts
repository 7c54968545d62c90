/** The same in German. */

import type { Texts } from "./texts.js";

export const german: Texts = {
  promise: (purpose, hosts, servers, reports) => [
    `Wofür: ${purpose}`,
    `Ihre Antworten werden auf diesem Gerät durch Zufall verändert und dann auf ${servers} Server verteilt: ${hosts}. Einer davon muss ehrlich sein; dann sieht niemand Ihre Antworten. Geöffnet werden nur Summen über mindestens ${reports} Menschen.`,
  ],
  epsilon: [
    [0.5, "am Ergebnis ist kaum zu erkennen, ob Sie mit diesen oder mit anderen Antworten teilgenommen haben"],
    [2, "wer Ihre Antworten errät, erfährt aus dem Ergebnis ein wenig mehr, aber nicht viel"],
    [Infinity, "wer Ihre Antworten errät, kann aus dem Ergebnis merklich mehr erfahren"],
  ],
  atDelta: (epsilon, delta, words) => `Versprochen und von diesem Gerät nachgerechnet: Epsilon ${epsilon} bei Delta ${delta}. Das heißt: ${words}.`,
  lasting: [
    "Dass Sie teilgenommen haben, ist zu sehen. Gesendetes kann nicht zurückgeholt werden.",
    "Dieses Gerät merkt sich die Teilnahme. Wird sein Speicher gelöscht, weiß es davon nichts mehr.",
  ],
  alone: (epsilon) => `Sind alle anderen Teilnehmer erfunden, ${epsilon ? `ist Epsilon höchstens ${epsilon}` : "begrenzt nichts, was von Ihnen zu sehen ist"}.`,
  places: {
    byTokens: "Wer die Aufgabe verfasst hat, vergibt die Plätze und entscheidet, wer die anderen sind.",
    open: "Jeder kann einen Platz einnehmen, auch mehrmals.",
  },
  byServers: "Bei dieser Aufgabe verändern die Server die Antworten: arbeiten alle zusammen, sehen sie diese, wie sie sind.",
  form: {
    agree: "Ich habe das gelesen und bin einverstanden", send: "Senden", sending: "Wird gesendet …",
    sent: "Gesendet. Alle Server haben es bestätigt.", repeated: "Ihr früherer Bericht wurde vervollständigt. Ein Gerät sendet einen.",
    failed: "Nicht gesendet:", optional: "keine Angabe", yes: "ja", no: "nein",
  },
};
