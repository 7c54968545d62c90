"""The two steps of a verified task between cohort and release: the analyzer carries check shares, and checks itself.

What it carries is signed, or hashed in a signed message, and it adds up the check shares as every server does. So it
knows which reports were rejected before any server says so, and detects a server that says something else.
"""

import asyncio
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Literal

from lintra_analyzer.exchange.servers import ListChunks, Server
from lintra_analyzer.storage.store import Store
from lintra_protocol.encoding.canonical import parse_base64url
from lintra_protocol.errors import ChecksMismatchError
from lintra_protocol.messages.documents import Cohort, Signed
from lintra_protocol.messages.verification import CheckShare, Verdict
from lintra_protocol.rules.verification import (
    ChecksRequest,
    FrozenBatch,
    Judgement,
    Read,
    VerdictRequest,
    check_share_of,
    judgement_of,
    verdict_of,
)
from lintra_service.spooled_bodies import BodyFolder

_LENGTH = struct.Struct(">I")

CheckKind = Literal["check_share", "verdict"]


def judgement_from(frozen: FrozenBatch, signed: Sequence[Signed[CheckShare]], bodies: BodyFolder) -> Judgement:
    """Add up the check shares of all servers, from what is stored (see `judgement_of` for errors).

    Raises ChecksMismatchError if a body is not here.
    """
    with ExitStack() as files:

        def opened(shares: Sequence[CheckShare]) -> list[Read]:
            try:
                return [files.enter_context(bodies.open(parse_base64url(share.body))).read for share in shares]
            except FileNotFoundError:
                raise ChecksMismatchError("the body of a check share is missing from the analyzer's folder") from None

        return judgement_of(frozen, signed, opened)


class Checking:
    """The check shares and verdicts of one batch."""

    def __init__(self, frozen: FrozenBatch, servers: Sequence[Server], store: Store) -> None:
        """Carry what `servers`, in the task's order, say of a frozen cohort."""
        self._frozen = frozen
        self._servers = servers
        self._store = store
        self._batch = f"/v1/tasks/{frozen.task.task_id}/batches/{frozen.batch}"

    async def check(self, cohorts: Sequence[Signed[Cohort]], server: Server) -> None:
        """Have one server give out its check share, and fetch the body (R14); what is here already stays.

        Raises ChecksMismatchError if its check share is none of this cohort, or another than before.
        """
        frozen, request = self._frozen, ChecksRequest(cohorts=tuple(cohorts)).canonical()
        known = self._document("check_share", server.index)
        if known is not None and await asyncio.to_thread(self._has_body, known):
            return
        body = await server.ask("PUT", f"{self._batch}/checks", "check-share", body=request, message="checks-request")
        with server.blame():
            signed = Signed[CheckShare].from_canonical(body)
            share = signed.verified(frozen.task.servers[server.index].identity_key)
            digest = parse_base64url(share.body)
            if share != check_share_of(frozen.task, frozen.batch, server.index, frozen.cohort, frozen.seed, digest):
                raise ChecksMismatchError("its check share is of another cohort, seed or shape")
            if known is not None and known != body:
                raise ChecksMismatchError("it signed another check share before")
        await server.fetch_body(f"{self._batch}/checks/body", self._store.bodies, frozen.body_bytes, digest)
        await self._keep("check_share", body, server.index)

    async def judge(self, judgement: Judgement, server: Server) -> None:
        """Have one server come to its verdict (R15), and compare it with what was found here.

        Raises ChecksMismatchError if its verdict is another one.
        """
        body = await self.ask_to_judge(server)
        with server.blame():
            frozen = self._frozen
            verdict = Signed[Verdict].from_canonical(body).verified(frozen.task.servers[server.index].identity_key)
            expected = verdict_of(
                frozen.task, frozen.batch, server.index, judgement.accepted, judgement.rejected,
                judgement.check_shares, parse_base64url(verdict.nonce),
            )  # fmt: skip
            if verdict != expected:
                raise ChecksMismatchError("it came to another verdict than its and the others' check shares give")
        await self._keep("verdict", body, server.index)

    async def ask_to_judge(self, server: Server) -> bytes:
        """Bring one server what all servers said, and return its verdict, which nobody has checked yet."""
        signed = self.check_shares()
        request = VerdictRequest(check_shares=tuple(signed)).canonical()
        others = [parse_base64url(each.message.body) for each in signed if each.message.server != server.index]
        head = _LENGTH.pack(len(request)) + request

        def pieces() -> Iterator[bytes]:
            yield head
            for digest in others:
                yield from self._store.bodies.pieces(digest)

        whole = ListChunks(len(head) + len(others) * self._frozen.body_bytes, pieces)
        return await server.ask("PUT", f"{self._batch}/verdict", "verdict", body=whole, message="verdict-request")

    def check_shares(self) -> list[Signed[CheckShare]]:
        """Return the signed check shares, in server order."""
        bodies = [self._document("check_share", server.index) for server in self._servers]
        return [Signed[CheckShare].from_canonical(body) for body in bodies if body is not None]

    def judgement(self) -> Judgement:
        """Return what was accepted (see `judgement_of` for errors)."""
        return judgement_from(self._frozen, self.check_shares(), self._store.bodies)

    def _has_body(self, document: bytes) -> bool:
        share = Signed[CheckShare].from_canonical(document).message
        return self._store.bodies.is_whole(parse_base64url(share.body), self._frozen.body_bytes)

    def _document(self, kind: CheckKind, server: int) -> bytes | None:
        return self._store.document(self._frozen.task.task_id, self._frozen.batch, kind, server)

    async def _keep(self, kind: CheckKind, body: bytes, server: int) -> None:
        put = self._store.put_document
        await asyncio.to_thread(put, self._frozen.task.task_id, self._frozen.batch, kind, body, server)
