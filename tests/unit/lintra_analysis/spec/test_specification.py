"""From a few lines to a task: defaults, calibration, and complaints that name the field."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lintra_analysis.kinds.osnap import default_rows
from lintra_analysis.spec.build_task import build_task, warnings_of
from lintra_analysis.spec.specification import Specification
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.documents import first_complaint
from lintra_protocol.errors import FalseClaimError, InvalidTaskError, LintraError, RowUnderfilledError
from lintra_protocol.fields.code_book import CodeBook, UnitFactor
from lintra_protocol.mechanisms import Osnap, OsnapPublished
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import ServerEntry, Task
from support.analyzer_world import KEYS, NOW, living, seeded, specification

SERVERS = [
    ServerEntry(url=f"http://server-{server}.test", identity_key=SigningKey.generate(seeded(f"s {server}")).public_key)
    for server in range(2)
]


def built(document: dict[str, Any]) -> Task:
    return build_task(Specification.model_validate(document), SERVERS, KEYS.public_keys, NOW, seeded("salt"))


def test_numbers_and_decimal_strings_mean_the_same() -> None:
    numbers = Specification.model_validate(specification(epsilon=0.5, delta=1e-06, row_bound=2))
    strings = Specification.model_validate(specification(epsilon="0.5", delta="0.000001", row_bound="2.0"))
    assert numbers.canonical() == strings.canonical()


def test_the_smallest_noise_that_keeps_the_claim_is_chosen() -> None:
    task = built(specification("sum"))
    less = task.mechanism.model_copy(update={"sigma": task.mechanism.sigma - 1})
    assert task.privacy(task.claim.min_clients).epsilon <= 4
    with pytest.raises(FalseClaimError):
        task.model_copy(update={"mechanism": less}).check()


def test_a_column_is_centred_and_scaled_by_its_bounds_unless_told_otherwise() -> None:
    columns = [
        {"name": "a", "lower": 10, "upper": 30, "unit": "min"},
        {"name": "b", "lower": 0, "upper": 1, "center": 0, "scale": 2.5},
    ]
    first, second = built(specification(columns=columns)).columns
    assert (first.center, first.scale, first.unit) == ("20", "10", "min")
    assert (second.center, second.scale) == ("0", "2.5")


def test_a_task_lasts_from_this_time_unit_to_the_end_of_the_last_one() -> None:
    task = built(specification(duration_seconds=100, time_precision=60))
    assert task.not_before * 60 <= NOW < (task.not_before + 1) * 60
    assert NOW + 100 <= task.not_after * 60 < NOW + 160


def test_two_equal_specifications_make_two_tasks() -> None:
    first = build_task(Specification.model_validate(specification()), SERVERS, KEYS.public_keys, NOW, seeded("one"))
    second = build_task(Specification.model_validate(specification()), SERVERS, KEYS.public_keys, NOW, seeded("two"))
    assert first.task_id != second.task_id


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"epsilon": True}, "epsilon"),
        ({"epsilon": "much"}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": None}, "epsilon"),
        ({"row_bound": 1e-300}, "row_bound"),
        ({"row_bound": 1e300}, "row_bound"),
        ({"min_clients": "12"}, "min_clients"),
        ({"min_clients": 1}, "min_clients"),
        ({"min_clients": 12.5}, "min_clients"),
        ({"columns": []}, "columns"),
        ({"columns": [{"name": "a", "lower": 0}]}, "columns.0.upper"),
        ({"columns": [{"name": "a", "lower": 0, "upper": 1, "weight": 2}]}, "columns.0.weight"),
        ({"mechanism": {"kind": "magic"}}, "mechanism"),
        ({"mechanism": {"kind": "osnap", "rows": 1}}, "mechanism.rows"),
        ({"surprise": 1}, "surprise"),
        ({"neighbours": "bounded"}, "neighbours"),
        ({"suite": "rsa"}, "suite"),
        ({"duration_seconds": 0}, "duration_seconds"),
    ],
)
def test_a_malformed_field_is_named(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Specification.model_validate(specification(**changes))
    assert first_complaint(caught.value).startswith(complaint)


@pytest.mark.parametrize(
    ("changes", "error", "complaint"),
    [
        ({"epsilon": 0}, InvalidTaskError, "epsilon must be positive"),
        ({"delta": 0}, InvalidTaskError, "delta must lie strictly between 0 and 1"),
        ({"delta": 1}, InvalidTaskError, "delta must lie strictly between 0 and 1"),
        ({"delta_coalition": 1e-5}, InvalidTaskError, "delta_coalition"),
        ({"row_bound": 0}, InvalidTaskError, "row_bound: must be positive"),
        ({"row_bound": -1}, InvalidTaskError, "row_bound: must be positive"),
        ({"row_bound": 1e12}, InvalidTaskError, "no fixed-point grid of 0 to 40 bits fits"),
        ({"max_clients": 5}, InvalidTaskError, "max_clients"),
        ({"max_corrupt_clients": 12}, InvalidTaskError, "corrupt clients"),
        ({"max_missing": 1}, InvalidTaskError, "max_missing"),
        ({"columns": [{"name": "a", "lower": 1, "upper": 0}]}, InvalidTaskError, "lower bound 1 is not below"),
        ({"columns": [{"name": "a", "lower": 1, "upper": 1}]}, InvalidTaskError, "lower bound 1 is not below"),
        ({"columns": [{"name": "a", "lower": 0, "upper": 1}] * 2}, InvalidTaskError, "same name"),
        ({"columns": [{"name": "a", "lower": 0, "upper": 1, "scale": 0}]}, InvalidTaskError, "scale 0"),
        ({"mechanism": {"kind": "osnap", "rows": 13}}, RowUnderfilledError, "13 rows"),
        ({"epsilon": 1e-9, "delta": 1e-15}, InvalidTaskError, "no fixed-point grid of 0 to 40 bits fits"),
    ],
)
def test_an_impossible_task_is_refused_in_words(
    changes: dict[str, object], error: type[LintraError], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        built(specification(**changes))


def claim(min_clients: int, epsilon: str = "1", **changes: Any) -> Claim:
    return Claim(epsilon=epsilon, delta="0.000001", min_clients=min_clients, **changes)


def test_the_default_number_of_rows_is_where_noise_and_sketching_balance() -> None:
    # The best m at delta = 1e-6, simulated: n = 1e6, d = 10, B = 1 and mean norm equal to it
    # would give four times the entries there, whose data have r^2 = 0.25 .. 1; here the rule itself is checked.
    rows = default_rows(claim(1_000_000), 10)
    assert rows == pytest.approx(1_000_000 * 0.2369**2 / 40, rel=0.1)
    assert default_rows(claim(1_000_000, neighbours="zero-out"), 10) == pytest.approx(4 * rows, rel=0.01)
    assert default_rows(claim(1_000_000, "4"), 10) > 5 * rows


def test_the_default_number_of_rows_leaves_honest_clients_behind_each() -> None:
    for changes in ({}, {"max_corrupt_clients": 60}, {"max_corrupt_clients": 60, "threat": "adaptive"}):
        for min_clients in (100, 1000, 5000):
            asked = claim(min_clients, "8", **changes)
            rows = default_rows(asked, 4)
            assert rows == 2 or min_clients // rows - asked.quota(rows) >= 30


def test_a_sketch_without_a_number_of_rows_gets_the_default() -> None:
    task = built(specification(mechanism={"kind": "osnap"}, min_clients=3000))
    assert isinstance(task.mechanism, Osnap)
    assert task.mechanism.rows == default_rows(task.claim, 3)


def test_what_an_analyst_should_know_is_said() -> None:
    said = " ".join(warnings_of(built(specification("osnap", row_bound=5))))
    assert "sketch uninformative" in said
    assert "row_bound 5 is larger than any row can be" in said
    assert "classical suite" in said
    assert warnings_of(built(specification("sum", suite="mlkem768-x25519"))) == []


async def test_the_complaint_reaches_the_analyst(tmp_path: Path) -> None:
    sketch = {"kind": "osnap", "rows": 12}
    complaints: list[tuple[dict[str, object], str, str]] = [
        ({"epsilon": "much"}, "invalid_message", "epsilon: expected a number"),
        (
            {"mechanism": {"kind": "magic"}},
            "invalid_message",
            "expected one of histogram, histogram_laplace, newton_step, osnap,",
        ),
        ({"epsilon": -1}, "invalid_task", "epsilon must be positive, got -1"),
        ({"mechanism": sketch, "max_corrupt_clients": 3}, "row_underfilled", "honest clients"),
    ]
    async with living(tmp_path) as life, life.rest() as rest:
        for changes, token, complaint in complaints:
            answer = await rest.post("/v1/tasks", json=specification(**changes))
            assert answer.json()["type"] == f"urn:lintra:problem:{token}"
            assert complaint in answer.json()["detail"]
        assert life.service.store.tasks() == []


def test_a_sketch_may_ask_for_several_entries_in_a_column_and_gets_a_planned_leverage() -> None:
    task = built(specification(mechanism={"kind": "osnap", "rows": 4, "sparsity": 2}, min_clients=200))
    mechanism = task.mechanism
    assert isinstance(mechanism, Osnap)
    assert (mechanism.rows, mechanism.sparsity) == (4, 2)
    assert 4 / 200 < float(mechanism.leverage) < 2 * 4 / 200
    with pytest.raises(InvalidTaskError, match="5 entries in a column need as many rows"):
        built(specification(mechanism={"kind": "osnap", "rows": 4, "sparsity": 5}))


PUBLISHED = {"kind": "osnap_published", "rows": 4, "sparsity": 2, "entry_bound": 0.5}


def published(**changes: object) -> dict[str, Any]:
    """Return what an analyst posts who wants to compare with the published calibration."""
    return specification(mechanism=PUBLISHED, row_bound=None, min_clients=2000, epsilon=1, **changes)


def test_the_published_calibration_is_asked_for_the_claim_unless_told_otherwise() -> None:
    task = built(published())
    assert isinstance(task.mechanism, OsnapPublished)
    assert task.mechanism.published_epsilon == task.claim.epsilon == "1"
    assert float(task.mechanism.row_bound) == pytest.approx(0.5 * 3**0.5)
    said = " ".join(warnings_of(task))
    assert "published calibration, for comparison: claimed epsilon 1 by Theorem 3.4, exactly 0.1" in said
    assert "larger than any row" not in said
    more = built(published() | {"mechanism": PUBLISHED | {"published_epsilon": 4}})
    assert isinstance(more.mechanism, OsnapPublished)
    assert (more.mechanism.published_epsilon, more.claim.epsilon) == ("4", "1")


@pytest.mark.parametrize(
    ("changes", "error", "complaint"),
    [
        ({"row_bound": 1}, InvalidTaskError, "row_bound: it follows from entry_bound"),
        ({"mechanism": {"kind": "sum"}}, InvalidTaskError, "row_bound: needed for sum"),
        ({"mechanism": PUBLISHED | {"entry_bound": 0}}, InvalidTaskError, r"mechanism\.entry_bound: must be positive"),
        (
            {"mechanism": PUBLISHED | {"published_epsilon": 0}},
            InvalidTaskError,
            "published_epsilon: must be positive",
        ),
        ({"mechanism": PUBLISHED | {"published_epsilon": 60}}, FalseClaimError, "promised epsilon 1 .* give epsilon"),
        ({"min_clients": 100}, RowUnderfilledError, r"eq\. \(4\) is undefined"),
    ],
)
def test_a_published_calibration_that_cannot_be_is_refused_in_words(
    changes: dict[str, object], error: type[LintraError], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        built(published() | changes)


def test_a_code_book_of_the_specification_is_that_of_the_task() -> None:
    plain = specification()
    first, *others = plain["columns"]
    book = {"units": [{"unit": "lb", "factor": 0.45}], "missing": ["-99"]}
    task = built(plain | {"columns": [first | {"unit": "kg", "code_book": book}, *others]})
    assert task.columns[0].code_book == CodeBook(units=(UnitFactor(unit="lb", factor="0.45"),), missing=("-99",))
    assert built(plain).columns[0].code_book is None
    for wrong in ({"units": [{"unit": "lb", "factor": "many"}]}, {"units": 7}, {"synonyms": {}}, {}, []):
        with pytest.raises(ValidationError, match="code_book"):
            Specification.model_validate(plain | {"columns": [first | {"code_book": wrong}, *others]})
