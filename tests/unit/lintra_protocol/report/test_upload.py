"""Uploads: blocks of sealed reports, and what is refused of them."""

from collections.abc import Sequence

import numpy as np
import pytest

from lintra_protocol.crypto.sealing import HYBRID, SuiteName
from lintra_protocol.encoding.canonical import domain_hash
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.report.report import Report, make_reports, seal_block
from lintra_protocol.report.upload import (
    MAX_BLOCK_BYTES,
    MAX_REPORTS,
    SealedBlock,
    block_bytes,
    block_capacity,
    decode_upload,
    encode_upload,
    upload_bytes,
)
from lintra_protocol.report.wire import encode_header
from lintra_protocol.task import Task
from support import make_task, sealing_key, source

TASK = make_task()
TOKENS = make_task(client_auth="token", token_keys=("A" * 43,) * 3, check=False)
PLAIN = 57
"""Bytes of a share of `TASK`."""


def header(number: int) -> bytes:
    return encode_header(TASK.id_bytes, number, [domain_hash("test", bytes([number % 256, j])) for j in range(3)])


def block(count: int = 1, passes: Sequence[bytes] = ()) -> SealedBlock:
    sealed = bytes(count * PLAIN + 48)
    return SealedBlock(tuple(header(number) for number in range(count)), b"12345678", sealed, tuple(passes))


def test_ten_columns_in_blocks_of_256_to_three_servers_take_222_bytes_a_report() -> None:
    task = make_task("osnap", columns=10, suite=HYBRID, check=False)
    assert task.num_words == 10
    assert round(upload_bytes(task, 0, 1, MAX_REPORTS) / MAX_REPORTS) == 222


def test_an_upload_is_cut_into_its_blocks() -> None:
    blocks = [block(3), block(), block(2)]
    data = encode_upload(blocks)
    assert data[:4] == b"\x00\x03\x00\x03"
    assert decode_upload(data, TASK, 0) == blocks


def test_with_tokens_all_passes_come_before_the_first_block() -> None:
    blocks = [block(2, [b"a" * 32, b"b" * 32]), block(1, [b"c" * 32])]
    data = encode_upload(blocks)
    assert data[:98] == b"\x00\x03" + b"a" * 32 + b"b" * 32 + b"c" * 32
    assert data[98:] == encode_upload([block(2), block(1)])
    cut = decode_upload(data, TOKENS, 0)
    assert [each.passes for each in cut] == [each.passes for each in blocks]


def test_an_upload_is_checked_before_the_first_block_is_taken() -> None:
    data = encode_upload([block(2), block()])
    for wrong in (data[:-1], data + b"\0", data[:1], data[:4], data[: len(data) // 2]):
        with pytest.raises(InvalidMessageError):
            decode_upload(wrong, TASK, 0)


def test_an_upload_has_one_to_256_reports_in_however_many_blocks() -> None:
    whole, one = block(MAX_REPORTS), block()
    for blocks in ([], [whole, one], [one] * (MAX_REPORTS + 1)):
        with pytest.raises(ValueError, match="1 to 256"):
            encode_upload(blocks)
    assert decode_upload(encode_upload([one] * MAX_REPORTS), TASK, 0) == [one] * MAX_REPORTS
    for data in (b"\0\0", b"\1\1" + encode_upload([one])[2:] * 257, b"\0\2" + encode_upload([whole])[2:] * 2):
        with pytest.raises(InvalidMessageError, match="256"):
            decode_upload(data, TASK, 0)


def test_a_block_has_at_most_a_mebibyte_of_shares_or_one() -> None:
    assert block_capacity(TASK, 0) == MAX_REPORTS
    products = make_task("second_moment", check=False)
    wide, widest = (task.model_copy(update={"columns": TASK.columns[:1] * 600}) for task in (TASK, products))
    assert 8 * widest.num_words > MAX_BLOCK_BYTES
    assert block_capacity(wide, 0) == MAX_BLOCK_BYTES // (33 + 8 * 600) == 216
    assert block_capacity(widest, 0) == 1
    data = b"\0\1" + (217).to_bytes(2, "big") + bytes(block_bytes(wide, 0, 217) - 2)
    with pytest.raises(InvalidMessageError, match="1 to 216, not 217"):
        decode_upload(data, wide, 0)
    right = b"\0\1" + (216).to_bytes(2, "big") + bytes(block_bytes(wide, 0, 216) - 2)
    assert len(decode_upload(right, wide, 0)[0].headers) == 216


ROW = np.array([5, -7, 2**40])
ROWS = np.stack([ROW, -ROW, 2 * ROW, 0 * ROW])
KEY_ID = b"12345678"


def made(task: Task) -> list[Report]:
    return make_reports(task, ROWS, 12, source("report"))


def sealed(task: Task, server: int, reports: Sequence[Report] | None = None) -> SealedBlock:
    key = sealing_key(f"server {server}", task.suite)
    return seal_block(task, server, KEY_ID, key.public_bytes, reports or made(task))


@pytest.mark.parametrize("share_form", ["uniform", "seeded", "spread"])
@pytest.mark.parametrize("suite", ["x25519", HYBRID])
def test_every_block_of_so_many_reports_has_the_same_length(share_form: str, suite: SuiteName) -> None:
    task = make_task(share_form=share_form, suite=suite)
    for server in range(3):
        for count in (1, 2, 4):
            upload = encode_upload([sealed(task, server, made(task)[:count])])
            assert len(upload) == 2 + block_bytes(task, server, count)
