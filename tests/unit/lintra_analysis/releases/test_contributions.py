"""Releases of organisations: rows are counted where they are, and never taken for the reports, which are few."""

import re
from functools import lru_cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lintra_analysis import correlation, histogram, means, pca, power_sums, regression
from lintra_analysis.kinds.decode import implausible_rows, implausible_totals, read
from lintra_analysis.releases.release import Release
from lintra_protocol import ideal
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms import Histogram, Mechanism, SecondMoment, Sum
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task
from support import columns_of, make_task, nonce, source
from support.measured import calibrated_for, layout_of, setting_of, with_contributors

ORGANISATIONS, ROWS = 3, 1000
KINDS: dict[str, Mechanism] = {
    "sum": Sum(row_bound="2", fraction_bits=0, sigma=4),
    "second_moment": SecondMoment(row_bound="2", fraction_bits=0, sigma=4, intercept="1"),
    "histogram": Histogram(sigma=4, edges=(("-1", "-0.5", "0", "0.5", "1"),) * 3, levels=(0,) * 3),
}


def task_of(kind: str, count: str, epsilon: str = "9000", **fields: object) -> Task:
    """Return a task of three organisations; by default with an epsilon at which noise can be neglected."""
    rows = 1 if count == "exact" else 4
    claim = Claim(epsilon=epsilon, delta="0.000001", min_clients=ORGANISATIONS, max_corrupt_clients=2)
    held = Contributors(rows_per_person=rows, organisations_per_person=1, max_rows=10**4, count=count)
    columns = columns_of("abc")
    mechanism = calibrated_for(with_contributors(KINDS[kind], held), 3, claim, 5)
    return make_task(
        mechanism, columns=columns, claim=claim, max_clients=5, max_missing="0.4", contributors=held, **fields
    )


@lru_cache
def file_of(organisation: int) -> tuple[FloatArray, IntArray]:
    """Return the rows of one organisation, c falling on a and b, and the persons, each with one to four rows."""
    random = np.random.default_rng(organisation)
    rows = random.uniform(-1, 1, (200 + 200 * organisation, 3))
    rows[:, 2] = 0.6 * rows[:, 0] - 0.3 * rows[:, 1] + 0.05 * rows[:, 2]
    return rows, np.arange(len(rows))


def everybody() -> FloatArray:
    """Return all rows, 200 and 400 and 600 of them."""
    return np.concatenate([file_of(organisation)[0] for organisation in range(ORGANISATIONS)])


@lru_cache
def sketch_of(kind: str, count: str, epsilon: str = "9000") -> tuple[Task, IntArray]:
    """Return the released integers of three organisations, `(1, w)`."""
    task = task_of(kind, count, epsilon)
    reports = []
    for organisation in range(ORGANISATIONS):
        rows, persons = file_of(organisation)
        persons = persons if count == "exact" else persons // 4
        random_bytes = source(f"organisation {organisation}")
        reports.append(ideal.organisation_report(task, rows, persons, task.not_before, random_bytes))
    found = ideal.release(task, reports, [nonce(server) for server in range(task.num_servers)])
    assert found.privacy.persons == task.setting.persons
    return task, found.sketch


def release_of(kind: str, count: str, epsilon: str = "9000") -> Release:
    """Return the release as estimators read it."""
    task, sketch = sketch_of(kind, count, epsilon)
    return read(task, sketch, np.array([ORGANISATIONS]))


@pytest.mark.parametrize("count", ["exact", "noisy"])
def test_every_estimator_of_products_divides_by_the_rows_and_not_by_the_reports(count: str) -> None:
    release, rows = release_of("second_moment", count), everybody()
    assert abs(release.num_clients - len(rows)) <= (0 if count == "exact" else 1)
    assert_allclose([one.value for one in means(release).means or ()], rows.mean(axis=0), atol=2e-3)
    fit = regression(release, "c")
    assert_allclose([fit.params["a"], fit.params["b"]], [0.6, -0.3], atol=0.01)
    # The sampling of 1,200 rows, and not of three.
    residual = rows[:, 2] - rows[:, :2] @ [0.6, -0.3]
    expected = residual.std() / (np.sqrt(len(rows)) * rows[:, 0].std())
    assert fit.bse["a"] == pytest.approx(expected, rel=0.1)
    found = correlation(release).to_frame()
    assert_allclose(np.asarray(found), np.corrcoef(rows.T), atol=5e-3)
    assert_allclose(pca(release).explained_variance_, np.linalg.eigvalsh(np.cov(rows.T))[::-1], atol=5e-3)


