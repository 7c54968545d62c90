"""Synthetic rows: clients and curator give one law, intervals cover, rows stay useful, and published noise is worse.

Every test states how often it would fail were its seeds drawn anew, and shows that it rejects something wrong.
"""

from pathlib import Path

import numpy as np
import pytest
from papers.ron_gauss import PaperQuestion, release_paper

from lintra_analysis.kinds.joint_question import JointQuestion, plan_ron_gauss
from lintra_analysis.releases.features import NumericLabel
from lintra_analysis.synthetic.bootstrap import bootstrap
from lintra_analysis.synthetic.comparison import logistic_accuracy
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import fit
from lintra_analysis.synthetic.rows import SyntheticRows
from lintra_curator.claims.claim import curator_claim
from lintra_curator.ron_gauss.ron_gauss import category_column, exact_sum, mapped_column, release_ron_gauss
from lintra_protocol.fields.schema import Schema
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.transforms.orthonormal import frame
from support import source
from support.joint_words import spread
from support.made_projected_sums import isotropic, numeric, released
from support.measured import calibrated_for, encode_rows, measurement_of, noise_sigmas

DIGITS = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "classes" / "uci_digits.npz"
COLUMNS = (mapped_column("a", -1, 1), mapped_column("b", -1, 1), category_column("kind", ("x", "y")))
QUESTION = JointQuestion(label="kind", bins=4)


def few_rows(count: int = 40) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.column_stack([rng.uniform(-1, 1, (count, 2)), rng.integers(0, 2, count)])


def test_clients_and_curator_give_the_same_law_and_5_per_cent_more_noise_is_rejected() -> None:
    # 600 releases of 17 words by 40 clients, 600 by the curator: squares of 10 200 standardised words each, one
    # deviation of their mean 1.4 %. Five per cent in the deviation is ten in the square: 5 deviations of the
    # difference (2 %); the limit of 3.5 leaves a false alarm of 5e-4.
    rows, claim = few_rows(), Claim(epsilon="2", delta="0.00001", min_clients=40)
    mechanism = calibrated_for(plan_ron_gauss(claim, COLUMNS, QUESTION, bytes(32)), 3, claim, 40)
    exact = exact_sum(mechanism, COLUMNS, rows)[0]
    schema, stream, rounds = Schema(COLUMNS), source("clients"), 600
    reports = encode_rows(mechanism, np.tile(schema.normalise(rows), (rounds, 1)), stream).reshape(rounds, 40, -1)
    ours = (reports.sum(axis=1) - exact) / (40**0.5 * noise_sigmas(mechanism, 3))
    alone = Claim(epsilon="2", delta="0.00001", min_clients=40, max_corrupt_clients=39)
    central = calibrated_for(plan_ron_gauss(claim, COLUMNS, QUESTION, bytes(32)), 3, alone, 40)
    step = 2.0 ** (central.fraction_bits - mechanism.fraction_bits)
    once = measurement_of(central, 3).noise(rounds, source("curator"))
    # In real units: the sums' step is 2^-f, the products' 4^-f, the counts' 1 / U.
    units = spread(mechanism.joint, 1.0, step, step**2, step**2, 1.0)
    curator = once / units / (40**0.5 * noise_sigmas(mechanism, 3))

    def alike(scale: float) -> bool:
        gap = np.square(ours).mean() - np.square(scale * curator).mean()
        return bool(abs(gap) < 3.5 * 0.02)

    assert alike(1.0)
    assert not alike(1.05)
    assert not alike(1 / 1.05)
    assert np.abs(ours.mean(axis=0)).max() < 5 / rounds**0.5


@pytest.mark.slow
def test_a_curators_release_has_the_deviations_that_it_states() -> None:
    # 400 releases: the mean square of 17 words has a deviation of 1.7 %; four leave a false alarm below 1e-4, and 5 %
    # in the deviation are six.
    rows, claim = few_rows(), curator_claim(2.0, 1e-5)
    found = [release_ron_gauss(rows, COLUMNS, claim, source(f"one {run}"), question=QUESTION) for run in range(400)]
    law = found[0].noise
    values = np.vstack([release.table()[1] for release in found])
    layout = [law.count] * 2 + [law.sum] * 4 + [law.diagonal, law.product, law.diagonal] + [law.cell] * 8
    standard = (values - values.mean(axis=0)) / np.array(layout)
    ratio = np.square(standard).sum() / (399 * standard.shape[1])
    assert abs(ratio - 1) < 4 * 0.017
    for wrong in (1.05, 1 / 1.05):
        assert abs(ratio / wrong**2 - 1) > 4 * 0.017


def slope(rows: SyntheticRows) -> float:
    design = np.stack([rows.columns[f"h{number}"] for number in range(1, 6)] + [np.ones(len(rows))], axis=1)
    return float(np.linalg.lstsq(design, np.asarray(rows.columns["y"], float), rcond=None)[0][0])


def naive_covers(rows: SyntheticRows, truth: float) -> bool:
    """Return whether the interval of a regression that takes the rows for data covers the truth."""
    design = np.stack([rows.columns[f"h{number}"] for number in range(1, 6)] + [np.ones(len(rows))], axis=1)
    y = np.asarray(rows.columns["y"], float)
    coef, left = np.linalg.lstsq(design, y, rcond=None)[:2]
    spread = left[0] / (len(rows) - 6) * np.linalg.inv(design.T @ design)[0, 0]
    return bool(abs(coef[0] - truth) < 1.96 * spread**0.5)


