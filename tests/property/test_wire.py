"""Every decoder undoes its encoder, and refuses everything else with a refusal and nothing worse."""

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lintra_protocol.cohort.report_ids import ReportIds, decode_positions
from lintra_protocol.crypto.sealing import PUBLIC_KEY_BYTES, SealingKey, seal
from lintra_protocol.crypto.signing import verify
from lintra_protocol.encoding.canonical import (
    MAX_INTEGER,
    base64url,
    canonical_json,
    parse_base64url,
    parse_canonical_json,
)
from lintra_protocol.encoding.documents import Frozen
from lintra_protocol.errors import LintraError, OutdatedKeyError
from lintra_protocol.http.problems import from_problem
from lintra_protocol.http.requests import verify_request
from lintra_protocol.messages import documents as messages
from lintra_protocol.messages.documents import Cohort, Inventory, Receipt, Signed, SketchShareRecord, TaskRecord
from lintra_protocol.report.report import open_block
from lintra_protocol.report.upload import SealedBlock, block_bytes, decode_upload, encode_upload
from lintra_protocol.report.wire import decode_sealed_document, encode_header, encode_sealed_document
from lintra_protocol.task import Task
from support import few, identity, make_task, sealing_key

TASK = make_task(columns=1, num_servers=2)
KEY = sealing_key("server 0")
HEADER = encode_header(TASK.id_bytes, 1, [bytes(32), bytes(32)])
HYBRID_KEY = sealing_key("server 0", "mlkem768-x25519")

hashes = st.binary(min_size=32, max_size=32)
headers = st.builds(encode_header, st.just(TASK.id_bytes), st.integers(0, 2**64 - 1), st.tuples(hashes, hashes))
block_bodies = st.integers(1, 3).flatmap(lambda count: st.binary(
    min_size=block_bytes(TASK, 0, count) - 2, max_size=block_bytes(TASK, 0, count) - 2
).map(lambda rest: count.to_bytes(2, "big") + rest))  # fmt: skip
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
    "an upload": lambda data: decode_upload(data, TASK, 0),
    "identifiers": lambda data: ReportIds.parse(data, 3),
    "positions": decode_positions,
    "a sealed document": decode_sealed_document,
    "a header": lambda data: open_block(TASK, 0, SealedBlock((data,), b"", b""), find_key),
    "a sealed block": lambda data: open_block(TASK, 0, SealedBlock((HEADER,), b"", data), lambda _: KEY),
    "a sealed share": lambda data: KEY.open(data, b""),
    "a hybrid sealed share": lambda data: HYBRID_KEY.open(data, b""),
    "a public key": lambda data: seal(b"", "x25519", data, b""),
    "a text": lambda data: parse_base64url(data.decode("latin-1")),
    "a signature": lambda data: verify(base64url(data), base64url(data), "label", data),
    **{document.__name__: document.from_canonical for document in DOCUMENTS},
}


@few
@given(st.lists(headers, min_size=1, max_size=5))
def test_headers_survive_a_block(given_headers: list[bytes]) -> None:
    sealed = bytes(block_bytes(TASK, 0, len(given_headers)) - 45 - (8 + 64) * len(given_headers))
    block = SealedBlock(tuple(given_headers), bytes(8), sealed)
    assert decode_upload(encode_upload([block]), TASK, 0) == [block]


@few
@given(st.lists(block_bodies, min_size=1, max_size=4))
def test_an_upload_survives_the_round_trip(blocks: list[bytes]) -> None:
    data = len(blocks).to_bytes(2, "big") + b"".join(blocks)
    cut = decode_upload(data, TASK, 0)
    assert [len(block.headers) for block in cut] == [block[1] for block in blocks]
    assert encode_upload(cut) == data


@few
@given(st.binary(max_size=100), st.binary(max_size=100))
@example(bytes(70_000), b"")
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
@pytest.mark.slow
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
@pytest.mark.slow
def test_any_problem_document_is_a_refusal(document: dict[str, object]) -> None:
    assert isinstance(from_problem(document), LintraError)
