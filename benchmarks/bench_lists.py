"""What a page of a list costs the analyzer: CPU time of one request, in the REST interface and in the console.

    python benchmarks/bench_lists.py [TASKS] [--write]

The analyzer is a real one in this process, with a database on this machine's disk and so many tasks, each released
once; every eighth task is about a population of its own. Requests go through the whole application. The time of the
page "Privacy spent" is shown twice: its first look reads every task and every release, the later ones read what is new.
"""

import asyncio
import json
import tempfile
import time
from pathlib import Path

import httpx2
import structlog
from showing import Cell, Shown, load, parser, show

from lintra_analysis.certificate.certificate import SignedRecord
from lintra_analysis.spec.build_task import build_task
from lintra_analysis.spec.specification import Specification
from lintra_analyzer.service import Service, World
from lintra_analyzer.settings import KnownServer, Settings
from lintra_analyzer.storage.access_tokens import Scope
from lintra_analyzer.storage.keys import AnalyzerKeys
from lintra_analyzer.storage.rows import ServerState, StoredTask
from lintra_analyzer.web.app import create_app
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.messages.documents import TaskRecord, sign
from lintra_protocol.task import ServerEntry, Task

RECORDS = Path(__file__).parents[1] / "tests/support/records_before_statements.json"
NOW = 1_800_000_000
SERVERS, TOKENS, TIMES = 3, 200, 21
ASKED = {
    "purpose": "How delays depend on the hour and the distance.",
    "columns": [{"name": f"column {number}", "lower": -1, "upper": 1} for number in range(10)],
    "mechanism": {"kind": "second_moment"},
    "row_bound": 1.2, "epsilon": 1, "delta": 1e-6, "min_clients": 5000,
}  # fmt: skip


def filled(folder: Path, count: int) -> tuple[Service, int]:
    """Return an analyzer with so many tasks and releases, and the place of the middle of its lists."""
    keys = AnalyzerKeys.generate(system_randomness)
    identities = [SigningKey.generate(system_randomness).public_key for _ in range(SERVERS)]
    servers = [ServerEntry(url=f"https://{n}.example", identity_key=key) for n, key in enumerate(identities)]
    known = tuple(KnownServer(url=one.url, identity_key=one.identity_key) for one in servers)
    settings = Settings(data_dir=folder, servers=known)
    service = Service(settings, keys, World(httpx2.AsyncClient(), lambda: NOW, system_randomness))
    specification = Specification.model_validate(ASKED)
    like = build_task(specification, servers, keys.public_keys, NOW, system_randomness)
    record = next(text for text in json.loads(RECORDS.read_text("utf-8")).values() if text.startswith('{"record"'))
    released = SignedRecord.from_canonical(record.encode())
    for number in range(count):
        _add(service, keys, like.model_copy(update={"purpose": f"{like.purpose} ({number})"}), released, number)
    return service, count // 2


def _add(service: Service, keys: AnalyzerKeys, task: Task, released: SignedRecord, number: int) -> None:
    store = service.store
    population = f"population {number}" if number % 8 == 0 else "everybody"
    document = sign(keys.author, TaskRecord(definition=task)).canonical()
    store.add_task(StoredTask(task.task_id, document, b"{}", NOW, population), SERVERS, None)
    for server in range(SERVERS):
        store.set_registration(task.task_id, ServerState(server, "accepted"))
    record = released.record.model_copy(update={"task_id": task.task_id})
    signed = released.model_copy(update={"record": record})
    store.add_release(record.release_id, task.task_id, 0, signed.canonical())


async def measured(service: Service, middle: int) -> list[tuple[Cell, ...]]:
    """Return a line for each list: CPU milliseconds of a page, the middle and the longest of some requests."""
    token, _ = service.access.add("benchmark", "operator", Scope(), None)
    few, _ = service.access.add("benchmark", "viewer", Scope((), ("population 0", "population 8")), None)
    for number in range(TOKENS):
        service.access.add(f"token {number}", "viewer", Scope(), None)
    transport = httpx2.ASGITransport(create_app(service))
    lines: list[tuple[Cell, ...]] = []

    async def look(name: str, path: str, headers: dict[str, str], times: int = TIMES) -> None:
        taken = []
        async with httpx2.AsyncClient(transport=transport, base_url="http://analyzer", headers=headers) as http:
            for _ in range(times):
                began = time.process_time()
                answer = await http.get(path)
                taken.append(1000 * (time.process_time() - began))
                if answer.status_code != 200:
                    raise RuntimeError(f"{path}: {answer.status_code}")
        lines.append((name, sorted(taken)[len(taken) // 2], max(taken)))

    every, some = ({"authorization": f"Bearer {each}"} for each in (token, few))
    signed_in = {"cookie": f"lintra-session={service.access.sign_in(token).secret}"}
    await look("REST, tasks, the first page", "/v1/tasks", every)
    await look("REST, tasks, a page in the middle", f"/v1/tasks?cursor={middle}", every)
    await look("REST, tasks, of two populations", "/v1/tasks", some)
    await look("REST, releases, the first page", "/v1/releases", every)
    await look("REST, releases, a page in the middle", f"/v1/releases?cursor={middle}", every)
    await look("REST, releases, of two populations", "/v1/releases", some)
    await look("console, tasks, the first page", "/", signed_in)
    await look("console, tasks, a page in the middle", f"/?cursor={middle}", signed_in)
    await look("console, releases, the first page", "/releases", signed_in)
    await look("console, tokens", "/tokens", signed_in)
    await look("console, privacy spent, the first look", "/privacy", signed_in, 1)
    await look("console, privacy spent, later", "/privacy", signed_in)
    return lines


def table(count: int) -> Shown:
    """Fill an analyzer, and measure."""
    busy = load()
    with tempfile.TemporaryDirectory() as folder:
        service, middle = filled(Path(folder), count)
        lines = asyncio.run(measured(service, middle))
        service.store.close()
    return Shown(
        "lists",
        "Pages of an analyzer's lists",
        ("page", "middle, ms of CPU", "longest, ms of CPU"),
        tuple(lines),
        f"An analyzer with {count:,} tasks, as many releases and {TOKENS} tokens; {TIMES} requests of each page, one "
        f"after the other, in one process with the client that asks. {busy}",
    )


def main() -> None:
    """Show it."""
    options = parser(__doc__, 1, 1)
    options.add_argument("tasks", nargs="?", type=int, default=10_000)
    asked = options.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    show({"lists": lambda: table(asked.tasks)}, asked)


if __name__ == "__main__":
    main()
