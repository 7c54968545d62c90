"""Making and opening reports."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.errors import CommitmentMismatchError, DecryptFailedError, InvalidMessageError, OutdatedKeyError
from lintra_protocol.report import Report, make_report, open_share, share_words
from lintra_protocol.ring import from_ring
from lintra_protocol.sealing import HYBRID, SealingKey, SuiteName, seal
from lintra_protocol.sharing import combine
from lintra_protocol.task import Task
from lintra_protocol.wire import BLIND_BYTES, SealedReport, commitment, decode_header, message_bytes, share_context
from support import make_task, sealing_key, source

ROW = np.array([5, -7, 2**40])
KEY_ID = b"12345678"


def made(task: Task) -> Report:
    return make_report(task, ROW, 12, source("report"))


def sealed(task: Task, server: int, report: Report | None = None) -> SealedReport:
    key = sealing_key(f"server {server}", task.suite)
    return (report or made(task)).sealed_to(server, task.suite, KEY_ID, key.public_bytes, task.id_bytes)


def keys(server: int, suite: SuiteName = "x25519") -> Callable[[bytes], SealingKey]:
    def find_key(key_id: bytes) -> SealingKey:
        if key_id != KEY_ID:
            raise OutdatedKeyError
        return sealing_key(f"server {server}", suite)

    return find_key


@pytest.mark.parametrize("share_form", ["uniform", "seeded"])
@pytest.mark.parametrize("suite", ["x25519", HYBRID])
def test_what_all_servers_open_sums_to_the_row(share_form: str, suite: SuiteName) -> None:
    task = make_task(share_form=share_form, suite=suite)
    report = made(task)
    words = []
    for server in range(3):
        report_id, time, payload = open_share(task, server, sealed(task, server, report), keys(server, suite))
        assert (report_id, time) == (report.report_id, 12)
        words.append(share_words(task, server, payload))
    assert_array_equal(from_ring(combine(np.stack(words))), ROW)


@pytest.mark.parametrize("share_form", ["uniform", "seeded"])
@pytest.mark.parametrize("suite", ["x25519", HYBRID])
def test_every_message_to_a_server_has_the_same_length(share_form: str, suite: SuiteName) -> None:
    task = make_task(share_form=share_form, suite=suite)
    for server in range(3):
        message = sealed(task, server)
        assert len(message.header + message.key_id + message.sealed) == message_bytes(task, server)


def test_the_same_randomness_gives_the_same_report_and_other_randomness_another() -> None:
    task = make_task()
    assert made(task) == made(task)
    assert made(task).report_id != make_report(task, ROW, 12, source("other")).report_id


def test_the_time_is_part_of_the_identifier() -> None:
    task = make_task()
    assert made(task).report_id != make_report(task, ROW, 13, source("report")).report_id


def test_a_report_shows_its_identifier_only() -> None:
    report = made(make_task())
    assert repr(report) == f"Report(report_id={report.report_id!r})"
    assert "sealed=" not in repr(sealed(make_task(), 0))


def test_a_share_opens_at_its_own_server_only() -> None:
    task = make_task()
    with pytest.raises(DecryptFailedError):
        open_share(task, 1, sealed(task, 0), keys(0))
    with pytest.raises(DecryptFailedError):
        open_share(task, 0, sealed(task, 0), keys(1))


def test_a_share_does_not_open_beside_another_header() -> None:
    task = make_task()
    other = make_report(task, ROW, 13, source("report"))
    with pytest.raises(DecryptFailedError):
        open_share(task, 0, dataclasses.replace(sealed(task, 0), header=other.header), keys(0))


def test_a_report_of_another_task_is_refused_before_it_is_opened() -> None:
    with pytest.raises(InvalidMessageError, match="another task"):
        open_share(make_task(purpose="another"), 0, sealed(make_task(), 0), keys(0))


def test_a_key_that_is_gone_is_told_apart_from_a_broken_seal() -> None:
    task = make_task()
    with pytest.raises(OutdatedKeyError):
        open_share(task, 0, dataclasses.replace(sealed(task, 0), key_id=bytes(8)), keys(0))


def _resealed(task: Task, header: bytes, share: bytes) -> SealedReport:
    public = sealing_key("server 0").public_bytes
    return SealedReport(header, KEY_ID, seal(share, task.suite, public, share_context(task.id_bytes, 0, header)))


@pytest.mark.parametrize("share", [b"", bytes(32), bytes(33), bytes(57), bytes(1000)])
def test_a_share_that_was_not_committed_to_is_refused(share: bytes) -> None:
    task = make_task()
    with pytest.raises(CommitmentMismatchError):
        open_share(task, 0, _resealed(task, made(task).header, share), keys(0))


@pytest.mark.parametrize("change", ["form", "shorter", "longer", "empty"])
def test_a_share_of_another_form_or_length_is_refused_even_if_it_was_committed_to(change: str) -> None:
    task = make_task()
    share = made(task).shares[0]
    share = {
        "form": share[:BLIND_BYTES] + b"\x01" + share[BLIND_BYTES + 1 :],
        "shorter": share[:-8],
        "longer": share + bytes(8),
        "empty": b"",
    }[change]
    header = decode_header(made(task).header, 3)
    commitments = (commitment(task.id_bytes, 0, share), *header.commitments[1:])
    with pytest.raises(InvalidMessageError, match="shares are uniform"):
        open_share(
            task, 0, _resealed(task, dataclasses.replace(header, commitments=commitments).encode(), share), keys(0)
        )


def test_equal_rows_have_different_commitments_at_every_server() -> None:
    task = make_task()
    first = decode_header(made(task).header, 3).commitments
    second = decode_header(make_report(task, ROW, 12, source("again")).header, 3).commitments
    assert len({*first, *second}) == 6