@pytest.mark.parametrize("count", ["exact", "noisy"])
def test_means_and_cells_are_of_rows_too(count: str) -> None:
    rows = everybody()
    total = means(release_of("sum", count))
    assert_allclose([one.value for one in total.means or ()], rows.mean(axis=0), atol=2e-3)
    assert abs(total.num_clients - len(rows)) <= 1
    found = histogram(release_of("histogram", count), quantiles=[0.25])
    for number, column in enumerate(found.columns):
        counted = np.histogram(rows[:, number], [-1, -0.5, 0, 0.5, 1])[0] / len(rows)
        assert_allclose([one.value for one in column.shares], counted, atol=2e-3)
        low, high = column.quantiles[0].interval
        assert low <= np.quantile(rows[:, number], 0.25) <= high
    first = power_sums(release_of("histogram", count), powers=[2]).columns[0].sums[0]
    assert first.interval[0] <= np.square(rows[:, 0]).sum() <= first.interval[1]


def test_a_noisy_count_is_said_beside_every_answer_and_an_exact_one_is_not() -> None:
    noisy, exact = (means(release_of("second_moment", count)) for count in ("noisy", "exact"))
    assert any(
        re.search("3 organisations counted their rows with noise: about 1(199|20.) rows", n) for n in noisy.notes
    )
    assert not any("organisations" in note for note in exact.notes)


def test_noise_is_that_of_three_reports_however_many_rows_there_are() -> None:
    task, _ = sketch_of("second_moment", "exact")
    release = release_of("second_moment", "exact")
    step = 4.0**-task.mechanism.fraction_bits
    assert release.second_moment().errors.measured is not None

    assert release.need("moments").noise_sd == pytest.approx(np.sqrt(3) * task.mechanism.sigma * step)


@pytest.mark.parametrize("kind", KINDS)
def test_honest_totals_are_plausible_and_a_huge_one_is_not(kind: str) -> None:
    for count in ("exact", "noisy"):
        task, sketch = sketch_of(kind, count)
        assert implausible_rows(task, sketch, np.array([ORGANISATIONS]))[1] == []
        for word in (0, -1):
            lie = sketch.copy()
            lie[0, word] += 2 * ORGANISATIONS * (layout_of(task).bound * setting_of(task).rows_per_report)
            assert implausible_rows(task, lie, np.array([ORGANISATIONS]))[1] == [0]


LIES: dict[str, list[tuple[int, int, str]]] = {
    # (word, rows' worth of the largest word, what is said); words of second moments: 3 sums, then 6 products.
    "second_moment": [
        (3, -1, "squares of 'a' are negative"),
        (3, 1, "squares of 'a' exceed"),
        (4, 1, "products of 'a'"),
    ],
    "sum": [(1, 1, "the sum of 'b' exceeds")],
    "histogram": [(0, -1, "a cell of 'a' holds fewer"), (0, 1, "the cells of 'a' do not add up")],
}


@pytest.mark.parametrize("kind", KINDS)
def test_crude_lies_about_totals_are_named_and_honest_ones_pass(kind: str) -> None:
    for count in ("exact", "noisy"):
        task, sketch = sketch_of(kind, count, "5")
        assert implausible_totals(task, sketch, np.array([ORGANISATIONS])) == []
        for word, sign, words in LIES[kind]:
            lie = sketch.copy()
            lie[0, word] += sign * (layout_of(task).bound * setting_of(task).rows_per_report)
            assert any(words in said for said in implausible_totals(task, lie, np.array([ORGANISATIONS])))
        if count == "exact":
            lie = sketch.copy()
            lie[0, -1] = ORGANISATIONS * 10**4 + 1
            assert any("30,001 rows" in said for said in implausible_totals(task, lie, np.array([ORGANISATIONS])))
    single = make_task(kind)
    assert implausible_totals(single, np.full((1, single.sketch_words), 2**40), np.array([8])) == []
