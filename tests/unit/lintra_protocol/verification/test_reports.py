"""Verified reports from the row to the stored payload: what clients send, what servers open and what they refuse."""

import numpy as np
import pytest

from lintra_client.sending.sealed_reports import encode_apart, encode_together
from lintra_protocol.crypto.ring import from_ring
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.errors import InvalidMessageError, InvalidTaskError, UnsupportedFeatureError
from lintra_protocol.ideal import client_report
from lintra_protocol.report.report import Report, checks_of, make_report, open_block, seal_block, shares_words
from lintra_protocol.report.wire import (
    BLIND_BYTES,
    PROVEN,
    PROVEN_SEED,
    commitments_to,
    encode_header,
    payload_bytes,
    report_id,
    share_form,
)
from lintra_protocol.task import Task
from lintra_protocol.verification.checks import accepted
from lintra_protocol.verification.fields import PRIMES
from lintra_protocol.verification.points import check_points
from support import make_task, source
from support.seeds import sealing_key

ROWS = np.array([[0.1 * number, -0.2, 0.3] for number in range(5)])
POINTS = check_points(bytes(32))


def verified(**changes: object) -> Task:
    return make_task(verification="norm", max_rejected="0.1", **changes)  # type: ignore[arg-type]


def opened(task: Task, server: int, reports: list[Report]) -> list[bytes | Exception]:
    key = sealing_key(f"server {server}")
    block = seal_block(task, server, b"12345678", key.public_bytes, reports)
    return list(open_block(task, server, block, lambda _: key))


@pytest.mark.parametrize("share_form_", ["uniform", "seeded"])
def test_what_a_client_seals_is_opened_adds_up_and_passes(share_form_: str) -> None:
    task = verified(share_form=share_form_)
    parcel = encode_together(task, ROWS, 1, source("client"))
    payloads = [opened(task, server, list(parcel.reports)) for server in range(3)]
    joined = [b"".join(each for each in own if isinstance(each, bytes)) for own in payloads]
    sizes = [payload_bytes(task, server) for server in range(3)]
    assert [len(each) for each in joined] == [5 * size for size in sizes]
    forms = [share_form(task, server) for server in range(3)]
    assert forms == ([PROVEN_SEED, PROVEN_SEED, PROVEN] if share_form_ == "seeded" else [PROVEN] * 3)
    words = combine(np.stack([shares_words(task, server, each) for server, each in enumerate(joined)]))
    np.testing.assert_array_equal(from_ring(words), task.encode(ROWS, source("client")))
    assert task.verified is not None
    checks = [checks_of(task, server, each, POINTS) for server, each in enumerate(joined)]
    assert accepted(task.verified, checks, POINTS).all()
    # However payloads are cut into blocks, each has the same check share.
    halves = [
        checks_of(task, 2, joined[2][: 2 * sizes[2]], POINTS),
        checks_of(task, 2, joined[2][2 * sizes[2] :], POINTS),
    ]
    np.testing.assert_array_equal(np.concatenate(halves), checks[2])


def test_a_row_with_its_own_randomness_gives_the_report_of_the_ideal_protocol() -> None:
    task = verified(share_form="seeded")
    parcel = encode_apart(task, ROWS, 1, [source(f"client {number}") for number in range(5)])
    assert list(parcel.reports) == [
        client_report(task, row, 1, source(f"client {number}")) for number, row in enumerate(ROWS.tolist())
    ]


def reshared(task: Task, report: Report, server: int, share: bytes) -> Report:
    """The report with another share for one server, committed to."""
    shares = [*report.shares[:server], share, *report.shares[server + 1 :]]
    commitments = [
        commitments_to(task.id_bytes, place, np.frombuffer(text, np.uint8)[np.newaxis])[0]
        for place, text in enumerate(shares)
    ]
    header = encode_header(task.id_bytes, 1, commitments)
    return Report(report_id(header), header, tuple(shares))


def test_numbers_out_of_range_are_refused_when_a_share_arrives() -> None:
    task = verified(num_servers=2)
    assert task.verified is not None
    honest = make_report(task, task.encode(ROWS[:1], source("row"))[0], 1, source("report"))
    head, words = BLIND_BYTES + 1, task.verified.words_bytes
    large = (1 << task.verified.word_bits).to_bytes(10, "little")
    for server in range(2):
        text = honest.shares[server]
        prime = text[: head + words] + PRIMES[0].to_bytes(8, "little") + text[head + words + 8 :]
        (found,) = opened(task, server, [reshared(task, honest, server, prime)])
        assert isinstance(found, InvalidMessageError)
        assert "out of range" in found.detail
        long = text[:head] + large + text[head + 10 :]
        (found,) = opened(task, server, [reshared(task, honest, server, long)])
        # The last server's words fill what the others leave, up to 80 bits.
        assert isinstance(found, InvalidMessageError) == (server == 0)
    assert opened(task, 0, [honest]) == [honest.shares[0][head:]]


def test_a_share_without_proof_is_refused_in_a_verified_task() -> None:
    task = verified(num_servers=2)
    honest = make_report(task, task.encode(ROWS[:1], source("row"))[0], 1, source("report"))
    text = honest.shares[0]
    bare = reshared(task, honest, 0, text[:BLIND_BYTES] + b"\x00" + text[BLIND_BYTES + 1 :])
    (found,) = opened(task, 0, [bare])
    assert isinstance(found, InvalidMessageError)


@pytest.mark.parametrize("kind", ["ron_gauss", pytest.param("second_moment_wishart", marks=pytest.mark.slow)])
def test_a_mechanism_whose_reports_nothing_bounds_cannot_be_verified(kind: str) -> None:
    task = make_task(kind, min_clients=300)
    with pytest.raises(InvalidTaskError, match=f"reports of {kind} with these options have no proven bound"):
        task.model_copy(update={"verification": "norm", "max_rejected": "0.1"}).check()


def test_what_this_version_does_not_verify_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="'spread' is not available for verified reports"):
        verified(share_form="spread")
    with pytest.raises(ValueError, match="belongs to a task with verification"):
        make_task(max_rejected="0.1")
    with pytest.raises(ValueError, match="belongs to a task with verification"):
        make_task(verification="norm")
    with pytest.raises(ValueError, match="max_rejected lies in"):
        make_task(verification="norm", max_rejected="1")


def test_a_report_too_long_for_62_bits_is_refused() -> None:
    task = verified()
    coarse = task.model_copy(update={"mechanism": task.mechanism.model_copy(update={"sigma": 2**29 - 1})})
    with pytest.raises(InvalidTaskError, match=r"below 2\^62"):
        coarse.check()


def test_nothing_is_shown_of_what_is_proven() -> None:
    task = verified(num_servers=2)
    report = make_report(task, task.encode(ROWS[:1], source("row"))[0], 1, source("report"))
    assert repr(report) == f"Report(report_id={report.report_id!r})"