def noisy_regression(count: int, seed: int) -> tuple[NumericLabel, np.ndarray, object]:
    """Return the label, rows with slope 1/4, and the noise of epsilon 1, delta 1e-6 for p = 5 (Theorem 3, r = .6)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 0.45, (count, 5))
    y = x @ np.array([0.25, -0.15, 0.1, 0.0, 0.05]) + rng.normal(0, 0.2, count)
    q, weight = 1.3**2 + 0.65**2, 0.36
    budget = 2 * (1 + weight / 2) ** 2 / gaussian_mu(1.0, 1e-6) ** 2
    law = isotropic(0, (budget * q / weight) ** 0.5, (budget * q**2 / 2) ** 0.5)
    return numeric("y", -1, 1, 1.0), np.column_stack([x, y]), law


@pytest.mark.slow
@pytest.mark.parametrize("count", [1000, 10_000])
def test_bootstrap_intervals_cover_and_those_that_take_rows_for_data_do_not(count: int) -> None:
    # 150 runs at .95: a deviation of .018, so that .89 is 3.4 below and a false alarm has 4e-4; the naive intervals
    # cover .2 to .7.
    covered = naive = 0
    for run in range(150):
        label, rows, law = noisy_regression(count, run)
        model = fit(released(rows, label=label, noise=law, seed=run + 1))  # type: ignore[arg-type]
        found = bootstrap(model, slope, num_rows=200, seed=run, runs=50, space="projected")
        covered += bool(found.interval[0, 0] <= 0.25 <= found.interval[0, 1])
        naive += naive_covers(synthesize(model, count, run, "projected"), 0.25)
    assert covered >= 0.89 * 150
    assert naive <= 0.8 * 150


def factor_rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 3000 rows of 40 columns, and ten classes that differ in 8 hidden factors."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 10, 3000)
    factors = rng.normal(0, 2, (10, 8))[classes] + rng.normal(0, 1, (3000, 8))
    values = factors @ rng.normal(0, 0.08, (8, 40)) + rng.normal(0, 0.2, (3000, 40))
    return np.clip(values, -1, 1), classes


def accuracies(values: np.ndarray, classes: np.ndarray, epsilon: float, train: int, run: int) -> tuple[float, float]:
    """Return the accuracy of classifiers from synthetic rows of one vector with p*, and of the published noise, p = 10.

    `values` lie in [-1, 1]; the first `train` rows are released, the others test.
    """
    size = values.shape[1]
    levels = tuple(str(number) for number in range(10))
    columns = [mapped_column(f"x{number}", -1, 1) for number in range(size)] + [category_column("kind", levels)]
    question, claim = JointQuestion(label="kind", bins=0), curator_claim(epsilon, 1e-6)
    joint, seed = np.column_stack([values, classes])[:train], bytes([run + 1]) * 32
    release = release_ron_gauss(joint, columns, claim, source(f"floor {run}"), question=question, frame_seed=seed)
    shape = np.eye(size) if release.frame is None else release.frame
    rows = synthesize(fit(release), 4000, run, "projected")
    best = score(rows, values[train:] @ shape, classes[train:], release.dimension)
    published = release_paper(
        values[:train], PaperQuestion("mixture", 10, seed, levels=levels), source(f"published {run}"), epsilon=epsilon,
        labels=classes[:train], calibration="published", accept_published_loss=True,
    )  # fmt: skip
    unit = values[train:] / np.linalg.norm(values[train:], axis=1, keepdims=True)
    shape = frame(seed, size, 10) * 2.0**-15
    return best, score(published.synthesize(4000, run), unit @ shape, classes[train:], 10)


@pytest.mark.slow
def test_rows_from_the_digits_train_a_classifier_and_those_of_the_published_noise_do_not() -> None:
    # Real data, and limits that the design set beforehand: epsilon 4, mean of 5 splits and frames, at least .85 (design
    # .892), and at most .35 for the published noise (.242). Over 20 runs the first had mean .886, deviation .018, and
    # the second .249, .072: false alarms of 1e-5 and 1e-3. The published rows are what the floor of .85 rejects.
    with np.load(DIGITS, allow_pickle=False) as data:
        values, classes = data["X"].astype(float) / 8 - 1, data["y"].astype(int)
    found = []
    for run in range(5):
        order = np.random.default_rng(900 + run).permutation(1797)
        found.append(accuracies(values[order], classes[order], 4.0, 1437, run))
    best, worst = np.mean(found, axis=0)
    assert best >= 0.85
    assert worst <= 0.35


@pytest.mark.slow
def test_rows_of_generated_classes_stay_as_useful_as_they_were() -> None:
    # A guard against getting worse, no evidence: the generator and the limits were chosen after numbers had been seen.
    # Epsilon 1, ten classes, mean of 3 (runs vary by .02).
    found, real = [], []
    for run in range(3):
        values, classes = factor_rows(run)
        found.append(accuracies(values, classes, 1.0, 2400, run))
        real.append(logistic_accuracy((values[:2400], classes[:2400]), (values[2400:], classes[2400:]), 10))
    best, worst = np.mean(found, axis=0)
    assert best >= np.mean(real) - 0.1
    assert best >= 0.85
    assert worst <= 0.45


def score(rows: SyntheticRows, test: np.ndarray, classes: np.ndarray, dimension: int) -> float:
    features = np.stack([rows.columns[f"h{number + 1}"] for number in range(dimension)], axis=1)
    return logistic_accuracy((features, np.asarray(rows.columns[rows.label or ""]).astype(int)), (test, classes), 10)
