"""Binary formats."""

import pytest

from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.sealing import HYBRID
from lintra_protocol.wire import (
    MAX_REPORTS,
    Header,
    SealedReport,
    commitment,
    decode_header,
    decode_reports,
    decode_sealed_document,
    encode_reports,
    encode_sealed_document,
    header_bytes,
    message_bytes,
    share_context,
)
from support import make_task

TASK = make_task()
HEADER = Header(TASK.id_bytes, 7, (bytes(32), b"\x01" * 32, b"\x02" * 32))


def report(size: int | None = None) -> SealedReport:
    sealed = message_bytes(TASK, 0) - header_bytes(3) - 8 if size is None else size
    return SealedReport(HEADER.encode(), b"12345678", bytes(sealed))


def test_the_documented_sizes() -> None:
    assert header_bytes(3) == 3 + 32 + 8 + 1 + 3 * 32 + 2 == len(HEADER.encode())
    plaintext = 32 + 1 + 8 * 3
    assert message_bytes(TASK, 0) == header_bytes(3) + 8 + plaintext + 48
    assert message_bytes(make_task(suite=HYBRID), 0) == header_bytes(3) + 8 + plaintext + 1136
    seeded = make_task(share_form="seeded")
    assert [message_bytes(seeded, server) for server in range(3)] == [
        header_bytes(3) + 8 + 33 + 48 + n for n in (32, 32, 24)
    ]


def test_a_header_survives_the_round_trip() -> None:
    assert decode_header(HEADER.encode(), 3) == HEADER


def test_an_upload_is_cut_into_its_reports() -> None:
    reports = [report() for _ in range(5)]
    data = encode_reports(reports)
    assert data[:2] == b"\x00\x05"
    assert list(decode_reports(data, TASK, 0)) == reports


def test_an_upload_is_checked_before_the_first_report_is_taken() -> None:
    with pytest.raises(InvalidMessageError, match="2 reports of this task take"):
        decode_reports(encode_reports([report(), report()])[:-1], TASK, 0)


@pytest.mark.parametrize("count", [0, MAX_REPORTS + 1])
def test_an_upload_has_one_to_256_reports(count: int) -> None:
    with pytest.raises(ValueError, match="1 to 256"):
        encode_reports([report()] * count)
    with pytest.raises(InvalidMessageError, match="1 to 256"):
        decode_reports(count.to_bytes(2, "big") + bytes(count * message_bytes(TASK, 0)), TASK, 0)


def test_a_commitment_depends_on_everything_in_it() -> None:
    share = bytes(range(60))
    base = commitment(bytes(32), 0, share)
    others = [commitment(b"\x01" * 32, 0, share), commitment(bytes(32), 1, share)]
    others += [commitment(bytes(32), 0, share[:at] + b"\xff" + share[at + 1 :]) for at in (0, 32, 33, 59)]
    assert len({base, *others}) == 7


def test_a_context_depends_on_task_server_and_header() -> None:
    contexts = {
        share_context(bytes(32), 0, b"h"),
        share_context(b"\x01" * 32, 0, b"h"),
        share_context(bytes(32), 1, b"h"),
    }
    assert len(contexts | {share_context(bytes(32), 0, b"i")}) == 4


def test_a_sealed_document_survives_the_round_trip() -> None:
    for document, sealed in ((b"", b""), (b"{}", b"sealed"), (bytes(70_000), b"")):
        assert decode_sealed_document(encode_sealed_document(document, sealed)) == (document, sealed)
