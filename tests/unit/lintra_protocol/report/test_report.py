"""Making reports, sealing them in blocks and opening these."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lintra_protocol.crypto.ring import from_ring, ring_bytes, to_ring
from lintra_protocol.crypto.sealing import HYBRID, SealingKey, SuiteName, seal
from lintra_protocol.crypto.sharing import combine, split
from lintra_protocol.errors import (
    CommitmentMismatchError,
    DecryptFailedError,
    InvalidMessageError,
    LintraError,
    OutdatedKeyError,
)
from lintra_protocol.report.report import (
    Report,
    make_report,
    make_reports,
    open_block,
    reports_of,
    seal_block,
    share_words,
)
from lintra_protocol.report.upload import SealedBlock
from lintra_protocol.report.wire import BLIND_BYTES, block_context, commitments_to, encode_header, report_id
from lintra_protocol.task import Task
from support import make_task, sealing_key, source

ROW = np.array([5, -7, 2**40])
ROWS = np.stack([ROW, -ROW, 2 * ROW, 0 * ROW])
KEY_ID = b"12345678"


def made(task: Task) -> list[Report]:
    return make_reports(task, ROWS, 12, source("report"))


def sealed(task: Task, server: int, reports: Sequence[Report] | None = None) -> SealedBlock:
    key = sealing_key(f"server {server}", task.suite)
    return seal_block(task, server, KEY_ID, key.public_bytes, reports or made(task))


def keys(server: int, suite: SuiteName = "x25519") -> Callable[[bytes], SealingKey]:
    def find_key(key_id: bytes) -> SealingKey:
        if key_id != KEY_ID:
            raise OutdatedKeyError
        return sealing_key(f"server {server}", suite)

    return find_key


def opened(task: Task, server: int, block: SealedBlock) -> list[bytes | LintraError]:
    return open_block(task, server, block, keys(server, task.suite))


@pytest.mark.parametrize("share_form", ["uniform", "seeded", "spread"])
@pytest.mark.parametrize("suite", ["x25519", HYBRID])
@pytest.mark.parametrize("count", [1, 4])
def test_what_all_servers_open_sums_to_the_rows(share_form: str, suite: SuiteName, count: int) -> None:
    task = make_task(share_form=share_form, suite=suite)
    reports = made(task)[:count]
    words = []
    for server in range(3):
        block = sealed(task, server, reports)
        assert list(block.report_ids) == [report.report_id for report in reports]
        assert block.times == [12] * count
        payloads = opened(task, server, block)
        words.append([share_words(task, server, each) for each in payloads if isinstance(each, bytes)])
    assert_array_equal(from_ring(combine(np.array(words))), ROWS[:count])


@pytest.mark.parametrize("share_form", ["uniform", "seeded", "spread"])
def test_one_report_reads_its_randomness_like_the_first_of_many_reads_shares_before_blinds(share_form: str) -> None:
    task = make_task(share_form=share_form)
    assert [make_report(task, ROW, 12, source("report"))] == make_reports(task, ROWS[:1], 12, source("report"))
    read: list[int] = []

    def counted(count: int) -> bytes:
        read.append(count)
        return source("report")(count)

    make_report(task, ROW, 12, counted)
    assert sum(read[:-1]) == {"uniform": 8 * 3 * 2, "seeded": 32 * 2, "spread": 32 * 3}[share_form]
    assert read[-1] == 32 * 3


def test_one_report_is_that_which_arrays_of_one_row_make() -> None:
    task = make_task()
    random_bytes = source("report")
    payloads = [np.frombuffer(ring_bytes(each), np.uint8)[np.newaxis] for each in split(to_ring(ROW), 3, random_bytes)]
    assert [make_report(task, ROW, 12, source("report"))] == reports_of(task, payloads, 12, random_bytes)


def test_the_same_randomness_gives_the_same_reports_and_other_randomness_others() -> None:
    task = make_task()
    assert made(task) == made(task)
    ids = {report.report_id for report in (*made(task), *make_reports(task, ROWS, 12, source("other")))}
    assert len(ids) == 8


def test_the_time_is_part_of_the_identifier() -> None:
    task = make_task()
    reports = make_report(task, ROW, 12, source("report")), make_report(task, ROW, 13, source("report"))
    assert reports[0].report_id != reports[1].report_id
    assert [report_id(report.header) for report in reports] == [report.report_id for report in reports]


def test_a_report_shows_its_identifier_only() -> None:
    report = made(make_task())[0]
    assert repr(report) == f"Report(report_id={report.report_id!r})"
    block = sealed(make_task(), 0)
    assert "sealed=" not in repr(block)
    assert "passes=" not in repr(block)


def test_a_block_opens_at_its_own_server_only() -> None:
    task = make_task()
    for sealed_for, opened_by, key in ((0, 1, 0), (0, 1, 1), (0, 0, 1)):
        with pytest.raises(DecryptFailedError):
            open_block(task, opened_by, sealed(task, sealed_for), keys(key))


CHANGES: dict[str, Callable[[SealedBlock], SealedBlock]] = {
    "a report less": lambda block: replace(block, headers=block.headers[1:]),
    "a report more": lambda block: replace(block, headers=(*block.headers, block.headers[0])),
    "reports in another order": lambda block: replace(block, headers=block.headers[::-1]),
    "another header": lambda block: replace(block, headers=(*block.headers[:3], _another(block.headers[3]))),
    "a changed seal": lambda block: replace(block, sealed=block.sealed[:-1] + bytes([block.sealed[-1] ^ 1])),
}  # fmt: skip


def _another(header: bytes) -> bytes:
    return header[:42] + bytes([header[42] ^ 1]) + header[43:]


@pytest.mark.parametrize("change", CHANGES)
def test_a_block_opens_whole_and_unchanged_or_not_at_all(change: str) -> None:
    task = make_task()
    with pytest.raises(DecryptFailedError):
        opened(task, 0, CHANGES[change](sealed(task, 0)))


def test_a_block_of_another_task_is_refused_before_it_is_opened() -> None:
    with pytest.raises(InvalidMessageError, match="another task"):
        opened(make_task(purpose="another"), 0, sealed(make_task(), 0))


def test_a_key_that_is_gone_is_told_apart_from_a_broken_seal() -> None:
    task = make_task()
    with pytest.raises(OutdatedKeyError):
        opened(task, 0, replace(sealed(task, 0), key_id=bytes(8)))


def test_the_name_of_the_key_is_sealed_too() -> None:
    task = make_task()
    renamed = replace(sealed(task, 0), key_id=b"another!")
    with pytest.raises(DecryptFailedError):
        open_block(task, 0, renamed, lambda _: sealing_key("server 0"))


def _resealed(task: Task, headers: Sequence[bytes], shares: bytes) -> SealedBlock:
    public = sealing_key("server 0").public_bytes
    info = block_context(task.id_bytes, 0, KEY_ID, headers)
    return SealedBlock(tuple(headers), KEY_ID, seal(shares, task.suite, public, info))


def test_a_share_that_was_not_committed_to_is_refused_and_the_others_are_not() -> None:
    task = make_task()
    reports = made(task)
    shares = [report.shares[0] for report in reports]
    payloads = [share[33:] for share in shares]
    for place, wrong in enumerate((bytes(57), shares[2], reports[2].shares[1], shares[3][:-1] + b"\xff")):
        changed = b"".join((*shares[:place], wrong, *shares[place + 1 :]))
        found = opened(task, 0, _resealed(task, [report.header for report in reports], changed))
        assert isinstance(found[place], CommitmentMismatchError)
        assert found[:place] + found[place + 1 :] == payloads[:place] + payloads[place + 1 :]


@pytest.mark.parametrize("size", [0, 56, 58, 4 * 57 - 1, 4 * 57 + 8])
def test_shares_of_another_length_are_refused_though_they_open(size: int) -> None:
    task = make_task()
    with pytest.raises(InvalidMessageError, match="4 shares of this task take 57 bytes each"):
        opened(task, 0, _resealed(task, [report.header for report in made(task)], bytes(size)))


def test_a_share_of_another_form_is_refused_though_it_was_committed_to() -> None:
    task = make_task()
    first, second = made(task)[:2]
    share = first.shares[0][:BLIND_BYTES] + b"\x01" + first.shares[0][BLIND_BYTES + 1 :]
    (commitment,) = commitments_to(task.id_bytes, 0, np.frombuffer(share, np.uint8)[np.newaxis])
    header = encode_header(task.id_bytes, 12, [commitment, bytes(32), bytes(32)])
    found = opened(task, 0, _resealed(task, [header, second.header], share + second.shares[0]))
    assert isinstance(found[0], InvalidMessageError)
    assert "shares are uniform" in found[0].detail
    assert found[1] == second.shares[0][33:]


def test_equal_rows_have_different_commitments_at_every_server() -> None:
    task = make_task()
    block = sealed(task, 0, make_reports(task, np.stack([ROW, ROW]), 12, source("report")))
    found = {each for server in range(3) for each in block.commitments(server)}
    assert len(found) == 6
