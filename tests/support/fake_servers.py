"""Servers that exist only behind an HTTP transport; they really open, check and keep every share that reaches them."""

import json
from collections.abc import Callable, Sequence

import httpx2

from lintra_client import Client, ClientPolicy, Retries
from lintra_protocol.crypto.sealing import SealingKey
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import LintraError, OutdatedKeyError, UnknownTaskError
from lintra_protocol.http.problems import MEDIA_TYPE, STATUS, to_problem
from lintra_protocol.http.requests import media_type, require_media_type
from lintra_protocol.messages.documents import (
    Failure,
    KeyList,
    Receipt,
    SealingKeyEntry,
    Signed,
    TaskRecord,
    UploadAnswer,
    receipt_hash,
    sign,
)
from lintra_protocol.report.report import open_block
from lintra_protocol.report.upload import decode_upload
from lintra_protocol.task import Task
from support import identity, sealing_key

NOW = 6_000_000
"""The clock of these tests, in seconds; `support.make_task` counts minutes."""

IMPATIENT = Retries(attempts=3, patience=30.0, timeout=10.0, first_wait=0.0, longest_wait=0.0, jitter=0.0)

Around = Callable[[httpx2.Request, Callable[[], httpx2.Response]], httpx2.Response]


def key_id(key: SealingKey) -> bytes:
    return key.public_bytes[:8]


class FakeServer:
    """One server. Tests replace what it serves, or set `around` to lose, change or delay its answers."""

    def __init__(self, task: Task, index: int) -> None:
        self.task = task
        self.index = index
        self.identity = identity(f"server {index}")
        self.keys = [sealing_key(f"server {index}", task.suite)]
        self.valid_until = 2**40
        self.definition = task
        self.payloads: dict[bytes, bytes] = {}
        self.times: dict[bytes, int] = {}
        self.uploads: list[bytes] = []
        self.requests: list[str] = []
        self.refuse: Callable[[bytes], LintraError | None] = lambda known: None
        self.change_answer: Callable[[UploadAnswer], UploadAnswer] = lambda answer: answer
        self.around: Around = lambda request, answer: answer()

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(f"{request.method} {request.url.path}")
        return self.around(request, lambda: self._answer(request))

    def record(self) -> Signed[TaskRecord]:
        return sign(self.identity, TaskRecord(definition=self.definition))

    def key_list(self) -> Signed[KeyList]:
        entries = tuple(
            SealingKeyEntry(
                key_id=base64url(key_id(key)),
                suite=key.suite,
                public_key=base64url(key.public_bytes),
                valid_from=0,
                valid_until=self.valid_until,
            )
            for key in self.keys
        )
        return sign(self.identity, KeyList(identity_key=self.identity.public_key, keys=entries))

    def find_key(self, wanted: bytes) -> SealingKey:
        for key in self.keys:
            if key_id(key) == wanted:
                return key
        raise OutdatedKeyError

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if path == "/v1/keys":
            return reply("keys", self.key_list().canonical())
        if path == f"/v1/tasks/{self.task.task_id}":
            return reply("task", self.record().canonical())
        if path == f"/v1/tasks/{self.task.task_id}/reports":
            require_media_type(request.headers.get("content-type"), "reports")
            return reply("upload-answer", self.change_answer(self.take(request.content)).canonical())
        return problem(UnknownTaskError())

    def take(self, body: bytes) -> UploadAnswer:
        self.uploads.append(body)
        taken, failures = [], []
        for block in decode_upload(body, self.task, self.index):
            opened: list[bytes | LintraError]
            try:
                opened = open_block(self.task, self.index, block, self.find_key)
            except LintraError as failure:
                opened = [failure] * len(block.headers)
            for known, time, found in zip(block.report_ids, block.times, opened, strict=True):
                error = self.refuse(known) or (found if isinstance(found, LintraError) else None)
                if isinstance(error, OutdatedKeyError) and known in self.payloads:
                    error, found = None, self.payloads[known]  # stored before the key went: known by its identifier
                if error is not None or isinstance(found, LintraError):
                    failures.append(refusal_of(known, error or found))
                    continue
                self.payloads[known], self.times[known] = found, time
                taken.append(known)
        receipt = Receipt(task_id=self.task.task_id, server=self.index, count=len(taken), reports=receipt_hash(taken))
        return UploadAnswer(failures=tuple(failures), receipt=sign(self.identity, receipt))


def refusal_of(report: bytes, error: LintraError) -> Failure:
    """Return what an answer says about a report that was not taken."""
    return Failure(
        report_id=base64url(report), type=str(to_problem(error)["type"]), detail=error.detail, retryable=error.retryable
    )


class Network(httpx2.MockTransport):
    """All servers of a task, each at its URL."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.servers = [FakeServer(task, index) for index in range(task.num_servers)]
        by_host = {httpx2.URL(entry.url).host: server for entry, server in zip(task.servers, self.servers, strict=True)}
        super().__init__(lambda request: by_host[request.url.host].handle(request))

    @property
    def urls(self) -> list[str]:
        return [entry.url for entry in self.task.servers]

    def client(
        self,
        servers: Sequence[str] | None = None,
        *,
        task_id: str | None = None,
        policy: ClientPolicy | None = None,
        now: float = NOW,
        strict: bool = False,
    ) -> Client:
        return Client(
            task_id or self.task.task_id,
            servers or self.urls,
            policy=policy,
            ledger=None,
            strict=strict,
            retries=IMPATIENT,
            now=lambda: now,
            transport=self,
        )

    def nothing_left(self) -> bool:
        """Return whether no server saw any upload."""
        return not any("POST" in request for server in self.servers for request in server.requests)


def reply(name: str, body: bytes) -> httpx2.Response:
    return httpx2.Response(200, content=body, headers={"content-type": media_type(name)})  # type: ignore[arg-type]


def problem(error: LintraError, **headers: str) -> httpx2.Response:
    body = json.dumps(to_problem(error)).encode()
    return httpx2.Response(STATUS[type(error)], content=body, headers={"content-type": MEDIA_TYPE, **headers})
