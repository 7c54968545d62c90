"""How long the client in TypeScript takes to make and seal one report, in Chromium.

    make typescript
    python benchmarks/bench_devices.py [--columns 12] [--reports 200]

The task has second moments of so many columns, proofs and seeds, three servers and the post-quantum suite.
One report is encoded, noised, proven, shared and sealed to three keys; nothing is sent. The median and
the ninth decile are printed in milliseconds. 12 columns are 78 words; on an idle machine they should take 5 ms.

On a busy machine look at the ratio to the floor, which is measured beside each report: the browser's own X25519 makes
three key pairs and derives three secrets, which no report to three servers can do without. It does that ten times, so
that interruptions hit it as often, and a tenth of the time is the floor.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from playwright.async_api import async_playwright
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

from lintra_protocol.encoding.canonical import base64url, canonical_json  # noqa: E402
from lintra_protocol.task import Task  # noqa: E402
from support.browser import ARGUMENTS, CHROMIUM, served  # noqa: E402
from support.seeds import identity, sealing_key  # noqa: E402

DIST = ROOT / "client" / "typescript" / "dist"

PROGRAM = """async ([definition, keys, reports]) => {
  const { Task, canonicalBytes, makeReport, seal, webSuite } = await import("/testing.js");
  const random = count => crypto.getRandomValues(new Uint8Array(count));
  const task = Task.parse(canonicalBytes(definition));
  task.check();
  const row = Object.fromEntries(definition.columns.map(({ name }, place) => [name, (place % 7) / 7 - 0.4]));
  const sealedTo = keys.map(key => Uint8Array.from(key));
  const times = [], floors = [];
  const peer = await crypto.subtle.generateKey({ name: "X25519" }, false, ["deriveBits"]);
  const agreed = async () => {
    const own = await crypto.subtle.generateKey({ name: "X25519" }, false, ["deriveBits"]);
    return crypto.subtle.deriveBits({ name: "X25519", public: peer.publicKey }, own.privateKey, 256);
  };
  for (let number = 0; number < reports; number++) {
    const begun = performance.now();
    const report = makeReport(task, task.encode(row, random).words, definition.not_before, random);
    await Promise.all(report.shares.map((share, server) =>
      seal(webSuite, definition.suite, sealedTo[server], report.header, share, random)));
    times.push(performance.now() - begun);
    const again = performance.now();
    for (let turn = 0; turn < 10; turn++) await Promise.all(sealedTo.map(agreed));
    floors.push((performance.now() - again) / 10);
  }
  return [times, floors].map(all => all.slice(reports / 10).sort((a, b) => a - b));
}"""


def definition(columns: int) -> dict[str, object]:
    """Return a verified task of second moments that any client may check."""
    suite = "mlkem768-x25519"
    return {
        "version": "lintra/1", "salt": base64url(bytes(32)), "purpose": "a benchmark",
        "author_key": identity("author").public_key,
        "servers": [
            {"url": f"https://{j}.test", "identity_key": identity(f"server {j}").public_key} for j in range(3)
        ],
        "analyzer": {
            "identity_key": identity("analyzer").public_key,
            "sealing_key": base64url(sealing_key("analyzer", suite).public_bytes),
        },
        "columns": [
            {"name": f"c{j}", "lower": "-1", "upper": "1", "center": "0", "scale": "1", "unit": ""}
            for j in range(columns)
        ],
        "mechanism": {
            "kind": "second_moment", "row_bound": "1", "fraction_bits": 8, "sigma": 40000, "floor": 40000,
            "intercept": "0", "trace": False,
        },
        "noise": "both", "verification": "norm", "max_rejected": "0.1",
        "claim": {
            "epsilon": "3", "epsilon_alone": "9", "delta": "0.000001", "neighbours": "replace-one",
            "min_clients": 100, "max_corrupt_clients": 0, "threat": "static", "delta_coalition": "0",
        },
        "max_clients": 1000, "max_missing": "0.25", "batches": "single", "time_precision": 3600, "not_before": 10,
        "not_after": 20, "share_form": "seeded", "suite": suite, "client_auth": "none", "token_keys": [],
        "retention": 0, "extensions": [],
    }  # fmt: skip


async def measured(columns: int, reports: int) -> tuple[int, list[float], list[float]]:
    """Return the words of a report, and the sorted milliseconds of each after the first tenth, and of each floor."""
    document = definition(columns)
    task = Task.from_canonical(canonical_json(document))
    task.check()
    keys = [list(sealing_key(f"server {j}", task.suite).public_bytes) for j in range(3)]
    page_of = Route("/", lambda request: HTMLResponse("<!doctype html><title>a benchmark</title>"))
    site = Starlette(routes=[page_of, Mount("/", StaticFiles(directory=DIST))])
    async with served(site) as origin, async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = await browser.new_page()
        await page.goto(origin)
        times, floors = await page.evaluate(PROGRAM, [json.loads(canonical_json(document)), keys, reports])
        await browser.close()
    return task.num_words, times, floors


def main() -> None:
    """Print the median, the ninth decile, and the ratio to the floor."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--columns", type=int, default=12)
    parser.add_argument("--reports", type=int, default=200)
    arguments = parser.parse_args()
    words, times, floors = asyncio.run(measured(arguments.columns, arguments.reports))
    print(f"a report of {words} words: median {times[len(times) // 2]:.1f} ms, ", end="")
    print(f"ninth decile {times[9 * len(times) // 10]:.1f} ms, least {times[0]:.1f} ms")
    floor = floors[len(floors) // 2]
    print(f"three key agreements of the browser: median {floor:.2f} ms; ratio {times[len(times) // 2] / floor:.1f}")


if __name__ == "__main__":
    main()
