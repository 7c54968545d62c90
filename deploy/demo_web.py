"""A form in a page, three servers and an analyzer, all on this machine: fill it, add people, release, and compare.

`make demo-web` prints a link. Open it in as many private windows as you like; each is a person of its own. The page
shows the row, its integers, their noise, and what the one server that you choose has of it; and how many bytes went to
each server, and how they end. A button adds 500 simulated people, whose answers this
program knows, so that the released means can stand beside the true ones.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from services import analyst_token, free_ports, local_services, running
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from lintra_analysis.access.rest_client import AnalyzerClient
from lintra_client.upload.simulate import simulate
from lintra_protocol.errors import LintraError

DIST = Path(__file__).resolve().parents[1] / "client" / "typescript" / "dist"
PEOPLE = 500
TASK: dict[str, Any] = {
    "purpose": "How much people sleep, and what they drink",
    "columns": [
        {"name": "hours of sleep", "lower": 0, "upper": 12, "center": 6, "scale": 6},
        {"name": "cups of coffee", "lower": 0, "upper": 10, "center": 5, "scale": 5},
        {"name": "tea", "kind": "boolean"},
    ],
    "mechanism": {"kind": "second_moment", "intercept": 0.5}, "row_bound": 1, "epsilon": 1, "delta": 1e-6,
    "min_clients": 400, "max_clients": 100_000, "time_precision": 1, "client_auth": "none",
}  # fmt: skip

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Lintra: a form</title>
<script type="module" src="demo.js"></script><script type="module" src="element.js"></script>
<style>body {{ font: 1rem/1.5 system-ui; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
pre {{ overflow-x: auto; background: #8881; padding: 0.5rem; }}
td, th {{ padding: 0 1rem 0 0; text-align: right; }}</style>
<h1>A form whose answers nobody sees</h1>
<lintra-form task="{task}" servers="{servers}"></lintra-form>
<h2>What became of your answers</h2>
<p>This page shows it, since it serves the form's code, and so can read what you type. Whoever serves a form can.</p>
<div id="row">Nothing was sent so far.</div>
<h2>What left this page</h2><div id="left">Nothing so far.</div>
<h2>The others</h2>
<p><button id="people">Add 500 simulated people</button> <button id="release">Release</button></p>
<div id="said" role="status"></div>
</html>
"""

PROGRAM = """
import { Task, canonicalBytes, explained } from "./testing.js";
const [left, said, shown] = ["left", "said", "row"].map(id => document.querySelector("#" + id));
const plain = globalThis.fetch, attach = Element.prototype.attachShadow, draw = crypto.getRandomValues.bind(crypto);
const made = (name, text) => Object.assign(document.createElement(name), { textContent: text });
let root, task, bytes = [];
// A page can open what its own elements close, and hear what its own generator draws.
Element.prototype.attachShadow = function (init) { return (root = attach.call(this, init)); };
crypto.getRandomValues = array => {
  draw(array);
  bytes.push(...array);
  return array;
};
document.addEventListener("click", () => { bytes = []; }, { capture: true });
const answers = () => {
  const fields = [...root.querySelectorAll("input:not([type=checkbox]), select")];
  return Object.fromEntries(task.definition.columns.map(({ name, levels }, place) => {
    const { value, valueAsNumber } = fields[place];
    if (value === "") return [name, null];
    return [name, valueAsNumber ?? (levels ?? [true, false])[Number(value)]];
  }));
};
const tableOf = lines => {
  const table = document.createElement("table");
  for (const [name, cells] of lines) {
    const line = document.createElement("tr");
    line.append(made("th", name), ...cells.map(cell => made("td", String(cell))));
    table.append(line);
  }
  return table;
};
document.querySelector("lintra-form").addEventListener("lintra-sent", ({ detail }) => {
  if (detail.repeated) return shown.replaceChildren("An earlier report was completed.");
  const row = answers(), { exact, noise, sent, shares, together } = explained(task, row, Uint8Array.from(bytes));
  const choice = document.createElement("select"), place = document.createElement("div");
  choice.append(...shares.map((_, server) => made("option", `server ${server + 1}`)));
  const show = () => place.replaceChildren(tableOf([
    ["your answers as integers", exact], ["the noise of this device", noise], ["what is sent", sent],
    [`what ${choice.value} has of it`, shares[choice.selectedIndex]], ["all servers' shares added up", together],
  ]));
  choice.onchange = show;
  show();
  shown.replaceChildren(made("pre", JSON.stringify(row)), made("label", "Open the share of "), choice, place);
});
globalThis.fetch = async (url, init) => {
  if (/\\/v1\\/tasks\\/[^/]+$/.test(url)) {
    const answer = await plain(url, init);
    answer.clone().json().then(({ message }) => { task = Task.parse(canonicalBytes(message.definition)); });
    return answer;
  }
  if (init?.method === "POST" && String(url).endsWith("/reports")) {
    const bytes = new Uint8Array(init.body);
    const begin = [...bytes.slice(-96)].map(byte => byte.toString(16).padStart(2, "0")).join(" ");
    if (!left.querySelector("pre")) left.textContent = "";
    left.append(made("p", `${bytes.length} bytes to ${new URL(url).origin}, which end with`), made("pre", begin));
  }
  return plain(url, init);
};
const ask = async path => {
  said.textContent = "…";
  const answer = await (await plain(path, { method: "POST" })).json();
  said.replaceChildren(made("p", answer.said));
  if (!answer.means) return;
  const table = document.createElement("table");
  const row = (name, cells) => {
    const line = document.createElement("tr");
    line.append(...cells.map(cell => made(name, cell)));
    table.append(line);
  };
  row("th", ["column", "released", "95 % interval", "truth of the simulated"]);
  for (const mean of answer.means) row("td", [mean.column, mean.value, mean.interval, mean.truth]);
  said.append(table);
};
document.querySelector("#people").onclick = () => ask("people");
document.querySelector("#release").onclick = () => ask("release");
"""


