"""The trace and the intercept of second moments, from the specification to what estimators read."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis.estimators.means import INTERCEPT_NOTE, means
from lintra_analysis.kinds.decode import read
from lintra_analysis.releases.noise_laws.symmetric_noise import SymmetricNoise
from lintra_analysis.releases.second_moment_sum import SecondMomentSum
from lintra_analysis.spec.build_task import build_task
from lintra_analysis.spec.specification import Specification
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidReleaseError, InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.second_moment import SecondMoment as Mechanism
from lintra_protocol.task import ServerEntry, Task
from support import identity, make_task
from support.analyzer_world import KEYS, NOW, seeded, specification
from support.measured import calibrated_for, document_of, measurement_of, setting_of, words_of_steps

CLIENTS = 50
ROWS = np.random.default_rng(5).uniform(-0.5, 0.5, (CLIENTS, 3))
COLUMNS = tuple(Column(name=name, lower="8", upper="12", center="10", scale="2") for name in "abc")
SERVERS = [
    ServerEntry(url=f"http://server-{server}.test", identity_key=identity(f"server {server}").public_key)
    for server in range(2)
]
OPTIONS = [("0", True), ("0.5", False), ("0.5", True)]


def a_task(intercept: str, trace: bool, **changes: Any) -> Task:
    mechanism = Mechanism(row_bound="1", fraction_bits=0, sigma=4, intercept=intercept, trace=trace)
    task = make_task(mechanism, columns=COLUMNS, epsilon=4, min_clients=CLIENTS, check=False, **changes)
    calibrated = calibrated_for(mechanism, 3, task.claim, task.max_clients)
    task = task.model_copy(update={"mechanism": calibrated})
    task.check()
    return task


def released(task: Task, rows: FloatArray, label: str, noise: bool = True) -> SecondMomentSum:
    """Return a release of normalised rows, without shares."""
    mechanism = task.mechanism
    words = words_of_steps(mechanism, document_of(mechanism).clip(rows, setting_of(mechanism)))
    if noise:
        words = words + measurement_of(mechanism, 3).noise(len(rows), expand(bytes(32), label))
    release = read(task, words.sum(axis=0, keepdims=True), np.array([len(rows)])).moments
    assert isinstance(release, SecondMomentSum)
    return release


def built(options: dict[str, object], **changes: object) -> Task:
    asked = specification(**changes) | {"mechanism": {"kind": "second_moment"} | options}
    return build_task(Specification.model_validate(asked), SERVERS, KEYS.public_keys, NOW, seeded("salt"))


@pytest.mark.parametrize(("intercept", "trace"), OPTIONS)
def test_without_noise_a_release_is_the_matrix_of_the_rows_with_their_constant(intercept: str, trace: bool) -> None:
    release = released(a_task(intercept, trace), ROWS, "", noise=False)
    constant = np.full((CLIENTS, int(intercept != "0")), float(intercept))
    augmented = np.hstack([constant, ROWS])
    assert_allclose(release.values, augmented.T @ augmented, atol=0.02)
    assert release.row_bound == pytest.approx(np.hypot(1, float(intercept)), rel=1e-3)


@pytest.mark.parametrize("trace", [False, True])
def test_an_intercept_gives_means_in_the_columns_own_units(trace: bool) -> None:
    task = a_task("0.5", trace)
    exact = means(released(task, ROWS, "", noise=False), of="cohort")
    assert exact.columns == ("a", "b", "c")
    assert exact.means is not None
    assert_allclose([mean.value for mean in exact.means], 10 + 2 * ROWS.mean(axis=0), atol=2e-3)
    assert exact.notes[-1] == INTERCEPT_NOTE
    noisy = released(task, ROWS, "noise")
    found = means(noisy, of="cohort").means
    assert found is not None
    assert found[0].standard_error is not None
    # The noise of a product with the constant, divided by n times the constant, in units of 2.
    assert found[0].standard_error.total == pytest.approx(2 * noisy.noise_sd / (CLIENTS * 0.5), rel=1e-3)


def test_the_product_of_the_constant_with_itself_is_public_to_the_last_digit() -> None:
    release = released(a_task("0.3", trace=False), ROWS, "noise")
    column = release.columns[0]
    assert column.constant is not None
    assert release.values[0, 0] == pytest.approx(CLIENTS * column.constant**2, rel=1e-14)
    errors = release.second_moment().errors
    assert isinstance(errors, SymmetricNoise)
    assert errors.exact == 0
    assert release.restrict(["b", "(intercept)"]).second_moment().errors == SymmetricNoise(release.noise_sd, exact=1)
    assert release.restrict(["b", "c"]).second_moment().errors == SymmetricNoise(release.noise_sd)


# Both options together in the quick tests, each alone in the long ones.
@pytest.mark.parametrize(
    ("intercept", "trace"),
    [pytest.param(*one, marks=[pytest.mark.slow] * ("0" in one or not one[1])) for one in OPTIONS],
)
@pytest.mark.slow
def test_the_noise_has_the_stated_law_and_this_test_would_notice_if_not(intercept: str, trace: bool) -> None:
    """Compare every entry's variance and that of the trace with the law, over 1500 releases of null rows.

    One deviation of a variance is sqrt(2/1500) = 3.7 %; five deviations for at most 11 of them are a false alarm
    below 1e-5. A law without the trace says four times the variance for it, which is certain to be rejected.
    """
    task = a_task(intercept, trace)
    null = released(task, np.zeros((CLIENTS, 3)), "", noise=False)
    law = null.second_moment().errors
    drawn = np.array([released(task, np.zeros((CLIENTS, 3)), f"{index}").values for index in range(1500)])
    drawn -= null.values
    size, limit = drawn.shape[1], 5 * np.sqrt(2 / 1500)
    stated = law.entry_variance(np.eye(size))
    noised = stated > 0
    assert np.abs(np.mean(drawn**2, axis=0)[noised] / stated[noised] - 1).max() < limit
    assert not drawn[:, ~noised].any()
    variance = np.trace(drawn, axis1=1, axis2=2).var()
    assert abs(variance / law.functional_sd(np.eye(size)) ** 2 - 1) < limit
    plain = SymmetricNoise(null.noise_sd, trace_tight=not trace, num_columns=3, exact=null.second_moment().errors.exact)  # type: ignore[union-attr, attr-defined]
    assert abs(variance / plain.functional_sd(np.eye(size)) ** 2 - 1) > limit


def test_an_analyst_asks_for_both_options_in_the_specification_and_has_neither_by_default() -> None:
    task, default = built({"intercept": 0.5, "trace": True}), built({})
    assert isinstance(task.mechanism, Mechanism)
    assert isinstance(default.mechanism, Mechanism)
    assert (task.mechanism.intercept, task.mechanism.trace, task.num_words) == ("0.5", True, 11)
    assert (default.mechanism.intercept, default.mechanism.trace, default.num_words) == ("0", False, 7)
    # (B^2 + c^2) against B^2, at grids a power of four apart.
    sigmas = [each.mechanism.sigma / 4**each.mechanism.fraction_bits for each in (task, default)]
    assert sigmas[0] / sigmas[1] == pytest.approx(1.25, rel=1e-2)


@pytest.mark.parametrize(
    ("options", "changes", "complaint"),
    [
        ({"trace": True}, {"neighbours": "zero-out"}, "needs neighbours 'replace-one'"),
        ({"intercept": -1}, {}, "negative"),
        ({"intercept": 1}, {"columns": [{"name": "(intercept)", "lower": 0, "upper": 1}]}, "belongs to the intercept"),
        ({}, {"columns": [{"name": "(intercept)", "lower": 0, "upper": 1}]}, "belongs to the intercept"),
    ],
)
def test_options_that_do_not_fit_the_task_are_refused(
    options: dict[str, object], changes: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InvalidTaskError, match=complaint):
        built(options, **changes)


@pytest.mark.parametrize(
    ("changes", "complaint"), [({"exact": "x"}, "no column 'x'"), ({"trace_columns": -1}, "0 columns or more")]
)
def test_a_release_whose_options_do_not_fit_is_refused(changes: dict[str, Any], complaint: str) -> None:
    release = released(a_task("0", trace=False), ROWS, "")
    fields = {name: getattr(release, name) for name in release.__dataclass_fields__}
    with pytest.raises(InvalidReleaseError, match=complaint):
        SecondMomentSum(**(fields | changes))
