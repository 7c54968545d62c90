"""What an upload costs each process, with one server process and with openers and a gate.

    python benchmarks/bench_workers.py [UPLOADS] [--write]

Single uploads of sealed reports over 16 connections to a
running server; the CPU seconds of each of its processes are read from the system before and after, so those of the
sender do not count. What K openers can take at most is reckoned from that: K over the CPU time of an opener, or one
over the gate's, whichever is less. On a machine with fewer cores than processes nothing else could be measured.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from bench_server import quiet, sealed_uploads, server
from scale.processes import cpu_seconds
from showing import BENCHMARKS, Cell, Shown, load, parser, runs_of, show

from lintra_protocol.mechanisms import Osnap
from lintra_protocol.transport import media_type

CONNECTIONS, WARM_UP = 16, 64
PORT, INTERNAL_PORT = 8931, 8932


@contextmanager
def running(folder: Path, workers: int) -> Iterator[tuple[int, list[int]]]:
    """Run a server on the folders that `server` made; yield the gate's process and those of its openers."""
    config = folder / "server.toml"
    config.write_text(
        f'public_url = "http://127.0.0.1:1"\nport = {PORT}\ninternal_port = {INTERNAL_PORT}\nlog_level = "error"\n'
        f'data_dir = "{folder / "data"}"\nkey_dir = "{folder / "keys"}"\n'
        '[policy]\nallowed_authors = "any"\nopen = true\n'
    )
    command = [sys.executable, "-c", "from lintra_protocol.command import main; main()", "server", "run"]
    process = subprocess.Popen([*command, "--config", str(config), "--workers", str(workers)])
    try:
        for _ in range(600):
            try:
                with urlopen(f"http://127.0.0.1:{INTERNAL_PORT}/readyz", timeout=1):
                    break
            except OSError:
                time.sleep(0.1)
        threads = Path(f"/proc/{process.pid}/task").iterdir()
        openers = {int(each) for thread in threads for each in (thread / "children").read_text().split()}
        yield process.pid, sorted(openers)
    finally:
        process.terminate()
        process.wait(60)


async def send(path: str, bodies: list[bytes]) -> None:
    """Send uploads over `CONNECTIONS` connections that stay open; every answer must be a success."""
    waiting = list(bodies)

    async def sender() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        while waiting:
            body = waiting.pop()
            head = f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: {media_type('reports')}\r\n"
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in answer[:15], answer
            length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
        writer.close()

    await asyncio.gather(*(sender() for _ in range(CONNECTIONS)))


def measured(workers: int, count: int) -> tuple[float, list[float], float]:
    """Return the milliseconds an upload of the gate, of each opener (per upload that any of them took), and elapsed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app, held = server(folder, Osnap(row_bound="1", fraction_bits=0, sigma=4, rows=256))
        bodies = sealed_uploads(app, held, count + WARM_UP, 1)
        path = f"/v1/tasks/{held.task.task_id}/reports"
        app.node.close()
        with running(folder, workers) as (gate, openers):
            asyncio.run(send(path, bodies[:WARM_UP]))
            before = [cpu_seconds(pid) for pid in (gate, *openers)]
            started = time.perf_counter()
            asyncio.run(send(path, bodies[WARM_UP:]))
            elapsed = time.perf_counter() - started
            after = [cpu_seconds(pid) for pid in (gate, *openers)]
    spent = [1e3 * (last - first) / count for first, last in zip(before, after, strict=True)]
    return spent[0], spent[1:], 1e3 * elapsed / count


OPENERS = (1, 2, 4, 8, 16)


def table(count: int, rounds: int) -> Shown:
    """Measure one process and two openers in turns, and say what more openers can take: the middle of some rounds."""
    busy = load()
    found = [(measured(1, count)[0], *measured(2, count)[:2]) for _ in range(rounds)]
    # By what two openers take over one process; of an even number the lower middle.
    found.sort(key=lambda each: taken(2, sum(each[2]), each[1]) * each[0])
    alone, gate, openers = found[(len(found) - 1) // 2]
    opener = sum(openers)
    rows: list[tuple[Cell, ...]] = [("one process", 1.0, f"{alone:.3f} ms", None)]
    for k in OPENERS:
        ratio = taken(k, opener, gate) * alone
        rows.append((f"a gate and {k} opener{'s' * (k > 1)}", ratio, f"{opener:.3f} ms", f"{gate:.3f} ms"))
    lowest, highest = (taken(2, sum(each[2]), each[1]) * each[0] for each in (found[0], found[-1]))
    return Shown(
        "workers",
        "Several processes",
        ("processes", "uploads, over one process", "CPU time an upload, where it is opened", "and at the gate"),
        tuple(rows),
        f"Single uploads. Measured are one process and two openers, {count:,} uploads each; the other lines are "
        f"reckoned from these, each process on a core of its own. The middle of {rounds} rounds; two openers took from "
        f"{lowest:.2f} to {highest:.2f} times what one process took. {busy}",
    )


def taken(openers: int, opener: float, gate: float) -> float:
    """Return how many uploads a millisecond so many openers and their gate can take."""
    return min(openers / opener, 1 / gate)


def main() -> None:
    """Show it."""
    options = parser(__doc__, 3, 9)
    options.add_argument("uploads", nargs="?", type=int, default=2000)
    asked = options.parse_args()
    quiet()
    show({"workers": lambda: table(asked.uploads, runs_of(asked))}, asked, BENCHMARKS)


if __name__ == "__main__":
    main()
