"""Delivery: the same bytes until a server answers, a new key once, and no receipt that does not fit."""

from collections.abc import Callable

import httpx2
import pytest

from lintra_client import Client
from lintra_protocol.errors import (
    BatchClosedError,
    InternalError,
    InvalidMessageError,
    LintraError,
    OutdatedKeyError,
    OverloadedError,
    UnauthorizedError,
    UnavailableError,
)
from lintra_protocol.messages.documents import Receipt, UploadAnswer, receipt_hash, sign
from lintra_protocol.report.upload import decode_upload
from support import identity, make_task, sealing_key, source
from support.fake_servers import IMPATIENT, NOW, FakeServer, Network, problem, reply

ROW = [0.5, -0.25, 0.125]


def failing(
    times: int, failure: Callable[[Callable[[], httpx2.Response]], httpx2.Response]
) -> Callable[[httpx2.Request, Callable[[], httpx2.Response]], httpx2.Response]:
    """Fail the first uploads, and leave everything else alone."""
    left = [times]

    def around(request: httpx2.Request, answer: Callable[[], httpx2.Response]) -> httpx2.Response:
        if request.method == "POST" and left[0]:
            left[0] -= 1
            return failure(answer)
        return answer()

    return around


def lost_request(answer: Callable[[], httpx2.Response]) -> httpx2.Response:
    raise httpx2.ConnectError("lost")


def lost_answer(answer: Callable[[], httpx2.Response]) -> httpx2.Response:
    answer()
    raise httpx2.ReadError("lost")


def bodies_seen(server: FakeServer) -> list[bytes]:
    """Record every upload that is attempted, lost ones included."""
    seen: list[bytes] = []
    inner = server.around

    def around(request: httpx2.Request, answer: Callable[[], httpx2.Response]) -> httpx2.Response:
        if request.method == "POST":
            seen.append(request.content)
        return inner(request, answer)

    server.around = around
    return seen


# --- retries --------------------------------------------------------------------------------------------------

TRANSIENT_FAILURES = {
    "lost request": lost_request,
    "lost answer": lost_answer,
    "timeout": lambda answer: (_ for _ in ()).throw(httpx2.ReadTimeout("slow")),
    "reset": lambda answer: (_ for _ in ()).throw(ConnectionResetError()),
    "overloaded": lambda answer: problem(OverloadedError(), **{"retry-after": "1"}),
    "unavailable": lambda answer: problem(UnavailableError()),
    "internal": lambda answer: problem(InternalError()),
    "proxy": lambda answer: httpx2.Response(502, content=b"<html>bad gateway</html>"),
}


@pytest.mark.parametrize("name", TRANSIENT_FAILURES)
async def test_after_a_failure_that_may_pass_the_same_bytes_are_sent_again(name: str) -> None:
    network = Network(make_task())
    server = network.servers[1]
    server.around = failing(2, TRANSIENT_FAILURES[name])
    seen = bodies_seen(server)
    async with network.client() as client:
        await client.send(ROW)
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert len(server.payloads) == 1


async def test_a_server_that_stays_unreachable_is_named_when_patience_ends() -> None:
    network = Network(make_task())
    network.servers[1].around = failing(10**6, lost_request)
    seen = bodies_seen(network.servers[1])
    async with network.client() as client:
        with pytest.raises(UnavailableError, match=r"server-1\.test: ConnectError"):
            await client.send(ROW)
    assert len(seen) == IMPATIENT.attempts
    assert len(network.servers[0].payloads) == len(network.servers[2].payloads) == 1


async def test_a_server_cannot_mark_a_client_with_a_cookie() -> None:
    network = Network(make_task())
    seen: list[httpx2.Headers] = []

    def around(request: httpx2.Request, answer: Callable[[], httpx2.Response]) -> httpx2.Response:
        seen.append(request.headers)
        response = answer()
        response.headers["set-cookie"] = "who=you; Path=/"
        return response

    network.servers[0].around = around
    async with network.client() as client:
        await client.send(ROW)
        await client.send(ROW)
    assert len(seen) > 3
    assert not any("cookie" in headers for headers in seen)
    assert {headers["accept-encoding"] for headers in seen} == {"identity"}


