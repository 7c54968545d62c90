"""The analyzer among real servers in one process: real stores, in-process HTTP, a clock that stands still."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import numpy as np
import structlog
from starlette.types import ASGIApp

from lintra_analysis.certificate.certificate import SignedRecord
from lintra_analyzer.service import Service, World
from lintra_analyzer.settings import KnownServer, Settings
from lintra_analyzer.storage import database as analyzer_database
from lintra_analyzer.storage.keys import AnalyzerKeys
from lintra_analyzer.storage.readable import record_in
from lintra_analyzer.web.app import create_app
from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import domain_hash, parse_base64url
from lintra_protocol.http.requests import media_type
from lintra_protocol.ideal import IdealRelease, client_report, run
from lintra_protocol.messages.documents import Cohort, KeyList, Signed
from lintra_protocol.report.report import Report, seal_block
from lintra_protocol.report.upload import encode_upload
from lintra_protocol.task import Task
from lintra_server.settings import Settings as ServerSettings
from lintra_server.storage import database
from lintra_server.web.app import create_app as create_server
from lintra_server.web.upload_route import UploadRoute
from lintra_service.bearer_tokens import token_hash
from support.compiled_once import create_engine

for module in (database, analyzer_database):
    vars(module)["create_engine"] = create_engine

NOW = 1_800_000_000
TOKEN = "lintra_a-token-that-only-tests-know"
CLIENTS = 24
NAMES = ("a", "b", "c")

Answer = tuple[int, dict[str, str], bytes]
Fault = Callable[[int, httpx2.Request, Answer], Answer]


def seeded(label: str) -> RandomBytes:
    return expand(domain_hash("test", b"analyzer tests"), label)


KEYS = AnalyzerKeys.generate(seeded("analyzer keys"))


def server_url(server: int) -> str:
    return f"http://server-{server}.test"


def specification(kind: str = "second_moment", **changes: object) -> dict[str, object]:
    """Return what an analyst would post; `changes` replace fields."""
    mechanism: dict[str, object] = {"kind": kind}
    if kind == "overlapping":
        mechanism = {"kind": "osnap", "rows": 4, "sparsity": 2}
    if kind == "osnap":
        mechanism["rows"] = 4
    return {
        "purpose": "a test",
        "columns": [{"name": name, "lower": -1, "upper": 1} for name in NAMES],
        "mechanism": mechanism,
        "row_bound": 1,
        "epsilon": 4,
        "delta": 1e-5,
        "min_clients": 12,
        "max_missing": 0.25,
        "suite": "x25519",
        "noise": "clients",  # a release is compared with one function, bit for bit; servers' noise is their own
        "verification": "none",  # batches of exactly min_clients reports; verified tasks ask for it
        **changes,
    }


class Wires(httpx2.AsyncBaseTransport):
    """Carries requests to the servers' applications; a fault may change an answer, or raise instead of giving it.

    With a timeout an answer must begin within so many seconds.
    """

    def __init__(self, apps: list[UploadRoute]) -> None:
        self._ways = [httpx2.ASGITransport(app) for app in apps]
        self.fault: Fault | None = None
        self.timeout: float | None = None
        self.log: list[tuple[int, str, str]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        server = int(request.url.host.removeprefix("server-").removesuffix(".test"))
        try:
            async with asyncio.timeout(self.timeout):
                response = await self._ways[server].handle_async_request(request)
        except TimeoutError:
            raise httpx2.ReadTimeout("silence", request=request) from None
        body = b"".join([chunk async for chunk in response.stream])  # type: ignore[union-attr]
        answer: Answer = (response.status_code, dict(response.headers), body)
        self.log.append((server, request.method, request.url.path.rpartition("/")[2]))
        status, headers, body = self.fault(server, request, answer) if self.fault else answer
        headers["content-length"] = str(len(body))
        return httpx2.Response(status, headers=headers, stream=httpx2.ByteStream(body))


@dataclass
class Life:
    """Servers, and an analyzer that can be restarted."""

    folder: Path
    servers: list[UploadRoute]
    wires: Wires
    settings: Settings
    service: Service = field(init=False)
    web: ASGIApp = field(init=False)
    starts: int = 0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Start the analyzer from what is on its disk.

        Every start draws other bytes: a server refuses a request whose nonce the former life has used.
        """
        http = httpx2.AsyncClient(transport=self.wires)
        self.starts += 1
        self.service = Service(self.settings, KEYS, World(http, lambda: NOW, seeded(f"analyzer, start {self.starts}")))
        self.web = create_app(self.service)

    def rest(self, token: str | None = TOKEN) -> httpx2.AsyncClient:
        """Return an analyst's connection."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        transport = httpx2.ASGITransport(self.web)
        return httpx2.AsyncClient(transport=transport, base_url="http://analyzer.test", headers=headers)

    async def create(self, kind: str = "second_moment", **changes: object) -> Task:
        async with self.rest() as rest:
            answer = await rest.post("/v1/tasks", json=specification(kind, **changes))
        assert answer.status_code == 201, answer.text
        return self.service.task(answer.json()["task_id"])

    async def upload(
        self,
        task: Task,
        count: int = CLIENTS,
        servers: tuple[int, ...] = (0, 1, 2),
        label: str = "client",
        rows: Iterable[tuple[FloatArray, RandomBytes]] | None = None,
        batch: int = 0,
    ) -> None:
        """Send the reports of some rows, by default of the first `count` clients, to some servers."""
        chosen = clients(count, label) if rows is None else rows
        await self.send(task, [client_report(task, row, task.span(batch)[0], rng) for row, rng in chosen], servers)

    async def send(self, task: Task, reports: Sequence[Report], servers: tuple[int, ...] = (0, 1, 2)) -> None:
        """Send reports to some servers."""
        for server in servers:
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(self.servers[server])) as http:
                answer = await http.get(f"{server_url(server)}/v1/keys")
                keys = Signed[KeyList].from_canonical(answer.content).message.keys
                key = next(entry for entry in keys if entry.suite == task.suite)
                key_id, public = parse_base64url(key.key_id), parse_base64url(key.public_key)
                body = encode_upload([seal_block(task, server, key_id, public, reports)])
                url = f"{server_url(server)}/v1/tasks/{task.task_id}/reports"
                answer = await http.post(url, content=body, headers={"content-type": media_type("reports")})
                assert answer.status_code == 200, answer.text

    async def release(self, task: Task) -> str:
        """Run a release to its end and return its identifier."""
        self.service.start_release(task.task_id)
        await self.service.jobs.finished(task.task_id)
        job = self.service.job(task.task_id)
        assert job.release_id is not None, job
        return job.release_id

    def records(self) -> list[SignedRecord]:
        """Return the records of all releases, the newest first."""
        listed = self.service.store.listed
        found = listed.releases_at([number for number, _ in listed.new_releases(0)])
        return [record_in(one.release_id, one.record) for one in found][::-1]

    def ideal(self, task: Task, count: int = CLIENTS) -> IdealRelease:
        """Run the same protocol in one function, with the nonces that the servers drew."""
        bodies = [self.service.store.document(task.task_id, 0, "cohort", server) for server in range(3)]
        nonces = [parse_base64url(Signed[Cohort].from_canonical(body or b"").message.nonce) for body in bodies]
        return run(task, clients(count), nonces)


def clients(count: int, label: str = "client") -> list[tuple[FloatArray, RandomBytes]]:
    """Return rows, each with its client's own source of randomness."""
    rows = np.random.default_rng(5).uniform(-0.5, 0.5, (count, len(NAMES)))
    return [(row, seeded(f"{label} {index}")) for index, row in enumerate(rows)]


