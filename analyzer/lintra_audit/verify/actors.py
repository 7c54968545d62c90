"""All parties but the servers: an author, clients that may lie, and an analyzer that may send any request.

One object is one collection at real server processes. A refusal is raised as the error that the server names.
"""

import json
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPConnection

import numpy as np

from lintra_analysis.spec.build_task import PartyKeys, build_task
from lintra_analysis.spec.specification import Specification
from lintra_audit.verify.processes import ServerFolder
from lintra_protocol.cohort.report_ids import ReportIds
from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.ring import IntArray, RingArray, from_ring, ring_from_bytes
from lintra_protocol.crypto.sealing import CLASSICAL, SealingKey
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url, parse_base64url
from lintra_protocol.encoding.documents import Frozen
from lintra_protocol.http.problems import from_problem
from lintra_protocol.http.requests import MessageName, media_type, sign_request
from lintra_protocol.messages.documents import (
    Cohort,
    CohortRequest,
    Difference,
    Inventory,
    KeyList,
    Signed,
    SketchShareRecord,
    TaskRecord,
    UploadAnswer,
    sign,
)
from lintra_protocol.messages.verification import CheckShare, Verdict
from lintra_protocol.report.report import Report, seal_block
from lintra_protocol.report.upload import encode_upload
from lintra_protocol.report.wire import decode_sealed_document
from lintra_protocol.rules.release import aggregate_context
from lintra_protocol.rules.verification import ChecksRequest, VerdictRequest, VerifiedAggregateRequest
from lintra_protocol.task import ServerEntry, Task

MOST_REPORTS = 10_000
ANSWER_SECONDS = 60.0

Bodies = Sequence[bytes]
CheckShares = tuple[Signed[CheckShare], ...]
Verdicts = tuple[Signed[Verdict], ...]


