"""The curator's joint vector: the same integers as the clients', noise as promised, refusals."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from lintra_analysis.kinds.joint_question import JointQuestion, plan_ron_gauss
from lintra_analysis.releases.features import ClassLabel, NumericLabel
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.synthetic.generator import synthesize
from lintra_analysis.synthetic.model import fit
from lintra_curator.claims.claim import CalibrationError, curator_claim
from lintra_curator.ron_gauss.pure import PureShares, pure_scales, release_ron_gauss_pure
from lintra_curator.ron_gauss.ron_gauss import category_column, exact_sum, mapped_column, release_ron_gauss
from lintra_protocol.errors import InvalidRowError, InvalidTaskError
from lintra_protocol.fields.schema import Schema
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Claim
from support import source
from support.measured import document_of, setting_of, words_of_steps

COLUMNS = (
    mapped_column("height", 100, 220, unit="cm"),
    mapped_column("children", 0, 9, "integer"),
    mapped_column("member", 0, 1, "boolean"),
    category_column("region", ("north", "south", "west")),
    category_column("kind", ("good", "bad")),
)
CLAIM = curator_claim(1.0, 1e-6)
BY_CLASS = JointQuestion(label="kind")


def table(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, count)
    height = np.clip(rng.normal(160 + 15 * kind, 10, count), 100, 220)
    children = np.clip(np.rint(rng.normal(2 + kind, 1, count)), 0, 9)
    return np.column_stack([height, children, rng.random(count) < 0.3, rng.integers(0, 3, count), kind]).astype(float)


def mechanism_of(question: JointQuestion, bits: int = 12) -> RonGauss:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=500)
    planned = plan_ron_gauss(claim, COLUMNS, question, bytes(range(32)))
    return planned.model_copy(update={"fraction_bits": bits, "sigma": 1000})


@pytest.mark.parametrize(
    "question",
    [
        JointQuestion(),
        BY_CLASS,
        replace(BY_CLASS, covariance="per_class", dimension=3),
        JointQuestion(label="height", dimension=2, bins=0),
        JointQuestion(label="children", bins=5),
    ],
    ids=["none", "classes", "own covariances", "numeric, projected", "numeric"],
)
def test_the_fast_sum_is_the_sum_of_the_clients_own_vectors(question: JointQuestion) -> None:
    mechanism, rows = mechanism_of(question), table(500)
    one_by_one = words_of_steps(
        mechanism, document_of(mechanism).clip(Schema(COLUMNS).normalise(rows), setting_of(mechanism))
    )
    np.testing.assert_array_equal(exact_sum(mechanism, COLUMNS, rows)[0], one_by_one.sum(axis=0))


def test_the_release_keeps_its_promise_with_one_noise() -> None:
    release = release_ron_gauss(table(800), COLUMNS, CLAIM, source("central"), question=BY_CLASS)
    assert isinstance(release.label, ClassLabel)
    assert gaussian_mu(1.0, 1e-6) * 0.999 < release.promise.mu <= gaussian_mu(1.0, 1e-6)
    assert release.promise.epsilon <= 1
    assert release.noise.diagonal == pytest.approx(2**0.5 * release.noise.product, rel=1e-6)
    assert release.counts.sum() == pytest.approx(800, abs=8 * release.noise.count)
    # Theorem 3 for its own numbers: counts never decide, histograms add.
    q = release.radius**2
    b, g = q / release.noise.sum**2, q**2 / release.noise.diagonal**2
    assert b <= 2 * g
    squared = 2 * g + 2 * b + b * b / (2 * g) + 2 * 4 / release.noise.cell**2
    assert squared**0.5 == pytest.approx(release.promise.mu, rel=1e-3)


@pytest.mark.slow
def test_the_released_numbers_are_the_exact_ones_plus_their_noise_and_a_wrong_scale_is_noticed() -> None:
    # 30 releases of 6 words: the mean square has deviation 11 %; six of them reject noise twice as large. The
    # statistical test rejects 5 %. A false alarm is below 1e-8.
    rows = table(200)
    question = replace(BY_CLASS, dimension=3)
    releases = [
        release_ron_gauss(rows, COLUMNS, CLAIM, source(f"noise {run}"), question=question, frame_seed=bytes(32))
        for run in range(30)
    ]
    names, _ = releases[0].table()
    values = np.vstack([release.table()[1] for release in releases])
    sums = values[:, [name.startswith("sum") for name in names]]
    spread = np.square(sums - sums.mean(axis=0)).sum() / (29 * sums.shape[1])
    assert abs(spread / releases[0].noise.sum ** 2 - 1) < 6 * (2 / sums.size) ** 0.5
    assert abs(spread / (2 * releases[0].noise.sum) ** 2 - 1) > 6 * (2 / sums.size) ** 0.5


def test_a_numeric_label_and_rows_by_name_are_taken() -> None:
    rows = [
        {"height": 150.0 + number % 40, "children": 2, "member": True, "region": "north", "kind": "bad"}
        for number in range(50)
    ]
    release = release_ron_gauss(rows, COLUMNS, CLAIM, source("names"), question=JointQuestion(label="height"))
    assert isinstance(release.label, NumericLabel)
    assert release.label.scale == pytest.approx(release.radius / 2, rel=1e-2)
    assert len(synthesize(fit(release), 30, 1)) == 30


def test_without_noise_to_speak_of_the_model_is_that_of_the_rows() -> None:
    rows = table(3000, seed=3)
    claim = curator_claim(200.0, 1e-6)
    release = release_ron_gauss(rows, COLUMNS, claim, source("clear"), question=replace(BY_CLASS, radius=Fraction(5)))
    model = fit(release)
    heights = (rows[:, 0] - 160) / 60
    for number in range(2):
        assert model.means[number, 0] == pytest.approx(heights[rows[:, 4] == number].mean(), abs=0.01)
    assert model.weights[0] == pytest.approx((rows[:, 4] == 0).mean(), abs=0.005)
    made = synthesize(model, 3000, 1).columns
    assert np.mean(made["children"]) == pytest.approx(rows[:, 1].mean(), abs=0.05)
    assert (made["region"] == "north").mean() == pytest.approx((rows[:, 3] == 0).mean(), abs=0.02)


def test_pure_noise_spends_exactly_its_epsilon() -> None:
    mechanism = mechanism_of(BY_CLASS)
    scales = pure_scales(mechanism, Fraction(1), PureShares())
    size, q = mechanism.num_coordinates, mechanism.squared_vector_bound
    spent = 2 * mechanism.indicator / scales.counts + 2 * mechanism.indicator * 4 / scales.histograms
    spent += Fraction((4 * size * q) ** 0.5) / scales.sums + Fraction((size / 2**0.5 + 1) * q) / scales.products
    assert 0.999 < spent <= 1
    assert pure_scales(mechanism, Fraction(10**6), PureShares()).sums < 10**-3 * scales.sums
    own = pure_scales(mechanism_of(replace(BY_CLASS, covariance="per_class")), Fraction(1), PureShares())
    assert own.products > scales.products
    without = pure_scales(mechanism_of(JointQuestion(bins=0)), Fraction(1), PureShares())
    assert without.counts == without.histograms == 0


def test_a_pure_release_says_so_and_makes_rows() -> None:
    release = release_ron_gauss_pure(table(2000), COLUMNS, 2.0, source("pure"), question=BY_CLASS)
    assert (release.promise.epsilon, release.promise.delta, release.promise.mu) == (2.0, 0.0, math.inf)
    assert release.noise.law == "discrete Laplace"
    assert release.noise.product == release.noise.diagonal
    assert len(synthesize(fit(release), 50, 1)) == 50
    chosen = release_ron_gauss_pure(
        table(300), COLUMNS, 2.0, source("pure"), question=replace(BY_CLASS, dimension=2), frame_seed=bytes(32)
    )
    assert chosen.dimension == 2


def test_constant_columns_and_rows_at_the_centre_are_no_trouble() -> None:
    rows = np.tile([160.0, 4, 0, 1, 1], (300, 1))
    release = release_ron_gauss(rows, COLUMNS, CLAIM, source("constant"), question=BY_CLASS)
    made = synthesize(fit(release), 100, 1).columns
    assert np.median(made["height"]) == pytest.approx(160, abs=8)
    numbers = (mapped_column("a", -1, 1), mapped_column("b", -1, 1))
    zero = release_ron_gauss(np.zeros((100, 2)), numbers, CLAIM, source("zero"))
    assert isinstance(zero, ProjectedSums)
    assert len(synthesize(fit(zero), 10, 1)) == 10


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_are_no_numbers_are_refused(value: float) -> None:
    rows = table(10)
    rows[3, 0] = value
    for call in (
        lambda: release_ron_gauss(rows, COLUMNS, CLAIM, source("bad")),
        lambda: release_ron_gauss_pure(rows, COLUMNS, 1.0, source("bad")),
    ):
        with pytest.raises(InvalidRowError, match="row 3, column 'height'"):
            call()


def test_unknown_levels_columns_and_sizes_are_refused_in_words() -> None:
    rows = table(10)
    with pytest.raises(InvalidRowError, match="level"):
        release_ron_gauss(np.column_stack([rows[:, :4], np.full(10, 2.0)]), COLUMNS, CLAIM, source("bad"))
    with pytest.raises(InvalidRowError, match="levels"):
        release_ron_gauss(
            [{"height": 1, "children": 1, "member": 0, "region": "east", "kind": "bad"}] * 3,
            COLUMNS,
            CLAIM,
            source("b"),
        )
    with pytest.raises(InvalidTaskError, match="not one of the columns"):
        release_ron_gauss(rows, COLUMNS, CLAIM, source("bad"), question=JointQuestion(label="colour"))
    with pytest.raises(InvalidTaskError, match="dimension"):
        release_ron_gauss(rows, COLUMNS, CLAIM, source("bad"), question=JointQuestion(dimension=99))
    with pytest.raises(CalibrationError, match="at least 2 rows"):
        release_ron_gauss(rows[:1], COLUMNS, CLAIM, source("bad"))
    with pytest.raises(CalibrationError, match="at least 2 rows"):
        release_ron_gauss(rows[:0], COLUMNS, CLAIM, source("bad"))
    with pytest.raises(ValueError, match="32 bytes"):
        release_ron_gauss(rows, COLUMNS, CLAIM, source("bad"), frame_seed=b"short")
    for epsilon in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(CalibrationError, match="epsilon"):
            release_ron_gauss_pure(rows, COLUMNS, epsilon, source("bad"))
    with pytest.raises(CalibrationError, match="64-bit"):
        release_ron_gauss_pure(rows, COLUMNS, 1e-11, source("bad"))
    for radius in (Fraction(1, 10**6), Fraction(10**9)):
        with pytest.raises(InvalidTaskError, match="another radius"):
            release_ron_gauss_pure(rows, COLUMNS, 1.0, source("bad"), question=JointQuestion(radius=radius))
    with pytest.raises(ValueError, match="share"):
        PureShares(counts=0.0)