@asynccontextmanager
async def living(
    folder: Path, policy: Mapping[str, object] | None = None, *, witnessed: Collection[int] = (), **changes: object
) -> AsyncIterator[Life]:
    """Start three servers and an analyzer below a folder; `changes` replace the analyzer's settings.

    The servers `witnessed` have a witness each. All judge at the delta of `specification`, unless `policy` says
    otherwise.
    """
    first = ServerSettings.model_validate(
        {
            "public_url": server_url(0),
            "data_dir": folder,
            "key_dir": folder,
            "create_keys": True,
            "reserve_bytes": 0,
            "policy": {"allowed_authors": "any", "open": True, "delta": "0.00001", **(policy or {})},
        }
    )
    for server in witnessed:
        (folder / f"witness-{server}").mkdir()
    apps = [
        create_server(
            first.model_copy(
                update={
                    "public_url": server_url(server),
                    "data_dir": folder / f"server-{server}",
                    "key_dir": folder / f"keys-{server}",
                    "witness_dir": folder / f"witness-{server}" if server in witnessed else None,
                }
            ),
            now=lambda: NOW,
            random_bytes=seeded(f"server {server}"),
        )
        for server in range(3)
    ]
    known = [
        KnownServer(url=server_url(server), identity_key=app.node.identity.public_key)
        for server, app in enumerate(apps)
    ]
    values: dict[str, object] = {
        "data_dir": folder / "analyzer",
        "servers": known,
        "token_hashes": [token_hash(TOKEN)],
        "server_attempts": 2,
        "retry_seconds": 0.0,
        "retry_seconds_max": 0.0,
    }
    life = Life(folder, apps, Wires(apps), Settings.model_validate(values | changes))
    # Pretty tracebacks with the values of all variables take seconds each.
    before = structlog.get_config()
    structlog.configure(processors=[_dropped])
    try:
        yield life
    finally:
        # Worlds overlap: a module's own may live beside one of a single test.
        structlog.configure(**before)
        await life.service.jobs.stop()
        life.service.store.close()
        for app in apps:
            app.node.close()


def _dropped(_logger: object, _method: str, _event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    raise structlog.DropEvent
