"""The one document that every party holds."""

import numpy as np
import pytest
from pydantic import ValidationError

from lintra_protocol.crypto.sealing import HYBRID
from lintra_protocol.encoding.canonical import base64url, domain_hash
from lintra_protocol.errors import (
    FalseClaimError,
    InvalidMessageError,
    InvalidTaskError,
    LintraError,
    RowUnderfilledError,
    UnsupportedFeatureError,
)
from lintra_protocol.task import Task
from lintra_protocol.task_terms import MAX_WORDS
from support import columns_of, make_task, source, uncalibrated
from support.measured import measurement_of

TASK = make_task()


def test_a_task_is_named_by_the_hash_of_its_definition() -> None:
    assert TASK.id_bytes == domain_hash("task", TASK.canonical())
    assert TASK.task_id == base64url(TASK.id_bytes)
    assert Task.from_canonical(TASK.canonical()).task_id == TASK.task_id


@pytest.mark.parametrize(
    "change", [{"purpose": "another"}, {"salt": base64url(bytes(32))}, {"retention": 1}, {"max_clients": 999}]
)
def test_any_change_makes_another_task(change: dict[str, object]) -> None:
    assert make_task(**change).task_id != TASK.task_id  # type: ignore[arg-type]


def test_a_definition_with_a_default_left_out_is_not_another_spelling_of_the_task() -> None:
    data = TASK.canonical().replace(b'"extensions":[],', b"")
    with pytest.raises(InvalidMessageError, match="defaults are written in full"):
        Task.from_canonical(data)


@pytest.mark.parametrize("kind", ["sum", "osnap", "second_moment"])
@pytest.mark.parametrize("suite", ["x25519", HYBRID])
def test_a_task_of_any_kind_passes_its_own_check(kind: str, suite: str) -> None:
    make_task(kind, suite=suite).check()  # type: ignore[arg-type]


def test_sizes_follow_from_columns_and_servers() -> None:
    task = make_task("second_moment", columns=4, num_servers=5)
    assert (task.num_servers, task.num_columns, task.num_words) == (5, 4, 10)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"client_auth": "token"}, InvalidTaskError, "0 token_keys with client_auth 'token'"),
        ({"client_auth": "mtls"}, UnsupportedFeatureError, "client_auth 'mtls'"),
        ({"extensions": ("more",)}, UnsupportedFeatureError, "unknown extension 'more'"),
        ({"salt": "AAAA"}, InvalidTaskError, "salt: expected 32 bytes of base64url, got 3"),
        ({"author_key": "A"}, InvalidTaskError, "author_key: not base64url"),
        ({"suite": HYBRID, "analyzer": TASK.analyzer}, InvalidTaskError, "analyzer.sealing_key: expected 1216 bytes"),
    ],
)
def test_what_this_version_does_not_do_is_refused_in_words(
    fields: dict[str, object], error: type[LintraError], words: str
) -> None:
    task = make_task(check=False, **fields)  # type: ignore[arg-type]
    with pytest.raises(error, match=words):
        task.check()


def test_a_key_of_a_server_that_is_too_short_names_the_server() -> None:
    servers = (TASK.servers[0], TASK.servers[1].model_copy(update={"identity_key": "AAAA"}))
    with pytest.raises(InvalidTaskError, match=r"servers\.1\.identity_key"):
        make_task(check=False, servers=servers).check()


def test_a_sketch_with_two_entries_in_a_column_needs_a_planned_leverage() -> None:
    mechanism = make_task("osnap").mechanism.model_copy(update={"sparsity": 2})
    with pytest.raises(InvalidTaskError, match="leverage 0 does not fit sparsity 2"):
        make_task(mechanism)


def test_a_false_promise_is_refused_with_both_numbers() -> None:
    weak = TASK.mechanism.model_copy(update={"sigma": TASK.mechanism.sigma - 1})
    with pytest.raises(
        FalseClaimError, match=r"promised epsilon 1 at delta 0\.000001, but the parameters give epsilon 1\.00"
    ):
        make_task(weak)


def test_a_minimum_that_leaves_a_row_empty_is_refused() -> None:
    with pytest.raises(RowUnderfilledError):
        make_task(uncalibrated("osnap", rows=9))


def test_a_task_that_may_leave_the_ring_is_refused() -> None:
    mechanism = uncalibrated("second_moment").model_copy(update={"fraction_bits": 30, "sigma": 2**28})
    with pytest.raises(InvalidTaskError, match="may overflow the ring"):
        make_task(mechanism)


def test_a_row_that_does_not_fit_thirty_bits_is_refused() -> None:
    with pytest.raises(InvalidTaskError, match="does not fit 30 bits"):
        make_task(uncalibrated("sum").model_copy(update={"fraction_bits": 31}))


def test_a_report_that_is_too_long_is_refused() -> None:
    assert MAX_WORDS < 1500 * 1501 // 2
    columns = columns_of(f"column {index}" for index in range(1500))
    with pytest.raises(InvalidTaskError, match="exceeds 1048576; use a sketch"):
        make_task(uncalibrated("second_moment"), columns=columns)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"columns": columns_of(["a", "a"])}, "two columns"),
        ({"servers": (TASK.servers[0],) * 2}, "same identity key"),
        ({"servers": (TASK.servers[0],)}, "at least 2"),
        ({"columns": ()}, "at least 1"),
        ({"not_before": 5, "not_after": 5}, "not before"),
        ({"max_clients": 6}, "below min_clients"),
        ({"max_missing": "1"}, "max_missing"),
        ({"max_missing": "-0.5"}, "max_missing"),
        ({"version": "lintra/2"}, "lintra/1"),
        ({"time_precision": 0}, "time_precision"),
        ({"purpose": ""}, "purpose"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_an_inconsistent_definition_is_no_task(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        make_task(TASK.mechanism, check=False, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "http://", "https://x/", "https://x?y", "https://x#y", "https://a b", "https://x\n", "x"]
)
def test_a_server_has_an_ordinary_address(url: str) -> None:
    with pytest.raises(ValidationError):
        make_task(urls=[url, "http://b.test", "http://c.test"])


def test_rows_are_encoded_from_the_users_units() -> None:
    task = make_task(columns=columns_of("ab", bound="10"), row_bound=10)
    encoded = task.encode(np.array([[3.0, -4.0], [1e9, 0.0]]), source("noise"))
    exact = encoded - measurement_of(task, 2).noise(2, source("noise"))
    steps = 2.0**task.mechanism.fraction_bits
    np.testing.assert_array_equal(exact, np.array([[3.0, -4.0], [10.0, 0.0]]) * steps)


def test_a_task_shows_its_name_and_not_its_contents() -> None:
    assert repr(TASK) == str(TASK) == f"Task({TASK.task_id[:8]}.., sum, epsilon=1)"


def test_a_changed_copy_has_an_identifier_of_its_own() -> None:
    task = make_task()
    known = task.task_id
    copy = task.model_copy(update={"purpose": "another purpose"})
    assert copy.task_id == type(task).from_canonical(copy.canonical()).task_id != known
