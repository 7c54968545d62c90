"""Columns in which values may be missing: which count a new task gets, and what a release of it says."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lintra_analysis.estimators.correlation import correlation
from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.regression import regression
from lintra_analysis.kinds.decode import read
from lintra_analysis.plan.flags import PlanFlags
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_analysis.releases.release import Release
from lintra_analysis.spec.build_task import build_task
from lintra_analysis.spec.specification import Specification
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.crypto.signing import SigningKey
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import OTHER
from lintra_protocol.task import ServerEntry, Task
from support.analyzer_world import KEYS, NOW, seeded, specification
from support.measured import measurement_of, noise_sigmas, reports_without_noise

SERVERS = [
    ServerEntry(url=f"http://server-{server}.test", identity_key=SigningKey.generate(seeded(f"s {server}")).public_key)
    for server in range(2)
]
COLUMNS = [
    {"name": "a", "lower": -3, "upper": 3, "center": 0, "scale": 1},
    {"name": "b", "lower": -3, "upper": 3, "center": 0, "scale": 1, "missing": True},
    {"name": "y", "lower": -9, "upper": 9, "center": 0, "scale": 2},
]
CLIENTS, PER_CENT_MISSING = 20_000, 20


def built(kind: str = "second_moment", columns: list[dict[str, Any]] | None = None, **options: object) -> Task:
    asked = specification(
        columns=columns or COLUMNS, mechanism={"kind": kind, **options}, row_bound=4, min_clients=CLIENTS, epsilon=1
    )
    return build_task(Specification.model_validate(asked), SERVERS, KEYS.public_keys, NOW, seeded("salt"))


def test_a_number_that_may_be_missing_makes_a_noisy_count_and_half_the_bound_the_intercept() -> None:
    task = built()
    assert (task.mechanism.count, task.mechanism.intercept) == ("noisy", "2")  # type: ignore[attr-defined]
    assert measurement_of(built("sum").mechanism).leaves_out
    assert built(intercept=1).mechanism.intercept == "1"  # type: ignore[attr-defined]


def test_without_such_a_column_or_on_request_the_count_is_exact() -> None:
    whole = [{key: value for key, value in column.items() if key != "missing"} for column in COLUMNS]
    assert b"count" not in built(columns=whole).mechanism.canonical().replace(b"clip_count_weight", b"")
    assert not measurement_of(built(count="exact", intercept=2).mechanism).leaves_out
    assert measurement_of(built(columns=whole, count="noisy").mechanism).leaves_out


def test_a_category_that_may_be_missing_gets_its_reserved_level_and_no_count() -> None:
    town = {"name": "town", "kind": "category", "levels": ["x", "y"], "missing": True}
    task = built(columns=[COLUMNS[0], town])
    assert task.columns[1].levels == ("x", "y", OTHER)
    assert not measurement_of(task).leaves_out
    again = built(columns=[COLUMNS[0], {**town, "levels": ["x", OTHER]}])
    assert again.columns[1].levels == ("x", OTHER)


@pytest.mark.parametrize("kind", ["osnap", "second_moment_wishart"])
def test_a_mechanism_that_cannot_leave_rows_out_refuses_in_words(kind: str) -> None:
    with pytest.raises(InvalidTaskError, match=f"'b' may be missing, and {kind} cannot leave rows out"):
        built(kind)


def test_the_plan_says_how_exact_the_number_of_rows_will_be() -> None:
    exact = PlanFlags(columns=3, clients=CLIENTS, delta="0.000001", corrupt=0, row_bound="4", row_norm=2, intercept="2")
    exact = replace(exact, noise="clients")
    noisy = replace(exact, count="noisy")
    found = noisy.planned("second_moment").deviations
    # sqrt(2) (B^2 + c^2) / (c^2 mu), and the root of 1 + 0.2^2 for the clip counter.
    assert found["rows"] == pytest.approx(2**0.5 * 5 / 0.23670 * 1.0198, rel=1e-3)
    assert "rows" not in exact.planned("second_moment").deviations
    assert noisy.planned("sum").deviations["rows"] == pytest.approx(4 / 0.23670 * 1.0198, rel=1e-3)


# --- what a release says about complete rows ------------------------------------------------------------------


def rows_with_holes() -> FloatArray:
    """Return rows of which a fifth lack b, at random."""
    draw = np.random.default_rng(5)
    a = draw.uniform(-1, 1, CLIENTS)
    b = 0.5 * a + draw.uniform(-1, 1, CLIENTS) + 0.5
    y = a - 2 * b + draw.normal(0, 0.2, CLIENTS)
    b[draw.permutation(CLIENTS)[: CLIENTS * PER_CENT_MISSING // 100]] = np.nan
    return np.column_stack([a, b, y])


def released(task: Task, rows: FloatArray, noise: int) -> Release:
    """Return the release of rows: the exact sum, and noise of the sum's law drawn at once."""
    schema, mechanism = task.schema_arrays, task.mechanism
    reports = reports_without_noise(mechanism, schema.normalise(schema.rows(rows)), schema.outside(rows))
    deviations = noise_sigmas(mechanism, task.num_columns) * len(rows) ** 0.5
    drawn = np.rint(np.random.default_rng(noise).normal(size=deviations.size) * deviations).astype(np.int64)
    return read(task, (reports.sum(axis=0) + drawn)[np.newaxis], np.array([len(rows)]))


