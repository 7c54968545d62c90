"""N servers in one process with clients and an analyzer, over real stores and in-process HTTP."""

import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
from services import free_ports

from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import RandomBytes, expand, system_randomness
from lintra_protocol.crypto.ring import RingArray, ring_from_bytes
from lintra_protocol.crypto.sealing import CLASSICAL, SealingKey, SuiteName, seal
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.crypto.tokens import Token, derived_keys, key_commitment, key_context, make_token
from lintra_protocol.encoding.canonical import base64url, domain_hash, parse_base64url
from lintra_protocol.encoding.documents import Frozen
from lintra_protocol.fields.schema import Column
from lintra_protocol.http.requests import MessageName, media_type, sign_request
from lintra_protocol.ideal import client_report
from lintra_protocol.mechanisms import AnyMechanism, Osnap, SecondMoment, Sum
from lintra_protocol.messages.documents import (
    AggregateRequest,
    Cohort,
    CohortRequest,
    Difference,
    Inventory,
    KeyList,
    Registration,
    Signed,
    SketchShareRecord,
    TaskRecord,
    UploadAnswer,
    sign,
)
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.report.report import Report, seal_block
from lintra_protocol.report.upload import encode_upload
from lintra_protocol.report.wire import decode_sealed_document
from lintra_protocol.rules.release import aggregate_context
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task
from lintra_server.batches import jobs
from lintra_server.settings import RegistrationPolicy, Settings
from lintra_server.storage import database
from lintra_server.web.app import create_app
from lintra_server.web.upload_route import UploadRoute
from support.compiled_once import create_engine
from support.measured import calibrated_for, document_of, with_server_noise

vars(database)["create_engine"] = create_engine
jobs.ANSWER_SECONDS = 60.0  # tests of one request expect its answer, however busy the machine is

START = 1_800_000_000
PRECISION = 3600
START_SECONDS = 30
BASE = "/v1/tasks/{}/batches/0"


def seeded(label: str) -> RandomBytes:
    return expand(domain_hash("test", b"server tests"), label)


AUTHOR = SigningKey.generate(seeded("author"))
ANALYZER = SigningKey.generate(seeded("analyzer"))
STRANGER = SigningKey.generate(seeded("stranger"))
TOKEN_KEYS = derived_keys(bytes(32), [base64url(bytes([server]) * 32) for server in range(16)])

COLUMNS = tuple(Column(name=name, lower="-1", upper="1") for name in ("a", "b", "c"))
CLAIM = Claim(epsilon="2", delta="0.000001", min_clients=12)
MECHANISMS: dict[str, AnyMechanism] = {
    "osnap": Osnap(row_bound="1", fraction_bits=0, sigma=4, rows=3),
    "overlapping": Osnap(row_bound="1", fraction_bits=0, sigma=8, rows=4, sparsity=2),
    "sum": Sum(row_bound="1", fraction_bits=0, sigma=4),
    "second_moment": SecondMoment(row_bound="1", fraction_bits=0, sigma=4),
}


POLICY = RegistrationPolicy(allowed_authors="any", open=True)
"""Closed registration and tokens have tests of their own."""


def noised_by_servers(task: Task) -> Task:
    """Return the same task with noise of its servers, as much as keeps the claim."""
    told = with_server_noise(task, task.num_servers)
    noise = calibrated_for(told, len(task.columns), task.noise_claim, task.max_clients)
    return task.model_copy(update={"mechanism": document_of(noise), "noise": "servers"})


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self, seconds: float = START) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds


def url(server: int) -> str:
    return f"https://server{server}.example"