@dataclass(frozen=True)
class Actors:
    """One task at some servers; `repr` shows no key. `places` are those of the servers, in the task's order."""

    places: Sequence[ServerFolder]
    task: Task = field(repr=False)
    author: SigningKey = field(repr=False)
    analyzer: SigningKey = field(repr=False)
    sealing_key: SealingKey = field(repr=False)

    @classmethod
    def begin(
        cls, places: Sequence[ServerFolder], specification: Mapping[str, object], played: Sequence[int] = ()
    ) -> "Actors":
        """Draft a task and register it at all servers but those that the audit plays itself."""
        author, analyzer = (SigningKey.generate(system_randomness) for _ in range(2))
        sealing = SealingKey.generate(CLASSICAL, system_randomness)
        keys = PartyKeys(author.public_key, analyzer.public_key, {CLASSICAL: base64url(sealing.public_bytes)})
        entries = [ServerEntry(url=place.url, identity_key=place.key.public_key) for place in places]
        asked = Specification.model_validate(specification)
        task = build_task(asked, entries, keys, int(time.time()), system_randomness)
        exchange = cls(places, task, author, analyzer, sealing)
        for server in range(len(places)):
            if server not in played:
                exchange.register(server, task)
        return exchange

    def register(self, server: int, task: Task) -> None:
        """Register a task of the same author at one server."""
        body = sign(self.author, TaskRecord(definition=task)).canonical()
        self._send(server, "PUT", f"/v1/tasks/{task.task_id}", body, {"content-type": media_type("task")})

    def served(self, server: int) -> Signed[TaskRecord]:
        """Return the task as one server serves it."""
        return Signed[TaskRecord].from_canonical(self._send(server, "GET", f"/v1/tasks/{self.task.task_id}", b"", {}))

    # --- clients -----------------------------------------------------------------------------------------------

    def upload(self, server: int, reports: Sequence[Report]) -> dict[bytes, str]:
        """Send reports to one server; return which it refused, by identifier, and the token of the reason."""
        keys = Signed[KeyList].from_canonical(self._send(server, "GET", "/v1/keys", b"", {}))
        (key,) = [each for each in keys.message.keys if each.suite == self.task.suite]
        block = seal_block(
            self.task, server, parse_base64url(key.key_id), parse_base64url(key.public_key), list(reports)
        )
        headers = {"content-type": media_type("reports")}
        body = self._send(server, "POST", f"/v1/tasks/{self.task.task_id}/reports", encode_upload([block]), headers)
        return {
            parse_base64url(failure.report_id): failure.type.rpartition(":")[2]
            for failure in UploadAnswer.from_canonical(body).failures
        }

    # --- the analyzer ------------------------------------------------------------------------------------------

    @cached_property
    def _servers(self) -> range:
        return range(len(self.places))

    def inventory(self, server: int) -> Signed[Inventory]:
        """Close the batch at one server."""
        return Signed[Inventory].from_canonical(self._ask(server, "POST", "/inventory"))

    def ids(self, server: int) -> ReportIds:
        """Return which reports a server lists."""
        return ReportIds.parse(self._ask(server, "GET", "/inventory/ids"), MOST_REPORTS)

    def cohort(
        self, server: int, inventories: Sequence[Signed[Inventory]], lists: Sequence[ReportIds]
    ) -> Signed[Cohort]:
        """Have one server freeze what all hold."""
        differences = tuple(
            Difference.between(other, lists[server], lists[other]) for other in self._servers if other != server
        )
        request = CohortRequest(inventories=tuple(inventories), differences=differences)
        return Signed[Cohort].from_canonical(self._put(server, "/cohort", request, "cohort-request"))

    def freeze(self) -> tuple[Signed[Cohort], ...]:
        """Have all servers close and freeze."""
        inventories = [self.inventory(server) for server in self._servers]
        lists = [self.ids(server) for server in self._servers]
        return tuple(self.cohort(server, inventories, lists) for server in self._servers)

    def check(self, server: int, cohorts: Sequence[Signed[Cohort]]) -> tuple[Signed[CheckShare], bytes]:
        """Return one server's check share and its body."""
        answer = self._put(server, "/checks", ChecksRequest(cohorts=tuple(cohorts)), "checks-request")
        return Signed[CheckShare].from_canonical(answer), self._ask(server, "GET", "/checks/body")

    def checks(self, cohorts: Sequence[Signed[Cohort]]) -> tuple[CheckShares, Bodies]:
        """Return those of all servers."""
        found = [self.check(server, cohorts) for server in self._servers]
        return tuple(share for share, _ in found), [body for _, body in found]

    def judge(self, server: int, shares: CheckShares, bodies: Bodies) -> Signed[Verdict]:
        """Have one server come to its verdict on what it is shown; of its own body it is shown nothing."""
        head = VerdictRequest(check_shares=shares).canonical()
        others = [body for other, body in enumerate(bodies) if other != server]
        whole = struct.pack(">I", len(head)) + head + b"".join(others)
        return Signed[Verdict].from_canonical(self._ask(server, "PUT", "/verdict", whole, "verdict-request"))

    def aggregate(self, server: int, verdicts: Verdicts) -> RingArray:
        """Return one server's sketch share, opened, shape `(rows, words)`."""
        request = VerifiedAggregateRequest(verdicts=verdicts)
        document, sealed = decode_sealed_document(
            self._put(server, "/aggregate", request, "verified-aggregate-request")
        )
        record = Signed[SketchShareRecord].from_canonical(document).verified(self.places[server].key.public_key)
        root, seed = parse_base64url(record.cohort_root), parse_base64url(record.seed)
        words = self.sealing_key.open(sealed, aggregate_context(self.task, 0, server, root, seed))
        return ring_from_bytes(words).reshape(record.rows, record.words)

    def release(self) -> tuple[Signed[Verdict], IntArray]:
        """Take all steps as they should be; return a verdict, and what the shares add up to, shape `(m, w)`."""
        shares, bodies = self.checks(self.freeze())
        verdicts = tuple(self.judge(server, shares, bodies) for server in self._servers)
        return verdicts[0], self.total([self.aggregate(server, verdicts) for server in self._servers])

    @staticmethod
    def total(shares: Sequence[RingArray]) -> IntArray:
        """Add up the shares of all servers; return integers of the same shape."""
        return from_ring(combine(np.stack(shares)))

    # --- HTTP --------------------------------------------------------------------------------------------------

    def _put(self, server: int, step: str, message: Frozen, name: MessageName) -> bytes:
        return self._ask(server, "PUT", step, message.canonical(), name)

    def _ask(self, server: int, method: str, step: str, body: bytes = b"", name: MessageName | None = None) -> bytes:
        """Send a request that the analyzer signs, again while the server says that it is not done yet."""
        path = f"/v1/tasks/{self.task.task_id}/batches/0{step}"
        url = self.places[server].url + path
        kind = {} if name is None else {"content-type": media_type(name)}
        while True:
            signed = sign_request(self.analyzer, method, url, body, int(time.time()), system_randomness(16))
            answer = self._send(server, method, path, body, {**signed, **kind})
            if answer:
                return answer
            time.sleep(0.05)

    def _send(self, server: int, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Return the body of an answer, empty if the server is not done yet."""
        connection = HTTPConnection("127.0.0.1", self.places[server].port, timeout=ANSWER_SECONDS)
        try:
            connection.request(method, path, body=body, headers=dict(headers))
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise from_problem(json.loads(content))
        return b"" if response.status == 202 else content or b"-"