async def test_a_refusal_for_good_is_not_repeated() -> None:
    network = Network(make_task())
    network.servers[1].around = failing(10**6, lambda answer: problem(BatchClosedError("late")))
    seen = bodies_seen(network.servers[1])
    async with network.client() as client:
        with pytest.raises(BatchClosedError, match="late"):
            await client.send(ROW)
    assert len(seen) == 1


async def test_of_a_block_only_the_reports_that_were_put_off_are_sent_again_sealed_anew_once() -> None:
    network = Network(make_task())
    server = network.servers[0]
    put_off: set[bytes] = set()

    def refuse(known: bytes) -> LintraError | None:
        if len(server.uploads) == 1 and len(put_off) < 3:
            put_off.add(known)
        return OverloadedError() if known in put_off and len(server.uploads) < 3 else None

    server.refuse = refuse
    async with network.client() as client:
        summary = await client.send_many([ROW] * 10)
    assert summary.sent == 10
    first, second, third = (decode_upload(body, network.task, 0) for body in server.uploads)
    assert [len(blocks) for blocks in (first, second, third)] == [1, 1, 1]
    assert set(second[0].report_ids) == put_off < set(first[0].report_ids)
    # What the server took is not in the message any more; and the same subset is the same bytes.
    assert len(second[0].sealed) < len(first[0].sealed)
    assert third == second


# --- outdated keys --------------------------------------------------------------------------------------------


async def test_after_an_outdated_key_the_same_shares_are_sealed_to_the_new_one() -> None:
    network = Network(make_task())
    async with network.client() as client:
        for server in network.servers:
            server.keys = [sealing_key(f"new {server.index}")]
        parcel = client.prepare(ROW, random_bytes=source("client"))
        await client.deliver(parcel)
        await client.send(ROW)
    for server in network.servers:
        assert server.requests.count("GET /v1/keys") == 2
        assert len(server.uploads) == 3
        (first,), (second,) = (decode_upload(body, network.task, server.index) for body in server.uploads[:2])
        assert first.headers == second.headers
        assert first.key_id != second.key_id
        assert parcel.report_ids[0] in server.payloads


async def test_an_outdated_key_for_a_whole_upload_counts_as_one_for_each_report() -> None:
    network = Network(make_task())
    network.servers[0].around = failing(1, lambda answer: problem(OutdatedKeyError()))
    async with network.client() as client:
        assert (await client.send_many([ROW] * 10)).sent == 10
    assert network.servers[0].requests.count("GET /v1/keys") == 2


async def test_a_server_that_calls_its_newest_key_outdated_is_tried_once_more_and_no_further() -> None:
    network = Network(make_task())
    network.servers[0].refuse = lambda known: OutdatedKeyError()
    async with network.client() as client:
        with pytest.raises(OutdatedKeyError):
            await client.send(ROW)
    assert network.servers[0].requests.count("GET /v1/keys") == 2
    assert len(network.servers[0].uploads) == 2


async def test_blocks_under_way_together_fetch_a_new_key_once() -> None:
    network = Network(make_task())
    async with network.client() as client:
        network.servers[2].keys = [sealing_key("new")]
        assert (await client.send_many([ROW] * 1000)).sent == 1000
    # Blocks that were sealed before the first refusal came back need no fetch of their own.
    assert network.servers[2].requests.count("GET /v1/keys") == 2


async def test_a_key_that_expired_is_fetched_again_before_it_is_used() -> None:
    network = Network(make_task())
    clock = [NOW]
    client = Client(
        network.task.task_id, network.urls, ledger=None, retries=IMPATIENT, now=lambda: clock[0], transport=network
    )
    for server in network.servers:
        server.valid_until = NOW + 3600
    async with client:
        clock[0] += 3599
        await client.send(ROW)
        assert network.servers[0].requests.count("GET /v1/keys") == 1
        for server in network.servers:
            server.keys, server.valid_until = [sealing_key("new")], NOW + 7200
        clock[0] += 1
        await client.send(ROW)
    assert network.servers[0].requests.count("GET /v1/keys") == 2
    assert [len(server.uploads) for server in network.servers] == [2, 2, 2]