@dataclass
class World:
    """All parties of one task."""

    folder: Path
    clock: Clock
    task: Task
    sealing_key: SealingKey
    settings: list[Settings]
    apps: list[UploadRoute]
    http: list[httpx2.AsyncClient] = field(default_factory=list)
    halts: list[str] = field(default_factory=list)
    nonces: RandomBytes = field(default_factory=lambda: seeded("request nonces"))

    def reopen(self, server: int) -> None:
        """Forget everything that server has in memory, and start it again from its disk."""
        self.apps[server].node.close()
        self.start(server)

    def kill(self, server: int) -> None:
        """Let a server end as a kill does: nothing more is written, only its lock goes."""
        node = self.apps[server].node
        node._stopping.set()
        node._notes.join()
        node.intake.close()
        node.writer.close()
        node._parts.close()

    def start(self, server: int, **changes: object) -> None:
        """Start a server that was killed from its disk."""
        self.settings[server] = self.settings[server].model_copy(update=changes)
        self.apps[server] = create_app(
            self.settings[server], now=self.clock, random_bytes=system_randomness, running=self.clock,
            halt=self.halts.append,
        )  # fmt: skip
        self.http[server] = _client(self.apps[server])

    def close(self) -> None:
        for app in self.apps:
            app.node.close()

    # --- author ------------------------------------------------------------------------------------------------

    async def register(self, server: int, task: Task | None = None, key: SigningKey = AUTHOR) -> httpx2.Response:
        task = task or self.task
        record = sign(key, TaskRecord(definition=task))
        body, kind = record.canonical(), media_type("task")
        if task.uses_tokens:
            registration = await self.registration(server, task, record)
            body, kind = registration.canonical(), media_type("registration")
        return await self.http[server].put(f"/v1/tasks/{task.task_id}", content=body, headers={"content-type": kind})

    async def registration(self, server: int, task: Task, record: Signed[TaskRecord]) -> Registration:
        """Return the task with the server's key for its tokens, sealed to the server."""
        key_id, public_key = await self.sealing_key_of(server)
        info = key_context(task.id_bytes, server)
        sealed = seal(TOKEN_KEYS[server], task.suite, public_key, info)
        return Registration(record=record, key_id=base64url(key_id), token_key=base64url(sealed))

    async def sealing_key_of(self, server: int) -> tuple[bytes, bytes]:
        """Return identifier and public key of what a server's messages are sealed to."""
        answer = await self.http[server].get("/v1/keys")
        keys = Signed[KeyList].from_canonical(answer.content).verified(self.task.servers[server].identity_key).keys
        key = next(entry for entry in keys if entry.suite == self.task.suite)
        return parse_base64url(key.key_id), parse_base64url(key.public_key)

    # --- clients -----------------------------------------------------------------------------------------------

    def reports(self, count: int, label: str = "client", time: int | None = None) -> list[Report]:
        when = self.task.not_before if time is None else time
        return [client_report(self.task, row, when, rng) for row, rng in self.rows(count, label)]

    def rows(self, count: int, label: str = "client") -> list[tuple[np.ndarray, RandomBytes]]:
        values = np.random.default_rng(7).uniform(-0.5, 0.5, (count, len(self.task.columns)))
        return [(row, seeded(f"{label} {index}")) for index, row in enumerate(values)]

    async def body(self, server: int, reports: Iterable[Report], tokens: Sequence[Token] | None = None) -> bytes:
        """Seal reports to a server in one block, with a token of its own for each, if the task has them."""
        key = await self.sealing_key_of(server)
        together, passes = list(reports), list[bytes]()
        if self.task.uses_tokens:
            passes = [token.pass_for(server) for token in tokens or [self.token(text(report)) for report in together]]
        return encode_upload([seal_block(self.task, server, *key, together, passes)])

    def token(self, holder: str) -> Token:
        """Return the token of somebody, always the same."""
        return make_token(TOKEN_KEYS[: self.task.num_servers], self.task.id_bytes, seeded(f"token of {holder}"))

    async def post(self, server: int, body: bytes, task_id: str | None = None) -> httpx2.Response:
        path = f"/v1/tasks/{task_id or self.task.task_id}/reports"
        return await self.http[server].post(path, content=body, headers={"content-type": media_type("reports")})

    async def upload_answer(self, server: int, reports: Sequence[Report]) -> httpx2.Response:
        return await self.post(server, await self.body(server, reports))

    async def upload(self, server: int, reports: Sequence[Report]) -> UploadAnswer:
        answer = await self.post(server, await self.body(server, reports))
        assert answer.status_code == 200, answer.text
        return UploadAnswer.from_canonical(answer.content)

    async def upload_everywhere(self, reports: Sequence[Report]) -> None:
        for server in range(len(self.apps)):
            assert (await self.upload(server, reports)).failures == ()

    # --- the analyzer ------------------------------------------------------------------------------------------

    async def ask(
        self,
        server: int,
        method: str,
        resource: str,
        body: bytes = b"",
        name: MessageName | None = None,
        key: SigningKey | None = ANALYZER,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        path = f"/v1/tasks/{self.task.task_id}{resource}"
        whole = f"{url(server)}{path}"
        signed = sign_request(key, method, whole, body, int(self.clock()), self.nonces(16)) if key else {}
        headers = {**signed, **(headers or {})}
        if name:
            headers["content-type"] = media_type(name)
        return await self.http[server].request(method, path, content=body, headers=headers)

    async def close_batch(self, server: int) -> httpx2.Response:
        return await self.ask(server, "POST", "/batches/0/inventory")

    async def inventories(self) -> tuple[Signed[Inventory], ...]:
        answers = [await self.close_batch(server) for server in range(len(self.apps))]
        assert [answer.status_code for answer in answers] == [200] * len(answers), [a.text for a in answers]
        return tuple(Signed[Inventory].from_canonical(answer.content) for answer in answers)

    async def ids(self, server: int) -> ReportIds:
        answer = await self.ask(server, "GET", "/batches/0/inventory/ids")
        assert answer.status_code == 200, answer.text
        return ReportIds.parse(answer.content, 10**6)

    async def cohort_request(
        self,
        server: int,
        inventories: tuple[Signed[Inventory], ...] | None = None,
        lists: Sequence[Sequence[bytes]] | None = None,
    ) -> CohortRequest:
        inventories = inventories or await self.inventories()
        lists = lists or [await self.ids(index) for index in range(len(self.apps))]
        differences = tuple(
            Difference.between(other, ReportIds.of(lists[server]), ReportIds.of(lists[other]))
            for other in range(len(self.apps))
            if other != server
        )
        return CohortRequest(inventories=inventories, differences=differences)

    async def freeze(self, server: int, request: Frozen | None = None) -> httpx2.Response:
        request = request or await self.cohort_request(server)
        return await self.ask(server, "PUT", "/batches/0/cohort", request.canonical(), "cohort-request")

    async def aggregate_request(self) -> AggregateRequest:
        answers = [await self.freeze(server) for server in range(len(self.apps))]
        assert [answer.status_code for answer in answers] == [200] * len(answers), [a.text for a in answers]
        return AggregateRequest(cohorts=tuple(Signed[Cohort].from_canonical(answer.content) for answer in answers))

    async def release(self, server: int, request: Frozen | None = None) -> httpx2.Response:
        request = request or await self.aggregate_request()
        return await self.ask(server, "PUT", "/batches/0/aggregate", request.canonical(), "aggregate-request")

    def opened(self, server: int, answer: bytes) -> tuple[SketchShareRecord, RingArray]:
        document, sealed = decode_sealed_document(answer)
        record = Signed[SketchShareRecord].from_canonical(document).verified(self.task.servers[server].identity_key)
        assert record.sealed == base64url(domain_hash("sealed sketch share", sealed))
        root, seed = parse_base64url(record.cohort_root), parse_base64url(record.seed)
        words = ring_from_bytes(self.sealing_key.open(sealed, aggregate_context(self.task, 0, server, root, seed)))
        return record, words.reshape(record.rows, record.words)


def new_world(
    folder: Path,
    mechanism: str = "osnap",
    *,
    num_servers: int = 3,
    suite: SuiteName = CLASSICAL,
    policy: RegistrationPolicy | None = None,
    change: Callable[[Task], Task] = lambda task: task,
    columns: tuple[Column, ...] = COLUMNS,
    claim: Claim = CLAIM,
    max_clients: int = 1000,
    max_pending_bytes: int = 64 << 20,
    witness: Path | None = None,
    tokens: bool = False,
) -> World:
    clock, halts = Clock(), list[str]()
    settings = _settings(folder, num_servers, policy or POLICY, max_pending_bytes, witness)
    if witness:
        for server in range(num_servers):
            (witness / f"of{server}").mkdir(parents=True)
    apps = [
        create_app(one, now=clock, random_bytes=seeded(f"server {server}"), running=clock, halt=halts.append)
        for server, one in enumerate(settings)
    ]
    sealing_key = SealingKey.generate(suite, seeded("analyzer sealing"))
    unit = int(clock()) // PRECISION
    task = Task(
        salt=base64url(seeded("salt")(32)),
        purpose="a test",
        author_key=AUTHOR.public_key,
        servers=tuple(
            ServerEntry(url=url(server), identity_key=app.node.identity.public_key) for server, app in enumerate(apps)
        ),
        analyzer=AnalyzerEntry(identity_key=ANALYZER.public_key, sealing_key=base64url(sealing_key.public_bytes)),
        columns=columns,
        mechanism=calibrated_for(MECHANISMS[mechanism], len(columns), claim, max_clients),
        claim=claim,
        max_clients=max_clients,
        max_missing="0.25",
        time_precision=PRECISION,
        not_before=unit - 1,
        not_after=unit + 24,
        suite=suite,
        client_auth="token" if tokens else "none",
        token_keys=tuple(map(key_commitment, TOKEN_KEYS[:num_servers])) if tokens else (),
    )
    return World(folder, clock, change(task), sealing_key, settings, apps, [_client(app) for app in apps], halts)


def _settings(
    folder: Path, num_servers: int, policy: RegistrationPolicy, max_pending_bytes: int, witness: Path | None
) -> list[Settings]:
    """Return the settings of each server, which differ in names only and so are validated once."""
    first = Settings.model_validate(
        {
            "public_url": url(0),
            "data_dir": folder,
            "key_dir": folder,
            "create_keys": True,
            "reserve_bytes": 0,
            "policy": policy,
            "queue": {"max_pending_bytes": max_pending_bytes},
        }
    )
    return [
        first.model_copy(
            update={
                "public_url": url(server),
                "data_dir": folder / f"server{server}",
                "key_dir": folder / f"keys{server}",
                "witness_dir": witness / f"of{server}" if witness else None,
            }
        )
        for server in range(num_servers)
    ]


@asynccontextmanager
async def a_world(folder: Path, mechanism: str = "osnap", **options: Any) -> AsyncIterator[World]:
    """Give a world whose servers all hold the task."""
    world = new_world(folder, mechanism, **options)
    try:
        for server in range(len(world.apps)):
            answer = await world.register(server)
            assert answer.status_code == 201, answer.text
        yield world
    finally:
        world.close()


def text(report: Report) -> str:
    return base64url(report.report_id)


def token(answer: httpx2.Response) -> str:
    """Return the kind of problem an answer states, after checking that it is a whole problem document."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document = json.loads(answer.content)
    assert document["status"] == answer.status_code
    assert document["instance"] == "urn:lintra:request:" + answer.headers["lintra-request-id"]
    assert {"title", "detail", "retryable"} <= set(document)
    return str(document["type"].removeprefix("urn:lintra:problem:"))


def _client(app: UploadRoute) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="https://server.example")


# --- a server in a process of its own -------------------------------------------------------------------------


def configured(folder: Path) -> tuple[Path, Settings]:
    """Write the settings of a server on free ports."""
    path = folder / "server.toml"
    port, internal = free_ports(2)
    lines = [
        f'public_url = "http://127.0.0.1:{port}"',
        f"port = {port}",
        f"internal_port = {internal}",
        "create_keys = true",
        "reserve_bytes = 65536",
        "[policy]",
        'allowed_authors = "any"',
        "open = true",
    ]
    path.write_text("\n".join(lines), "utf-8")
    return path, Settings.load(path)


def _wait_until_ready(url: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    with httpx2.Client() as http:
        while True:
            try:
                assert http.get(url).status_code == 200
                return
            except httpx2.TransportError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)


@contextmanager
def started(config: Path, settings: Settings) -> Iterator[subprocess.Popen[str]]:
    """Start the server's command, wait until it is ready, and leave no process behind."""
    command = [sys.executable, "-c", "from lintra_server.cli import app; app()", "run", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            _wait_until_ready(f"http://127.0.0.1:{settings.internal_port}/readyz", process)
            yield process
        finally:
            process.kill()
