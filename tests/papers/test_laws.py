"""The laws that bench_secure_sketching.py draws from are those of rows that are really multiplied and noised.

Means of 4,000 draws are compared with closed forms; one comparison raises a false alarm with probability below 1e-6.
"""

import math

import numpy as np
import pytest
from secure_sketching import described, end_to_end
from secure_sketching.designs import Table, low_rank_table, regression_table
from secure_sketching.mechanisms import Claim, Mechanism, Seen, local, noised_rows, ridge_ratio, sketched

COUNT, WIDTH, ROWS, DRAWS = 300, 4, 20, 4000


def deviations(values: list[float], expected: float) -> float:
    """Return how many of its own deviations a mean is from what is expected."""
    return float((np.mean(values) - expected) / (np.std(values) / math.sqrt(len(values))))


def table() -> Table:
    return Table("even", COUNT, math.sqrt(COUNT) * np.eye(WIDTH), 10.0, 10.0)


@pytest.mark.slow
def test_a_sketch_errs_as_much_as_balanced_rows_with_signs_do() -> None:
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(DRAWS):
        values = sketched(table(), ROWS, rng)
        errors.append(float(np.sum((values.T @ values - table().gram) ** 2)))
    # Two rows meet with probability (c - 1) / (n - 1); sums over pairs of rows of a uniform frame.
    fourth = COUNT**2 * WIDTH * (WIDTH + 2) / (COUNT + 2)
    pairs = (COUNT * WIDTH) ** 2 + COUNT**2 * WIDTH - 2 * fourth
    meeting = (COUNT / ROWS - 1) / (COUNT - 1)
    assert abs(deviations(errors, pairs * meeting)) < 5
    assert abs(deviations(errors, pairs * meeting * 1.1)) > 5


@pytest.mark.slow
def test_noise_in_every_row_has_the_mean_and_the_scatter_of_rows_that_are_noised() -> None:
    rng = np.random.default_rng(2)
    variance = 0.7
    diagonal, off = [], []
    for _ in range(DRAWS):
        gram = noised_rows(table(), variance, rng) - table().gram
        diagonal.append(float(gram[0, 0]))
        off.append(float(gram[0, 1] ** 2))
    assert abs(deviations(diagonal, COUNT * variance)) < 5
    scatter = 2 * COUNT * variance + COUNT * variance**2  # Z^T N + N^T Z, and N^T N
    assert abs(deviations(off, scatter)) < 5
    assert abs(deviations(off, 1.2 * scatter)) > 5


def test_no_row_is_longer_than_the_bound_that_the_law_gives() -> None:
    rng = np.random.default_rng(3)
    for made in (low_rank_table(2000, 20, 4, rng), regression_table(2000, 6, 2000.0, rng)):
        frame = np.linalg.qr(rng.normal(size=(made.count, len(made.root))))[0]
        rows = frame @ made.root
        longest, largest = np.linalg.norm(rows, axis=1).max(), np.abs(rows).max()
        assert 0.5 * made.row_bound < longest <= made.row_bound
        assert 0.4 * made.entry_bound < largest <= made.entry_bound


@pytest.mark.parametrize(
    ("baseline", "deviation", "off"),
    [
        # 5 columns: (d + 1) sqrt(2 ln(30 / (delta 2 sqrt(2 pi)))) + 1; and 2 sqrt(2 ln(1.25 / (delta / 2))).
        (described.mod_sulq, 34.52, 0),
        (described.sufficient_statistics, 10.86, 1),
    ],
)
def test_mod_sulq_and_ssp_add_the_noise_of_their_papers(baseline: Mechanism, deviation: float, off: int) -> None:
    rng, given = np.random.default_rng(4), Table("null", 100, np.zeros((5, 5)), 1.0, 1.0)
    answers = [baseline(given, Claim(1.0, 1e-6), rng) for _ in range(1500)]
    noise = np.array([seen.gram for seen in answers if seen is not None])
    used = noise[:, : 5 - off, :]
    # 22,500 and more squares: five deviations of their mean are below 5 %.
    assert np.sqrt(np.mean(np.square(used))) == pytest.approx(deviation, rel=0.03)
    assert np.sqrt(np.mean(np.square(used))) != pytest.approx(1.07 * deviation, rel=0.03)
    assert np.array_equal(noise[:, 0, 1], noise[:, 1, 0])
    assert np.all(noise[:, -1, -1] == 0) == bool(off)


def test_as_described_the_model_approaches_ssp_from_above_and_lies_below_mod_sulq() -> None:
    ridge, low = described.ridge(False, 4), described.low_rank(False, 2)
    quotients = [float(row[-1]) for row in ridge.rows if isinstance(row[-1], float)]
    assert min(quotients[1:]) > 1
    assert quotients[2] > quotients[3] > quotients[4] > quotients[5]
    assert max(float(row[-1]) for row in low.rows if isinstance(row[-1], float)) < 0.1


def test_what_the_local_baseline_gives_is_right_on_average() -> None:
    rng, claim = np.random.default_rng(5), Claim(30.0, 1e-3)
    seen = [local(table(), claim, rng) for _ in range(300)]
    drawn = np.array([one.gram[0, 0] for one in seen if one is not None])
    assert abs(deviations(drawn.tolist(), COUNT)) < 5
    # Without debiasing each client's noise would stay in the sum.
    assert abs(deviations((drawn + COUNT * (2 * 10 / claim.mu) ** 2).tolist(), COUNT)) > 5


def test_phi_of_real_services_is_that_of_the_figures() -> None:
    rng = np.random.default_rng(6)
    made = regression_table(400, end_to_end.FEATURES, 400.0, rng)
    rows = end_to_end.rows_of(made, rng)
    assert np.allclose(rows.T @ rows, made.gram)
    moved = made.gram + 3 * described.symmetric(len(made.gram), rng)
    ridge = end_to_end.RIDGE * np.eye(end_to_end.FEATURES)
    solution = np.linalg.solve(moved[:-1, :-1] + ridge, moved[:-1, -1])
    assert end_to_end.phi(made, solution) == pytest.approx(ridge_ratio(made, Seen(moved), end_to_end.RIDGE))
    assert end_to_end.phi(made, 0 * solution) > 2