# --- receipts -------------------------------------------------------------------------------------------------

Change = Callable[[UploadAnswer], UploadAnswer]


def signed_by(name: str, answer: UploadAnswer, **changes: object) -> UploadAnswer:
    receipt = answer.receipt.message.model_copy(update=changes)
    return answer.model_copy(update={"receipt": sign(identity(name), receipt)})


def own(answer: UploadAnswer, **changes: object) -> UploadAnswer:
    return signed_by("server 1", answer, **changes)


def unsigned(answer: UploadAnswer) -> UploadAnswer:
    forged = answer.receipt.model_copy(update={"message": answer.receipt.message.model_copy(update={"count": 2})})
    return answer.model_copy(update={"receipt": forged})


FORGERIES: dict[str, tuple[Change, type[LintraError]]] = {
    "another signer": (lambda answer: signed_by("stranger", answer), UnauthorizedError),
    "another server": (lambda answer: signed_by("server 0", answer), UnauthorizedError),
    "changed after signing": (unsigned, UnauthorizedError),
    "another count": (lambda answer: own(answer, count=0), InvalidMessageError),
    "other reports": (lambda answer: own(answer, reports=receipt_hash([bytes(32)])), InvalidMessageError),
    "another task": (lambda answer: own(answer, task_id="A" * 43), InvalidMessageError),
    "another index": (lambda answer: own(answer, server=0), InvalidMessageError),
}


@pytest.mark.parametrize("name", FORGERIES)
async def test_a_receipt_that_does_not_cover_exactly_this_report_by_this_server_is_refused(name: str) -> None:
    change, error = FORGERIES[name]
    network = Network(make_task())
    server = network.servers[1]
    server.change_answer = change
    async with network.client() as client:
        with pytest.raises(error):
            await client.send(ROW)
        summary = await client.send_many([ROW] * 3)
    assert len(server.uploads) == 2
    assert isinstance(summary.stopped, error)
    assert summary.sent == 0


async def test_a_receipt_that_covers_a_refused_report_is_refused() -> None:
    network = Network(make_task())
    server = network.servers[1]
    refused: list[bytes] = []

    def refuse(known: bytes) -> LintraError | None:
        refused.append(known)
        return BatchClosedError() if len(refused) == 1 else None

    def cover_all(answer: UploadAnswer) -> UploadAnswer:
        receipt = Receipt(task_id=network.task.task_id, server=1, count=3, reports=receipt_hash(refused))
        return answer.model_copy(update={"receipt": sign(server.identity, receipt)})

    server.refuse, server.change_answer = refuse, cover_all
    async with network.client() as client:
        summary = await client.send_many([ROW] * 3)
    assert isinstance(summary.stopped, InvalidMessageError)


async def test_failures_of_unknown_reports_or_out_of_order_are_refused() -> None:
    for change in (
        lambda failures: failures[::-1],
        lambda failures: (*failures, failures[-1]),
        lambda failures: (failures[0].model_copy(update={"report_id": "A" * 43}), failures[1]),
    ):
        network = Network(make_task())
        network.servers[0].refuse = lambda known: BatchClosedError()
        network.servers[0].change_answer = lambda answer, change=change: answer.model_copy(  # type: ignore[misc]
            update={"failures": change(answer.failures)}
        )
        async with network.client() as client:
            summary = await client.send_many([ROW] * 2)
        assert isinstance(summary.stopped, InvalidMessageError)


async def test_an_answer_that_is_no_answer_is_refused_and_not_repeated() -> None:
    network = Network(make_task())
    network.servers[2].around = failing(10**6, lambda answer: reply("upload-answer", b"{}"))
    seen = bodies_seen(network.servers[2])
    async with network.client() as client:
        with pytest.raises(InvalidMessageError):
            await client.send(ROW)
    assert len(seen) == 1
