"""The plan of `ron_gauss`: known dimensions and bounds, and the choices that an analyst has."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from lintra_analysis.kinds.joint_question import (
    MAX_PRODUCTS,
    JointQuestion,
    default_dimension,
    histogram_bins,
    plan_ron_gauss,
    useful_dimension,
)
from lintra_analysis.releases.row_norms import NormLaw
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.projected import MAX_FRAME_WORK
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.privacy.statement import Claim
from support.measured import calibrated_for, measurement_of

SEED = bytes(range(32))
REAL = Column(name="real", lower="0", upper="10", center="5", scale="5")
SIXTEEN = Column(name="sixteen", lower="0", upper="16", center="8", scale="8", kind="integer")
YEAR = Column(name="year", lower="1900", upper="2030", center="1965", scale="65", kind="integer")
FLAG = Column(name="flag", lower="0", upper="1", center="0.5", scale="0.5", kind="boolean")
TOWN = Column(name="town", lower="0", upper="2", kind="category", levels=("Basel", "Bern", "Chur"))
COLUMNS = (REAL, SIXTEEN, YEAR, FLAG, TOWN)


def claim(**changes: object) -> Claim:
    return Claim.model_validate({"epsilon": "1", "delta": "0.000001", "min_clients": 1000} | changes)


def planned(**choices: object) -> RonGauss:
    return plan_ron_gauss(claim(), COLUMNS, JointQuestion(**choices), SEED)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("clients", "epsilon", "dimension"), [(1438, "1", 38), (456, "1", 17), (456, "4", 41), (10**5, "1", 654)]
)
def test_known_dimensions(clients: int, epsilon: str, dimension: int) -> None:
    assert useful_dimension(claim(min_clients=clients, epsilon=epsilon)) == dimension
    assert default_dimension(claim(min_clients=clients, epsilon=epsilon), 30) == min(dimension, 30)


def test_corrupt_clients_and_covariances_by_class_cost_dimensions() -> None:
    assert default_dimension(claim(min_clients=1538, max_corrupt_clients=100), 784) == 38
    assert useful_dimension(claim(min_clients=14380), 10) == 38
    for blocks in (1, 10, 1000):
        found = default_dimension(claim(min_clients=10**6), 784, blocks)
        assert found * (found + 1) // 2 * blocks <= MAX_PRODUCTS
        assert found**2 * 784 <= MAX_FRAME_WORK
    assert default_dimension(claim(min_clients=2), 784) == 1


def law(*columns: Column) -> NormLaw:
    return NormLaw.of_columns(columns)


def test_the_squared_norm_of_a_uniform_row_has_the_planned_mean_and_variance() -> None:
    assert (law(REAL).mean, law(REAL).variance) == (Fraction(1, 3), Fraction(4, 45))
    squares = np.array([-1 + k / 8 for k in range(17)]) ** 2
    assert float(law(SIXTEEN).mean) == pytest.approx(squares.mean())
    assert float(law(SIXTEEN).variance) == pytest.approx(squares.var())
    assert (law(FLAG).mean, law(FLAG).variance, law(FLAG).values) == (1, 0, ())
    assert (law(TOWN).mean, law(TOWN).certain, law(TOWN).largest) == (3, 3, 3)
    assert law(*COLUMNS).mean == sum((law(column).mean for column in COLUMNS), Fraction(0))


MONTH = Column(name="month", lower="0", upper="11", kind="category", levels=tuple(f"m{k}" for k in range(12)))
WEATHER = (MONTH, *(REAL.model_copy(update={"name": f"x{number}"}) for number in range(5)))


@pytest.mark.parametrize("columns", [WEATHER, COLUMNS, (REAL,), (TOWN, FLAG), (SIXTEEN,) * 12])
@pytest.mark.parametrize("radius", [0.8, 1.0, 1.1])
def test_the_expected_share_of_clipped_rows_is_that_of_drawn_ones(columns: tuple[Column, ...], radius: float) -> None:
    # 20,000 rows: a share is off by .013 with probability 2e-4 at most, 15 times here: false alarm 3e-3.
    rng, found = np.random.default_rng(3), law(*columns)
    squares = np.full(20_000, float(found.certain))
    for values in found.values:
        drawn = rng.integers(0, values, 20_000) / (values - 1) * 2 - 1 if values else rng.uniform(-1, 1, 20_000)
        squares += drawn**2
    bound = radius * float(found.mean) ** 0.5
    expected = found.clipped_share(bound, found.largest)
    assert expected == pytest.approx(float((squares > bound**2 * (1 + 1e-9)).mean()), abs=0.015)


@pytest.mark.parametrize("columns", [WEATHER, COLUMNS, (REAL,), (TOWN, FLAG), (REAL,) * 64, (MONTH, REAL)])
def test_the_default_radius_clips_few_uniform_rows_and_none_that_no_number_makes_long(
    columns: tuple[Column, ...],
) -> None:
    found = law(*columns)
    assert found.certain <= found.mean <= found.planned <= found.largest
    assert found.planned >= found.certain + len(found.values) / 2
    assert found.clipped_share(found.planned**0.5, found.largest) <= 0.05
    # The rule that stood here before, the root mean square alone, clips about half of the rows where numbers vary.
    if found.values:
        assert found.clipped_share(float(found.mean) ** 0.5, found.largest) > 0.3


def test_histograms_have_a_cell_for_each_of_few_values() -> None:
    assert [histogram_bins(column, 16) for column in COLUMNS] == [16, 17, 16, 2, 3]
    assert [histogram_bins(column, 200) for column in COLUMNS] == [200, 17, 131, 2, 3]
    assert [histogram_bins(column, 0) for column in COLUMNS] == [0] * 5


def test_by_default_nothing_is_projected_where_the_noise_allows_it() -> None:
    given = planned()
    assert (given.dimension, given.num_features, given.frame_seed, given.label) == (7, 7, "", -1)
    assert given.mean_weight == "0.6"
    assert float(fraction(given.row_bound)) == pytest.approx(law(*COLUMNS).planned ** 0.5)
    measurement_of(calibrated_for(given, 5, claim(), 10_000), 5, claim()).check(10_000)


def test_a_category_as_label_makes_classes_and_a_number_one_more_coordinate() -> None:
    classes, number = planned(label="town"), planned(label="year")
    assert (classes.num_classes, classes.num_features, classes.has_numeric_label, classes.bins[4]) == (3, 4, False, 0)
    assert (number.num_classes, number.num_features, number.has_numeric_label, number.bins[2]) == (1, 6, True, 16)
    assert (classes.mean_weight, number.mean_weight) == ("1", "0.6")


def test_choices_are_kept() -> None:
    given = planned(label="town", dimension=2, radius=Fraction(1), bins=0, covariance="per_class")
    assert (given.dimension, given.covariance, given.bins) == (2, "per_class", (0,) * 5)
    assert (
        measurement_of(given)
        .clipping_rule()
        .startswith("mapped rows are projected to 2 of 4 dimensions and shrunk to norm")
    )
    assert given.frame_seed == base64url(SEED)
    frame = given.public_frame()
    assert frame is not None
    assert frame.shape == (4, 2)
    assert float(fraction(given.row_bound)) == pytest.approx(float(stats.beta.ppf(0.95, 1, 1)) ** 0.5, rel=1e-9)


@pytest.mark.parametrize(
    ("choices", "complaint"),
    [
        ({"label": "village"}, "label 'village' is not one of the columns"),
        ({"dimension": 8}, "between 1 and the 7 features, got 8"),
        ({"dimension": -1}, "between 1 and the 7 features, got -1"),
        ({"radius": Fraction(-1)}, "radius must be positive, got -1"),
        ({"radius": Fraction(0)}, "radius must be positive, got 0"),
    ],
)
def test_choices_that_do_not_fit_are_refused(choices: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidTaskError, match=complaint):
        planned(**choices)


def test_a_label_alone_is_refused() -> None:
    with pytest.raises(InvalidTaskError, match="besides the label"):
        plan_ron_gauss(claim(), [TOWN], JointQuestion(label="town"), SEED)


def test_a_frame_that_takes_too_long_is_refused_before_it_is_made() -> None:
    columns = [Column(name=f"c{number}", lower="-1", upper="1") for number in range(2000)]
    with pytest.raises(InvalidTaskError, match="too long"):
        plan_ron_gauss(claim(), columns, JointQuestion(dimension=1000), SEED)
