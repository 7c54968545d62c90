"""What an upload costs each process, with one server process and with openers and a gate.

    python benchmarks/bench_workers.py [UPLOADS] [--write]

Single uploads of sealed reports over 16 connections to a running server; the CPU seconds of each of its processes are
read from the system before and after, so those of the sender do not count. What K openers can take at most is reckoned
from that: K over the CPU time of an opener, or one over the gate's, whichever is less. On a machine with fewer cores
than processes nothing else could be measured.

A machine that others use changes the speed of its cores, and one core may be faster than another. So the rule, which
was written down before anything was measured by it: both servers run all the time, and get short slices of the load in
turns; all processes of a server share one core, the sender has another, and the two change places after every round;
each round gives a ratio of its own, and the middle one counts.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from bench_server import quiet, sealed_uploads, server
from showing import Cell, Shown, load, parser, runs_of, show

from lintra_protocol.http.requests import media_type
from lintra_protocol.mechanisms import Osnap

CONNECTIONS, WARM_UP = 16, 64
PORT = 8931
ROUNDS, SLICE = 12, 300
"""How often both servers get a slice of the load, and its uploads; an even number of rounds is fair to both cores."""


OPENERS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Running:
    """A server that runs: its processes, the gate or the only one first, and what is sent to it."""

    port: int
    pids: list[int]
    path: str
    bodies: list[bytes]

    @property
    def cpu(self) -> list[float]:
        """Return the CPU milliseconds of all threads of each process so far."""
        # Linux's name for the clock of another process (clock_getcpuclockid).
        return [time.clock_gettime_ns((~pid << 3) | 2) / 1e6 for pid in self.pids]

    def pin(self, core: int) -> None:
        """Let all threads of all processes run on one core."""
        for pid in self.pids:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {core})

    def slice(self, count: int) -> list[float]:
        """Send so many uploads; return the CPU milliseconds an upload of each process."""
        bodies, before = [self.bodies.pop() for _ in range(count)], self.cpu
        asyncio.run(send(self.port, self.path, bodies))
        return [(last - first) / count for first, last in zip(before, self.cpu, strict=True)]


@contextmanager
def running(workers: int, count: int, port: int) -> Iterator[Running]:
    """Run a server with so many processes for uploads; it holds a task, and gets at most `count` uploads."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app, held = server(folder, Osnap(row_bound="1", fraction_bits=0, sigma=4, rows=256))
        bodies = sealed_uploads(app, held, count, 1)
        path = f"/v1/tasks/{held.task.task_id}/reports"
        app.node.close()
        config = folder / "server.toml"
        config.write_text(
            f'public_url = "http://127.0.0.1:1"\nport = {port}\ninternal_port = {port + 1}\nlog_level = "error"\n'
            f'data_dir = "{folder / "data"}"\nkey_dir = "{folder / "keys"}"\n'
            '[policy]\nallowed_authors = "any"\nopen = true\n'
        )
        command = [sys.executable, "-c", "from lintra_protocol.command import main; main()", "server", "run"]
        process = subprocess.Popen([*command, "--config", str(config), "--workers", str(workers)])
        try:
            for _ in range(600):
                try:
                    with urlopen(f"http://127.0.0.1:{port + 1}/readyz", timeout=1):
                        break
                except OSError:
                    time.sleep(0.1)
            threads = Path(f"/proc/{process.pid}/task").iterdir()
            openers = {int(each) for thread in threads for each in (thread / "children").read_text().split()}
            yield Running(port, [process.pid, *sorted(openers)], path, bodies)
        finally:
            process.terminate()
            process.wait(60)


async def send(port: int, path: str, bodies: list[bytes], connections: int = CONNECTIONS) -> None:
    """Send uploads over some connections that stay open; every answer must be a success."""
    waiting = list(bodies)

    async def sender() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while waiting:
            body = waiting.pop()
            head = f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: {media_type('reports')}\r\n"
            writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in answer[:15], answer
            length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(int(length.split(b":")[1]))
        writer.close()

    await asyncio.gather(*(sender() for _ in range(connections)))


@dataclass(frozen=True)
class Round:
    """CPU milliseconds an upload in one round: of one process; of the gate, and of each opener, per upload of all."""

    alone: float
    gate: float
    openers: list[float]

    @property
    def opener(self) -> float:
        """Return those of the opener that takes an upload."""
        return sum(self.openers)

    def ratio(self, openers: int, base: float) -> float:
        """Return how many times the uploads of a process that needs `base` for each so many openers take at most."""
        return min(openers / self.opener, 1 / self.gate) * base


def measured(rounds: int = ROUNDS, count: int = SLICE) -> list[Round]:
    """Return what some rounds found, by the rule above.

    Args:
        rounds: how many.
        count: uploads that each server gets in one.
    """
    cores = sorted(os.sched_getaffinity(0))
    found = []
    with ExitStack() as servers:
        total = rounds * count + WARM_UP
        alone, several = (servers.enter_context(running(workers, total, PORT + 2 * workers)) for workers in (1, 2))
        alone.slice(WARM_UP)
        several.slice(WARM_UP)
        try:
            for number in range(rounds):
                os.sched_setaffinity(0, {cores[(number + 1) % len(cores)]})
                for each in (alone, several):
                    each.pin(cores[number % len(cores)])
                (one,), (gate, *openers) = alone.slice(count), several.slice(count)
                found.append(Round(one, gate, openers))
        finally:
            os.sched_setaffinity(0, cores)
    return found


def middle(rounds: list[Round]) -> Round:
    """Return the round whose ratio of two openers to one process is in the middle; of two the lower one."""
    return sorted(rounds, key=lambda each: each.ratio(2, each.alone))[(len(rounds) - 1) // 2]


def table(count: int, rounds: int) -> Shown:
    """Measure one process and two openers, and say what more openers can take: the middle of some rounds."""
    busy, every = load(), measured(rounds, count)
    found, ratios = middle(every), [each.ratio(2, each.alone) for each in every]
    rows: list[tuple[Cell, ...]] = [("one process", 1.0, f"{found.alone:.3f} ms", None)]
    for k in OPENERS:
        cells = found.ratio(k, found.alone), f"{found.opener:.3f} ms", f"{found.gate:.3f} ms"
        rows.append((f"a gate and {k} opener{'s' * (k > 1)}", *cells))
    return Shown(
        "workers",
        "Several processes",
        ("processes", "uploads, over one process", "CPU time an upload, where it is opened", "and at the gate"),
        tuple(rows),
        f"Single uploads. Measured are one process and two openers in turns, {count:,} uploads each in a round; the "
        f"other lines are reckoned from these, each process on a core of its own. The middle of {rounds} rounds; two "
        f"openers took from {min(ratios):.2f} to {max(ratios):.2f} times what one process took. {busy}",
    )


def main() -> None:
    """Show it."""
    options = parser(__doc__, ROUNDS, ROUNDS)
    options.add_argument("uploads", nargs="?", type=int, default=SLICE)
    asked = options.parse_args()
    quiet()
    show({"workers": lambda: table(asked.uploads, runs_of(asked))}, asked)


if __name__ == "__main__":
    main()
