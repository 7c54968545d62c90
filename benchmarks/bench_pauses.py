"""How long single uploads wait while a large batch is closed, frozen and released by the same server.

    python benchmarks/bench_pauses.py [REPORTS] [--write]

The uploads are real ones, one after the other, through the application of a server in this process; the steps run in
threads beside them, as they do in `lintra server run`. The first line, with nothing beside, is the floor: what the
machine itself takes away. The last column does not depend on the machine's load: the most CPU time that this process
used while one of its threads waited to run, which is how long the interpreter keeps a thread from running.
"""

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import numpy as np
import structlog
from scale.beside import sealed_upload
from scale.cohort import Collection, collect, settings_of
from showing import Cell, Shown, load, parser, show

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.http.requests import media_type
from lintra_protocol.messages.documents import (
    AggregateRequest,
    Cohort,
    CohortRequest,
    Difference,
    Inventory,
    KeyList,
    Signed,
    TaskRecord,
    sign,
)
from lintra_protocol.task import Task
from lintra_server.web.app import create_app
from lintra_server.web.upload_route import UploadRoute

BEFORE_SECONDS = 3.0


class Interpreter:
    """A thread that wakes every millisecond, and notes how much this process computed before it could go on."""

    def __init__(self) -> None:
        """Start it."""
        self.longest = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._wake)
        self._thread.start()

    def _wake(self) -> None:
        while not self._stopped.is_set():
            used, began = time.process_time(), time.monotonic()
            time.sleep(0.001)
            waited = min(time.monotonic() - began - 0.001, time.process_time() - used)
            self.longest = max(self.longest, waited)

    def stop(self) -> float:
        """End it, and return the longest wait in milliseconds."""
        self._stopped.set()
        self._thread.join()
        return 1000 * self.longest


class Uploads:
    """Sends single reports of a small task to one server, one after the other, and notes how long each takes."""

    def __init__(self, app: UploadRoute, made: Collection) -> None:
        """Register a task of its own beside the large one."""
        self._app, keys = app, made.keys
        self._task: Task = made.task.model_copy(update={"salt": base64url(system_randomness(32))})
        app.node.registry.register(self._task.task_id, sign(keys.author, TaskRecord(definition=self._task)))
        listed = Signed[KeyList].from_canonical(app.node.keys.signed_list).message.keys
        key = next(each for each in listed if each.suite == self._task.suite)
        self._key = parse_base64url(key.key_id), parse_base64url(key.public_key)
        self._http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=app.node.settings.public_url)

    async def during(self, work: Callable[[], None]) -> list[float]:
        """Return the seconds that every upload took while `work` ran in a thread."""
        thread, taken = threading.Thread(target=work), list[float]()
        thread.start()
        while thread.is_alive():
            body = sealed_upload(self._task, 0, self._key)
            began = time.monotonic()
            answer = await self._http.post(
                f"/v1/tasks/{self._task.task_id}/reports", content=body, headers={"content-type": media_type("reports")}
            )
            taken.append(time.monotonic() - began)
            if answer.status_code != 200 or b'"failures":[]' not in answer.content:
                raise RuntimeError(answer.text)
            await asyncio.sleep(0)
        thread.join()
        return taken


async def measure(made: Collection) -> list[tuple[Cell, ...]]:
    """Return a line for every step of the first server; the others do theirs before."""
    apps = [create_app(settings_of(made, server)) for server in range(made.task.num_servers)]
    uploads = Uploads(apps[0], made)
    held = [app.node.registry.find_batch(made.task.task_id) for app in apps]
    gates = [app.node.gate for app in apps]
    told: dict[str, bytes] = {}
    lines: list[tuple[Cell, ...]] = []

    async def beside(name: str, work: Callable[[], bytes]) -> bytes:
        started, interpreter = time.monotonic(), Interpreter()
        taken = 1000 * np.array(await uploads.during(lambda: told.update({name: work()})))
        spent = time.monotonic() - started
        figures = (np.median(taken), np.percentile(taken, 99), taken.max(), interpreter.stop())
        lines.append((name, f"{spent:.1f} s", len(taken), *(float(figure) for figure in figures)))
        return told[name]

    def nothing() -> bytes:
        time.sleep(BEFORE_SECONDS)
        return b""

    await beside("nothing, the floor", nothing)
    second = Signed[Inventory].from_canonical(await asyncio.to_thread(gates[1].close, held[1]))
    first = Signed[Inventory].from_canonical(await beside("closing", lambda: gates[0].close(held[0])))
    lists = [gate.inventory_ids(each) for gate, each in zip(gates, held, strict=True)]
    both = (first, second)
    requests = [
        CohortRequest(inventories=both, differences=(Difference.between(1 - own, lists[own], lists[1 - own]),))
        for own in range(2)
    ]
    frozen = Signed[Cohort].from_canonical(await asyncio.to_thread(gates[1].freeze, held[1], requests[1]))
    cohort = Signed[Cohort].from_canonical(await beside("freezing", lambda: gates[0].freeze(held[0], requests[0])))
    wanted = AggregateRequest(cohorts=(cohort, frozen))
    await beside("releasing", lambda: gates[0].release(held[0], wanted))
    for app in apps:
        app.node.close()
    return lines


def table(count: int) -> Shown:
    """Fill two servers, and measure."""
    busy = load()
    with tempfile.TemporaryDirectory() as folder:
        lines = asyncio.run(measure(collect(Path(folder) / "servers", count, 2)))
    undisturbed = lines[0][-4]
    assert isinstance(undisturbed, float)
    lines = [(line[0], float(str(line[-4])) / undisturbed, *line[1:]) for line in lines]
    heads = (
        "beside",
        "middle, times beside nothing",
        "it took",
        "uploads",
        "middle, ms",
        "99 of 100 within, ms",
        "longest, ms",
        "interpreter, ms",
    )
    return Shown(
        "pauses",
        "Uploads beside a release",
        heads,
        tuple(lines),
        f"Single uploads, one after the other, beside the steps of a release of {count:,} reports in the same process. "
        "Times are of the wall; the last column is the most CPU time that the process used while one of its threads "
        f"waited to run. {busy}",
    )


def main() -> None:
    """Show it."""
    options = parser(__doc__, 1, 1)
    options.add_argument("reports", nargs="?", type=int, default=1_000_000)
    asked = options.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    show({"pauses": lambda: table(asked.reports)}, asked)


if __name__ == "__main__":
    main()
