"""Asking for `ron_gauss`: kinds of columns, labels, what is planned, and complaints that name the field."""

from typing import Any

import pytest
from pydantic import ValidationError

from lintra_analysis.spec.build_task import build_task, warnings_of
from lintra_analysis.spec.specification import Specification
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import first_complaint
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms import RonGauss
from lintra_protocol.task import ServerEntry, Task
from support.analyzer_world import KEYS, NOW, seeded

SERVERS = [
    ServerEntry(url=f"http://server-{server}.test", identity_key=SigningKey.generate(seeded(f"s {server}")).public_key)
    for server in range(2)
]
COLUMNS = [
    {"name": "age", "kind": "integer", "lower": 18, "upper": 100},
    {"name": "income", "lower": 0, "upper": 200_000, "unit": "EUR"},
    {"name": "smokes", "kind": "boolean"},
    {"name": "town", "kind": "category", "levels": ["Basel", "Bern", "Chur"]},
]


def asked(mechanism: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "purpose": "a test",
        "columns": COLUMNS,
        "mechanism": {"kind": "ron_gauss"} | (mechanism or {}),
        "epsilon": 1,
        "delta": 1e-6,
        "min_clients": 1000,
    } | changes


def built(mechanism: dict[str, Any] | None = None, **changes: Any) -> tuple[Task, RonGauss]:
    task = build_task(
        Specification.model_validate(asked(mechanism, **changes)), SERVERS, KEYS.public_keys, NOW, seeded("salt")
    )
    assert isinstance(task.mechanism, RonGauss)
    return task, task.mechanism


def test_everything_is_planned_from_the_columns_and_the_claim() -> None:
    task, mechanism = built()
    assert (mechanism.num_features, mechanism.dimension, mechanism.label) == (6, 6, -1)
    assert mechanism.bins == (16, 16, 2, 3)
    assert 0.999 < task.privacy(1000).epsilon <= 1
    assert warnings_of(task) == []
    assert Task.from_canonical(task.canonical()) == task


@pytest.mark.slow
def test_pairs_and_cells_are_asked_for_by_name_and_their_price_is_in_the_claim() -> None:
    cells = {"cells": {"age": "log"}, "edges": {"income": [10_000, 50_000]}}
    task, mechanism = built({"pairs": [["town", "age"], ["age", "income"]], "pair_weight": "1.5"} | cells)
    assert mechanism.pairs == ((0, 1), (0, 3))
    assert mechanism.pair_bins == (mechanism.bins[0], 3, 0, 3) or mechanism.pair_bins[0] < mechanism.bins[0]
    assert mechanism.bins[1] == 3
    assert 0.999 < task.privacy(1000).epsilon <= 1
    assert Task.from_canonical(task.canonical()) == task
    bare = built(cells)[1]
    assert mechanism.sigma / 4**mechanism.fraction_bits > 1.1 * bare.sigma / 4**bare.fraction_bits
    by_rule = built({"pairs": "rule", "label": "town", "count_weight": 2}, min_clients=100_000)[1]
    assert len(by_rule.pairs) == 6
    assert by_rule.count_weight == "2"


def test_a_label_a_dimension_and_a_bound_are_kept() -> None:
    _, mechanism = built({"label": "town", "dimension": 2, "bins": 0, "covariance": "per_class"}, row_bound=1)
    assert (mechanism.num_classes, mechanism.dimension, mechanism.covariance) == (3, 2, "per_class")
    assert not any(mechanism.bins)
    assert float(mechanism.row_bound) < 1
    assert mechanism.frame_seed == base64url(seeded("salt")(32))
    assert built({"label": "income"})[1].has_numeric_label
    assert built({"mean_weight": 1.4})[1].mean_weight == "1.4"


def test_two_tasks_with_projections_have_two_frames() -> None:
    specification = Specification.model_validate(asked({"dimension": 2}))
    tasks = [build_task(specification, SERVERS, KEYS.public_keys, NOW, seeded(name)) for name in ("one", "two")]
    assert tasks[0].mechanism != tasks[1].mechanism


def test_columns_of_every_kind_are_mapped_to_minus_one_and_one() -> None:
    age, income, smokes, town = built()[0].columns
    assert (age.kind, age.center, age.scale) == ("integer", "59", "41")
    assert (income.kind, income.unit) == ("real", "EUR")
    assert (smokes.lower, smokes.upper, smokes.center, smokes.scale) == ("0", "1", "0.5", "0.5")
    assert (town.lower, town.upper, town.center, town.scale) == ("0", "2", "0", "1")
    assert town.levels == ("Basel", "Bern", "Chur")


def test_more_numbers_than_the_noise_allows_are_warned_of() -> None:
    task, _ = built({"dimension": 6}, min_clients=20, max_clients=1000)
    (warning,) = warnings_of(task)
    assert "drowns products of more than about 2 numbers, here are 6" in warning


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"mechanism": {"kind": "ron_gauss", "label": "village"}}, "label 'village' is not one of the columns"),
        ({"mechanism": {"kind": "ron_gauss", "dimension": 7}}, "between 1 and the 6 features, got 7"),
        ({"mechanism": {"kind": "ron_gauss", "covariance": "per_class"}}, "needs a label with levels"),
        ({"mechanism": {"kind": "ron_gauss", "mean_weight": 1.5}}, "mean_weight lies between"),
        ({"mechanism": {"kind": "ron_gauss", "mean_weight": 0}}, "mean_weight lies between"),
        ({"row_bound": 0}, "radius must be positive"),
        ({"row_bound": -1}, "radius must be positive"),
        ({"columns": [{"name": "a", "lower": 0, "upper": 1, "center": 0}]}, "'a': center and scale must map"),
        ({"columns": [{"name": "a", "lower": 0, "upper": 1.5, "kind": "integer"}]}, "bounds of an integer"),
        ({"columns": [{"name": "a", "kind": "category"}]}, "columns.0.lower"),
        ({"columns": [{"name": "a", "kind": "category", "levels": ["x"]}]}, "at least 2 levels"),
        ({"columns": [{"name": "a", "kind": "category", "levels": ["x", "x"]}]}, "all different"),
        ({"columns": [{"name": "a", "kind": "text", "lower": 0, "upper": 1}]}, "columns.0.kind"),
        ({"columns": [{"name": "a", "levels": ["x", "y"], "lower": 0, "upper": 1}]}, "only a category has levels"),
        ({"mechanism": {"kind": "ron_gauss", "bins": -1}}, "mechanism.bins"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises((InvalidTaskError, ValidationError)) as refusal:
        build_task(Specification.model_validate(asked(**changes)), SERVERS, KEYS.public_keys, NOW, seeded("salt"))
    error = refusal.value
    assert complaint in (first_complaint(error) if isinstance(error, ValidationError) else str(error))


@pytest.mark.slow
def test_a_radius_below_the_norm_of_the_encoding_is_warned_of() -> None:
    # town gives 3 and smokes 1, two numbers a third each: sqrt(4.67) = 2.16. Beyond 2.1 lies 1 - pi 0.41/4 of a square.
    for bound, share in ((1, "100%"), (2.1, "68%")):
        (warning,) = warnings_of(built({}, row_bound=bound)[0])
        assert "below the encoding's norm: a row uniform between its bounds has 2.1" in warning
        assert f"Expected: {share} of such rows" in warning
        assert "real rows the share is unknown" in warning
        assert "categories alone give every row 2" in warning
    assert warnings_of(built({}, row_bound=2.17)[0]) == []
    assert warnings_of(built({"dimension": 3})[0]) == []
