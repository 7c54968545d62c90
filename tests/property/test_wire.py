"""Every decoder undoes its encoder, and refuses everything else with a refusal and nothing worse."""

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_protocol import messages
from lintra_protocol.canonical import MAX_INTEGER, base64url, canonical_json, parse_base64url, parse_canonical_json
from lintra_protocol.documents import Frozen
from lintra_protocol.errors import LintraError, OutdatedKeyError
from lintra_protocol.messages import Cohort, Inventory, Receipt, Signed, SketchShareRecord, TaskRecord
from lintra_protocol.problems import from_problem
from lintra_protocol.report import open_share
from lintra_protocol.report_ids import ReportIds, decode_positions
from lintra_protocol.sealing import PUBLIC_KEY_BYTES, SealingKey, seal
from lintra_protocol.signing import verify
from lintra_protocol.task import Task
from lintra_protocol.transport import verify_request
from lintra_protocol.wire import (
    Header,
    SealedReport,
    decode_header,
    decode_reports,
    decode_sealed_document,
    encode_reports,
    encode_sealed_document,
    message_bytes,
)
from support import few, identity, make_task, sealing_key

TASK = make_task(columns=1, num_servers=2)
SIZE = message_bytes(TASK, 0)
KEY = sealing_key("server 0")
HYBRID_KEY = sealing_key("server 0", "mlkem768-x25519")

hashes = st.binary(min_size=32, max_size=32)
headers = st.builds(Header, hashes, st.integers(0, 2**64 - 1), st.tuples(hashes, hashes))
scalars = st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
DOCUMENTS: list[type[Frozen]] = [
    Task, messages.KeyList, messages.CohortRequest, messages.AggregateRequest, messages.UploadAnswer, messages.Counters,
    messages.BatchStatus, Signed[TaskRecord], Signed[Receipt], Signed[Inventory], Signed[Cohort],
    Signed[SketchShareRecord],
]  # fmt: skip


def find_key(_: bytes) -> SealingKey:
    raise OutdatedKeyError


DECODERS: dict[str, Callable[[bytes], object]] = {
    "canonical JSON": parse_canonical_json,
    "a header": lambda data: decode_header(data, 2),
    "an upload": lambda data: list(decode_reports(data, TASK, 0)),
    "identifiers": lambda data: ReportIds.parse(data, 3),
    "positions": decode_positions,
    "a sealed document": decode_sealed_document,
    "a sealed report": lambda data: open_share(TASK, 0, SealedReport(data, b"", b""), find_key),
    "a sealed share": lambda data: KEY.open(data, b""),
    "a hybrid sealed share": lambda data: HYBRID_KEY.open(data, b""),
    "a public key": lambda data: seal(b"", "x25519", data, b""),
    "a text": lambda data: parse_base64url(data.decode("latin-1")),
    "a signature": lambda data: verify(base64url(data), base64url(data), "label", data),
    **{document.__name__: document.from_canonical for document in DOCUMENTS},
}


@few
@given(headers)
def test_a_header_survives_the_round_trip(header: Header) -> None:
    assert decode_header(header.encode(), 2) == header


@few
@given(st.lists(st.binary(min_size=SIZE, max_size=SIZE), min_size=1, max_size=4))
def test_an_upload_survives_the_round_trip(reports: list[bytes]) -> None:
    cut = list(decode_reports(len(reports).to_bytes(2, "big") + b"".join(reports), TASK, 0))
    assert [one.header + one.key_id + one.sealed for one in cut] == reports
    assert list(decode_reports(encode_reports(cut), TASK, 0)) == cut


@few
@given(st.binary(max_size=100), st.binary(max_size=100))
def test_a_sealed_document_survives_the_round_trip(document: bytes, sealed: bytes) -> None:
    assert decode_sealed_document(encode_sealed_document(document, sealed)) == (document, sealed)


@few
@given(values)
def test_canonical_json_survives_the_round_trip_and_has_no_second_spelling(value: object) -> None:
    data = canonical_json(value)  # type: ignore[arg-type]
    assert parse_canonical_json(data) == value
    for spelling in (json.dumps(value, indent=1).encode(), json.dumps(value).encode(), data + b" "):
        if spelling != data:
            with pytest.raises(LintraError):
                parse_canonical_json(spelling)


@few
@given(st.binary(max_size=100))
def test_base64url_survives_the_round_trip(data: bytes) -> None:
    assert parse_base64url(base64url(data), len(data)) == data


@few
@given(st.text(alphabet="AB_-=+/ \né", max_size=9))
def test_no_two_texts_decode_to_the_same_bytes(text: str) -> None:
    with contextlib.suppress(LintraError):
        assert base64url(parse_base64url(text)) == text


@pytest.mark.parametrize("name", DECODERS)
@few
@given(data=st.binary(max_size=300))
@pytest.mark.grid(3)
def test_random_bytes_are_refused_and_nothing_worse(name: str, data: bytes) -> None:
    with contextlib.suppress(LintraError):
        DECODERS[name](data)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.__name__)
@few
@given(value=values)
@pytest.mark.grid(3)
def test_random_json_is_refused_and_nothing_worse(document: type[Frozen], value: object) -> None:
    with contextlib.suppress(LintraError):
        document.from_canonical(canonical_json(value))  # type: ignore[arg-type]


@few
@given(st.sampled_from(sorted(TASK.model_dump(mode="json"))), values)
def test_a_task_with_a_random_field_is_refused_or_checked_and_nothing_worse(name: str, value: object) -> None:
    definition = TASK.model_dump(mode="json") | {name: value}
    with contextlib.suppress(LintraError):
        Task.from_canonical(canonical_json(definition)).check()


@few
@given(st.integers(0, 2**16), st.integers(0, 255))
def test_a_task_with_one_byte_changed_is_refused_or_another_task(place: int, byte: int) -> None:
    data = bytearray(TASK.canonical())
    data[place % len(data)] = byte
    with contextlib.suppress(LintraError):
        assert (Task.from_canonical(bytes(data)).task_id == TASK.task_id) == (bytes(data) == TASK.canonical())


@few
@given(st.binary(min_size=PUBLIC_KEY_BYTES["mlkem768-x25519"], max_size=PUBLIC_KEY_BYTES["mlkem768-x25519"]))
def test_a_random_hybrid_key_is_used_or_refused_and_nothing_worse(data: bytes) -> None:
    with contextlib.suppress(LintraError):
        seal(b"", "mlkem768-x25519", data, b"")


@few
@given(
    st.fixed_dictionaries({name: st.text(max_size=99) for name in ("content-digest", "signature-input", "signature")})
)
def test_random_headers_are_refused_and_nothing_worse(given_headers: dict[str, str]) -> None:
    with pytest.raises(LintraError):
        verify_request(identity("analyzer").public_key, "GET", "http://a.example/", given_headers, 0)


@few
@given(st.dictionaries(st.sampled_from(["type", "title", "detail", "status"]), values))
def test_any_problem_document_is_a_refusal(document: dict[str, object]) -> None:
    assert isinstance(from_problem(document), LintraError)