@pytest.fixture(scope="module")
def holes() -> FloatArray:
    return rows_with_holes()


def test_answers_are_those_of_the_complete_rows_and_a_centre_would_not_give_them(holes: FloatArray) -> None:
    complete = holes[~np.isnan(holes).any(axis=1)]
    noisy = released(built(trace=True), holes, 1)
    found = means(noisy, of="cohort")
    told = dict(zip(found.columns, found.means or (), strict=True))
    slopes = regression(noisy, "y").params
    assert slopes["b"] == pytest.approx(-2, abs=0.05)
    assert told["b"].value == pytest.approx(complete[:, 1].mean(), abs=4 * told["b"].standard_error.total)  # type: ignore[union-attr]
    exact = means(released(built(count="exact", intercept=2), holes, 1), of="cohort")
    at_centre = dict(zip(exact.columns, exact.means or (), strict=True))["b"].value
    assert at_centre == pytest.approx(0.8 * complete[:, 1].mean(), abs=0.02)  # a fifth stands at 0
    words = " ".join([*found.notes, *regression(noisy, "y").warnings, *correlation(noisy).notes, *pca(noisy).notes])
    assert words.count("rows in which a number was missing were left out: about 1") == 4


def test_intervals_hold_the_truth_as_often_as_they_say_though_the_count_is_noisy(holes: FloatArray) -> None:
    """In 120 draws .95 +- .06 at three deviations, a false alarm below 1 %; a mean off its centre feels the count."""
    rows = np.where(np.isnan(holes[:400]), np.nan, [0.0, 2.7, 0.0] + 0.1 * holes[:400])
    complete = rows[~np.isnan(rows).any(axis=1)]
    truth = {"mean": complete[:, 1].mean(), "square": np.square(complete[:, 1]).mean()}
    task = built(trace=True)
    inside = {"mean": 0, "square": 0}
    for draw in range(120):
        release = released(task, rows, draw)
        found = means(release, ["b"], of="cohort")
        for name, one in (("mean", found.means), ("square", found.mean_squares)):
            low, high = one[0].interval  # type: ignore[index, misc]
            inside[name] += low <= truth[name] <= high
    assert all(count / 120 >= 0.89 for count in inside.values()), inside


def test_the_stated_law_of_the_noise_is_that_of_decoded_integers_with_corner_and_trace() -> None:
    """1,200 draws: variances within 17 % at four deviations; a corner that the trace tightened would be off by 25 %."""
    mechanism = built(trace=True).mechanism
    deviations = noise_sigmas(mechanism, 3)
    words = np.random.default_rng(2).normal(size=(1200, deviations.size)) * deviations
    unit = 4.0**-mechanism.fraction_bits * mechanism.sigma
    drawn = (
        np.array([measurement_of(mechanism, 3).decode(np.rint(one)[np.newaxis].astype(np.int64)) for one in words])
        / unit
    )
    law = SymmetricNoise(1.0, True, 3, apart=0)
    assert np.allclose(drawn.var(axis=0), law.entry_variance(np.eye(4)), rtol=0.17)
    simulated = law.draws(1200, 4, seeded("noise"))
    assert simulated is not None
    assert np.allclose(simulated.var(axis=0), law.entry_variance(np.eye(4)), rtol=0.17)
    theta = np.array([1.0, 2.0, -1.0, 0.5])
    assert np.allclose(np.cov((drawn @ theta).T), law.product_covariance(theta), atol=1.4)
    assert law.restrict(np.array([2, 0])) == SymmetricNoise(1.0, True, 3, apart=1)


def test_a_mean_of_a_sum_is_divided_by_the_rows_that_were_not_left_out(holes: FloatArray) -> None:
    release = released(built("sum"), holes, 3)
    complete = holes[~np.isnan(holes).any(axis=1)]
    found = means(release, of="cohort")
    assert release.totals is not None
    assert release.totals.num_rows == pytest.approx(len(complete), abs=100)
    for one, truth in zip(found.means or (), complete.mean(axis=0), strict=True):
        assert one.value == pytest.approx(truth, abs=4 * one.standard_error.total)  # type: ignore[union-attr]