def _person(rng: random.Random) -> tuple[float, float, float]:
    """Invent the answers of one person: who sleeps less or drinks no tea drinks more coffee."""
    tea, sleep = rng.random() < 0.4, min(max(rng.gauss(7, 1.2), 0.0), 12.0)
    coffee = min(max(round(rng.gauss(4.5 - 0.3 * sleep + (not tea), 1)), 0), 10)
    return sleep, float(coffee), float(tea)


@dataclass
class Collection:
    """One task, its servers, and the simulated people who took part."""

    desk: AnalyzerClient
    task_id: str
    servers: list[str]
    seed: int = 0
    people: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = field(default_factory=list)

    def add_people(self) -> str:
        """Send the rows of 500 people, each as a client of its own."""
        rng = random.Random(self.seed + len(self.people))
        rows = np.array([_person(rng) for _ in range(PEOPLE)])
        sent = simulate(self.task_id, self.servers, rows, 1)
        self.people.append(rows)
        return f"{sent.sent} people reported; {PEOPLE * len(self.people)} so far, and whoever filled the form."

    def release(self) -> dict[str, object]:
        """Release the task, and return the means beside those of the simulated people."""
        try:
            release_id = self.desk.release(self.task_id)
        except LintraError as error:
            return {"said": f"Not yet: {error.detail}"}
        found = self.desk.analyse(release_id, "means")["result"]
        truth = np.concatenate(self.people).mean(axis=0) if self.people else np.full(len(TASK["columns"]), np.nan)
        means = [
            {
                "column": column["name"], "truth": f"{true:.3f}", "value": f"{mean['value']:.3f}",
                "interval": " to ".join(f"{end:.3f}" for end in mean["interval"]),
            }
            for column, true, mean in zip(TASK["columns"], truth, found["means"], strict=True)
        ]  # fmt: skip
        return {"said": f"{found['num_clients']} reports were released, once and for all.", "means": means}


def site(collection: Collection) -> Starlette:
    """Return the page and what its buttons ask."""
    servers = " ".join(collection.servers)
    page = PAGE.format(task=collection.task_id, servers=servers)
    sources = f"script-src 'self'; style-src 'unsafe-inline'; connect-src 'self' {servers}"
    policy = f"default-src 'none'; {sources}; form-action 'none'"

    async def show(request: Request) -> Response:
        del request
        return HTMLResponse(page, headers={"content-security-policy": policy, "referrer-policy": "no-referrer"})

    async def program(request: Request) -> Response:
        del request
        return Response(PROGRAM, media_type="text/javascript")

    async def people(request: Request) -> Response:
        del request
        return JSONResponse({"said": await asyncio.to_thread(collection.add_people)})

    async def release(request: Request) -> Response:
        del request
        return JSONResponse(await asyncio.to_thread(collection.release))

    return Starlette(
        routes=[
            Route("/", show), Route("/demo.js", program), Route("/people", people, methods=["POST"]),
            Route("/release", release, methods=["POST"]), Mount("/", StaticFiles(directory=DIST)),
        ]
    )  # fmt: skip


def main() -> None:
    """Start everything, print the link, and end with Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="of the page; any free one if not given")
    port = parser.parse_args().port or free_ports(1)[0]
    if not (DIST / "element.js").exists():
        sys.exit("the form is not built: `make typescript` needs Node 20 or newer")
    with tempfile.TemporaryDirectory(prefix="lintra-web-") as folder:
        servers, analyzer = local_services(Path(folder), 3)
        token = analyst_token(Path(folder))
        with running([*servers, analyzer]), AnalyzerClient(analyzer.url, token) as desk:
            task_id = desk.create_task(TASK)["task_id"]
            app = site(Collection(desk, task_id, [each.url for each in servers]))
            print(f"http://127.0.0.1:{port}/", flush=True)
            uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


if __name__ == "__main__":
    main()
