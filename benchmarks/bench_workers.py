"""What an upload costs each process, with one server process and with openers and a gate.

Run with `python benchmarks/bench_workers.py [uploads]`. Single uploads of sealed reports over 16 connections to a
running server; the CPU seconds of each of its processes are read from the system before and after, so those of the
sender do not count. What K openers can take at most is reckoned from that: K over the CPU time of an opener, or one
over the gate's, whichever is less. On a machine with fewer cores than processes nothing else could be measured.
"""

import asyncio
import platform
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


def main(count: int) -> None:
    """Measure one process and two openers, and say what they can take."""
    alone, _, _ = measured(1, count)
    gate, openers, _ = measured(2, count)
    opener = sum(openers)
    print(f"one process: {alone:.3f} ms CPU an upload")
    print(f"two openers: {opener:.3f} ms an upload at the opener that takes it, {gate:.3f} ms at the gate")
    print(f"  they took {openers[0] / opener:.0%} and {openers[1] / opener:.0%} of the work")
    for name, base in (("one process", 1 / alone), ("one opener and its gate", min(1 / opener, 1 / gate))):
        ratios = [min(k / opener, 1 / gate) / base for k in (1, 2, 4, 8, 16)]
        print(f"  1, 2, 4, 8, 16 openers, each process on a core of its own, over {name}: "
              + ", ".join(f"{ratio:.2f}" for ratio in ratios))  # fmt: skip


if __name__ == "__main__":
    quiet()
    print(f"{platform.machine()}, Python {platform.python_version()}: {' '.join(sys.argv)}")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
