"""Binary formats."""

from collections.abc import Sequence

import numpy as np
import pytest

from lintra_protocol.crypto.sealing import HYBRID
from lintra_protocol.encoding.canonical import domain_hash, domain_hash_of_all, domain_hashes
from lintra_protocol.report.upload import SealedBlock, block_bytes, decode_upload, encode_upload, upload_bytes
from lintra_protocol.report.wire import (
    block_context,
    commitments_to,
    encode_header,
    header_bytes,
    report_id,
    report_ids_of,
)
from support import make_task

TASK = make_task()
HEADER = encode_header(TASK.id_bytes, 7, (bytes(32), b"\x01" * 32, b"\x02" * 32))
PLAIN = 57
"""Bytes of a share of `TASK`."""


def header(number: int) -> bytes:
    return encode_header(TASK.id_bytes, number, [domain_hash("test", bytes([number % 256, j])) for j in range(3)])


def block(count: int = 1, passes: Sequence[bytes] = ()) -> SealedBlock:
    sealed = bytes(count * PLAIN + 48)
    return SealedBlock(tuple(header(number) for number in range(count)), b"12345678", sealed, tuple(passes))


def test_the_documented_sizes() -> None:
    assert header_bytes(3) == 3 + 32 + 8 + 1 + 3 * 32 + 2 == len(HEADER)
    fixed, each = 2 + 8 + 3 + 32, 8 + 3 * 32
    assert PLAIN == 32 + 1 + 8 * 3
    for count in (1, 2, 256):
        assert block_bytes(TASK, 0, count) == fixed + count * (each + PLAIN) + 48
    assert block_bytes(make_task(suite=HYBRID), 0, 1) == fixed + each + PLAIN + 1136
    seeded = make_task(share_form="seeded")
    assert [block_bytes(seeded, server, 1) for server in range(3)] == [fixed + each + 33 + 48 + n for n in (32, 32, 24)]
    spread = make_task(share_form="spread")
    assert [block_bytes(spread, server, 1) for server in range(3)] == [fixed + each + 33 + 48 + 40] * 3
    assert upload_bytes(TASK, 0, 3, 2) == len(encode_upload([block(2)] * 3))


@pytest.mark.parametrize("count", [7, 8, 9, 255])
def test_headers_cut_as_one_array_are_those_that_were_joined_one_by_one(count: int) -> None:
    whole = block(count)
    (cut,) = decode_upload(encode_upload([whole]), TASK, 0)
    assert cut.headers == whole.headers
    assert cut.times == list(range(count))
    assert list(cut.report_ids) == [report_id(each) for each in whole.headers]


def test_hashes_of_rows_are_the_hash_of_each() -> None:
    for count in (1, 2, 5):
        rows = np.arange(7 * count, dtype=np.uint8).reshape(count, 7)
        expected = [domain_hash("test", b"same", rows[k, :3].tobytes(), b"", rows[k].tobytes()) for k in range(count)]
        assert domain_hashes("test", b"same", rows[:, :3], b"", rows) == expected
    for parts in ([], [b""], [b"ab", b"cd"], [b"ab", b"c"], [bytes(32)] * 256):
        assert domain_hash_of_all("test", parts) == domain_hash("test", *parts)
    headers = [header(number) for number in range(5)]
    assert list(report_ids_of(headers)) == [report_id(each) for each in headers]


def test_a_commitment_depends_on_everything_in_it() -> None:
    share = np.arange(60, dtype=np.uint8)
    changed = [share.copy() for _ in range(4)]
    for at, each in zip((0, 32, 33, 59), changed, strict=True):
        each[at] ^= 255
    (base,) = commitments_to(bytes(32), 0, share[np.newaxis])
    assert base == domain_hash("share", bytes(32), b"\0\0", share[:32].tobytes(), b"\x20", share[33:].tobytes())
    others = commitments_to(bytes(32), 0, np.stack(changed))
    others += commitments_to(b"\x01" * 32, 0, share[np.newaxis]) + commitments_to(bytes(32), 1, share[np.newaxis])
    assert len({base, *others}) == 7


def test_a_context_depends_on_task_server_key_and_every_header_in_its_place() -> None:
    first, second = header(1), header(2)
    contexts = {
        block_context(bytes(32), 0, bytes(8), [first, second]),
        block_context(b"\x01" * 32, 0, bytes(8), [first, second]),
        block_context(bytes(32), 1, bytes(8), [first, second]),
        block_context(bytes(32), 0, b"\x01" * 8, [first, second]),
        block_context(bytes(32), 0, bytes(8), [second, first]),
        block_context(bytes(32), 0, bytes(8), [first]),
        block_context(bytes(32), 0, bytes(8), [first, first]),
    }
    assert len(contexts) == 7


def test_the_number_of_reports_is_part_of_a_context_beside_their_headers() -> None:
    joined = header(1) + header(2)
    assert block_context(bytes(32), 0, bytes(8), [joined]) != block_context(
        bytes(32), 0, bytes(8), [header(1), header(2)]
    )
