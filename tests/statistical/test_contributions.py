"""A person in one of three organisations, two of them corrupt, is told apart as well as promised, and no better.

What an adversary has left is the honest organisation's sum with its own noise. The best test of two neighbours is the
likelihood ratio; its distance is estimated from noise that the mechanism really draws, and compared with the mu of the
statement. Each planted fault moves it beyond the claim.
"""

from collections.abc import Callable

import numpy as np
import pytest

from lintra_analysis import regression
from lintra_analysis.kinds.decode import read
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms import SecondMoment, Sum
from lintra_protocol.privacy.statement import Claim
from support import columns_of, make_task, source
from support.measured import (
    InSetting,
    calibrated_for,
    exact_count_words,
    measurement_of,
    noise_sigmas,
    setting_of,
    with_contributors,
)

DRAWS = 4000
ORGANISATIONS = 3
CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=ORGANISATIONS, max_corrupt_clients=2)
Mechanism = Sum | SecondMoment


def calibrated(kind: str, rows: int = 2, claim: Claim = CLAIM) -> Mechanism:
    """Return a mechanism of organisations of persons with some rows, planned for one honest organisation."""
    held = Contributors(rows_per_person=rows, organisations_per_person=1, max_rows=1000, count="noisy")
    bare: Mechanism = Sum(row_bound="1", fraction_bits=0, sigma=4)
    if kind == "second_moment":
        bare = SecondMoment(row_bound="1", fraction_bits=0, sigma=4, intercept="0.5")
    return calibrated_for(with_contributors(bare, held), 2, claim, 5)


def worst_persons(kind: str, rows: int) -> tuple[FloatArray, FloatArray]:
    """Return the rows of two persons who are as far apart as two can nearly be."""
    if kind == "sum":
        return np.tile([1.0, 0.0], (rows, 1)), np.tile([-1.0, 0.0], (rows, 1))
    # At the angle of Theorem O1: cosine -C / T, here -1 / 4.
    return np.tile([1.0, 0.0], (rows, 1)), np.tile([-0.25, (1 - 0.25**2) ** 0.5], (rows, 1))


def distance_of(mechanism: InSetting, first: IntArray, second: IntArray, noise: IntArray) -> float:
    """Return the mu that separates two neighbours, estimated from draws of the honest organisation's noise."""
    weights = 1 / np.square(noise_sigmas(mechanism, 2).astype(np.float64))
    moved = (first - second)[: weights.size].astype(np.float64)
    scores = (noise * weights) @ moved
    # The log-likelihood ratio of equal Gaussians is linear: means differ by |moved|^2, and this is its deviation.
    return float(moved**2 @ weights / scores.std())


def measured(kind: str, mechanism: Mechanism, change: Callable[[IntArray], IntArray] = lambda noise: noise) -> float:
    """Return the same for the worst persons among 20 others, with noise as it is drawn or after a fault."""
    rows = setting_of(mechanism).contributors.rows_per_person if setting_of(mechanism).contributors else 1
    others = np.random.default_rng(3).uniform(-0.5, 0.5, (20, 2))
    persons = np.concatenate([np.zeros(rows, np.int64), 1 + np.arange(20)])
    sums = [
        measurement_of(mechanism, np.concatenate([own, others]).shape[1]).exact_contribution(
            np.concatenate([own, others]), persons
        )
        for own in worst_persons(kind, rows)
    ]
    noise = change(measurement_of(mechanism, 2).noise(DRAWS, source(f"{kind} {rows}")))
    return distance_of(mechanism, sums[0], sums[1], noise)


@pytest.mark.parametrize("kind", ["sum", "second_moment"])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_person_among_one_honest_organisation_is_as_private_as_promised(kind: str, rows: int) -> None:
    """The deviation of 4000 draws is known to 1.1 %: a false alarm beyond 6 % has a chance below 1e-7."""
    mechanism = calibrated(kind, rows)
    promised = measurement_of(mechanism, 2, CLAIM).privacy(ORGANISATIONS).mu
    assert 0.94 * promised < measured(kind, mechanism) < 1.06 * promised


@pytest.mark.parametrize("kind", ["sum", "second_moment"])
def test_planted_faults_are_seen(kind: str) -> None:
    mechanism = calibrated(kind)
    promised = measurement_of(mechanism, 2, CLAIM).privacy(ORGANISATIONS).mu
    honest_to_all = CLAIM.model_copy(update={"max_corrupt_clients": 0})
    faults = {
        "sigma planned with K and not K - t": measured(kind, calibrated(kind, 2, honest_to_all)),
        "four fifths of the noise": measured(kind, mechanism, lambda noise: noise * 4 // 5),
        "r left out": measured(kind, mechanism.model_copy(update={"sigma": calibrated(kind, 1).sigma})),
    }
    for name, found in faults.items():
        assert found > 1.15 * promised, name


def test_a_missing_noise_of_one_organisation_leaves_its_persons_bare() -> None:
    mechanism = calibrated("sum")
    with np.errstate(divide="ignore"):
        assert measured("sum", mechanism, np.zeros_like) == np.inf


@pytest.mark.slow
@pytest.mark.parametrize("count", ["exact", "noisy"])
def test_intervals_of_coefficients_cover_as_often_as_they_say_with_one_honest_of_five(count: str) -> None:
    """95 % of 1200 releases: a false alarm has a chance of 2e-3; with twice the noise they must cover less."""
    held = Contributors(rows_per_person=1, organisations_per_person=1, max_rows=4000, count=count)
    claim = Claim(epsilon="1", delta="0.000001", min_clients=5, max_corrupt_clients=4)
    bare = with_contributors(SecondMoment(row_bound="2", fraction_bits=0, sigma=4, intercept="1"), held)
    mechanism, columns = calibrated_for(bare, 3, claim, 5), columns_of("abc")
    task = make_task(mechanism, columns=columns, claim=claim, max_clients=5, max_missing="0", contributors=held)
    random, runs = np.random.default_rng(7), 1200
    rows = random.uniform(-1, 1, (15_000, 3))
    rows[:, 2] = 0.6 * rows[:, 0] - 0.3 * rows[:, 1] + 0.2 * rows[:, 2]
    exact = sum(
        measurement_of(mechanism, part.shape[1]).exact_contribution(part, np.arange(len(part)))
        for part in np.split(rows, 5)
    )
    truth = np.linalg.lstsq(np.column_stack([np.ones(len(rows)), rows[:, :2]]), rows[:, 2], rcond=None)[0][1:]
    noise = measurement_of(mechanism, 3).noise(5 * runs, source("coverage")).reshape(runs, 5, -1).sum(axis=1)
    whole = np.pad(noise, ((0, 0), (0, exact_count_words(mechanism))))
    shares = {}
    for scale, draws in ((1.0, whole), (2.0, whole[:200])):
        covered = []
        for draw in draws:
            total = exact + np.rint(draw * scale).astype(np.int64)
            fit = regression(read(task, total[np.newaxis], np.array([5])), "c", of="cohort")
            ends = [fit.conf_int()[name] for name in ("a", "b")]
            covered += [end is not None and end[0] <= own <= end[1] for end, own in zip(ends, truth, strict=True)]
        shares[scale] = float(np.mean(covered))
    assert 0.93 < shares[1.0] < 0.97, shares
    assert shares[2.0] < 0.75, shares
