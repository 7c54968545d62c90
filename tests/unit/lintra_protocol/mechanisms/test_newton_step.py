"""`newton_step`: no pair of integer rows lies farther apart than Theorem G1 says, and some pair does lie so far.

The search below was written from the theorem's words, and shares no code with the encoder.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms import NewtonStep
from lintra_protocol.mechanisms.newton_residuals import integer_residuals, largest_ratio
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.statement import Neighbours
from support import source
from support.measured import ANY_CLAIM, measurement_of

AFTER = "A" * 43


def mechanism(**changes: object) -> NewtonStep:
    values = {
        "row_bound": "1",
        "fraction_bits": 10,
        "sigma": 1000,
        "target": 2,
        "intercept": "0.5",
        "residual_bits": 8,
        "parameter": ("0.5", "-1", "2"),
        "after": AFTER,
    }
    return NewtonStep.model_validate(values | changes)


START = {"parameter": ("0", "0", "0"), "after": None}


# --- a search that knows nothing of the encoder -----------------------------------------------------------------


def lattice(size: int, square: int) -> list[tuple[int, ...]]:
    """Return integer rows of at most this squared norm; of a row and its negative only one."""
    reach = math.isqrt(square)
    rows = itertools.product(range(-reach, reach + 1), repeat=size)
    return [row for row in rows if sum(x * x for x in row) <= square and row >= tuple(-x for x in row)]


def every_report(
    size: int, square: int, bits: int, gamma: float, *, levels: list[int] | None = None, extra: int = 0
) -> FloatArray:
    """Return all noiseless reports of all rows and roundings, in multiples of the noise, shape `(k, w)`.

    By convexity the multiples -t, 0 and t are enough. `extra` makes every weight too large by so much.
    """
    one, reports = 2**bits, []
    for level in range(one + 1) if levels is None else levels:
        exact = Fraction(level * (one - level), one)
        for weight in {math.floor(exact), math.ceil(exact) + extra}:
            for sign in (-1, 0, 1):
                for row in lattice(size, square):
                    gradient = [gamma * sign * level * x for x in row]
                    pairs = itertools.combinations_with_replacement(range(size), 2)
                    hessian = [weight * row[i] * row[j] / (math.sqrt(2) if i == j else 1.0) for i, j in pairs]
                    reports.append(gradient + hessian)
    return np.unique(np.array(reports, np.float64), axis=0)


def farthest(reports: FloatArray) -> float:
    """Return the largest squared distance of any two."""
    squares, largest = np.square(reports).sum(axis=1), 0.0
    for start in range(0, len(reports), 2000):
        some = slice(start, start + 2000)
        distances = squares[some, np.newaxis] + squares - 2 * reports[some] @ reports.T
        largest = max(largest, float(distances.max()))
    return largest


SMALL = [(2, 20, 4), pytest.param(2, 61, 5, marks=pytest.mark.slow), pytest.param(3, 9, 4, marks=pytest.mark.slow)]
"""Columns, R and h of searches; on R lies an integer row."""


@pytest.mark.parametrize(("size", "square", "bits"), SMALL)
@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_no_pair_of_integer_rows_passes_the_bound_and_one_reaches_it(
    size: int, square: int, bits: int, neighbours: Neighbours
) -> None:
    # With Gamma as a real number, so that beta is exactly the largest that is allowed.
    gamma = math.sqrt(square / (2 * float(largest_ratio(bits, neighbours))))  # type: ignore[arg-type]
    reports = every_report(size, square, bits, gamma)
    bound = (4 if neighbours == "replace-one" else 1) * gamma**2 * 4**bits * square
    found = farthest(reports) if neighbours == "replace-one" else float(np.square(reports).sum(axis=1).max())
    assert 0.98 * bound <= found <= bound * (1 + 1e-12)


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_a_gradient_with_less_weight_or_a_larger_hessian_passes_the_bound(neighbours: Neighbours) -> None:
    size, square, bits = 2, 20, 4
    gamma = math.sqrt(square / (2 * float(largest_ratio(bits, neighbours))))  # type: ignore[arg-type]

    def share(reports: FloatArray, gamma: float) -> float:
        squares = float(np.square(reports).sum(axis=1).max())
        found, times = (farthest(reports), 4) if neighbours == "replace-one" else (squares, 1)
        return found / (times * gamma**2 * 4**bits * square)

    assert share(every_report(size, square, bits, 0.98 * gamma), 0.98 * gamma) > 1.001
    assert share(every_report(size, square, bits, gamma, extra=1), gamma) > 1.001
    # The factor u in the Hessian alone: gradients of a row that is longer than the bound.
    long = every_report(size, square + 5, bits, gamma)
    assert share(long, gamma) > 1.001


def test_at_the_parameter_0_the_bound_is_reached_and_elsewhere_it_is_passed() -> None:
    start = mechanism(**START, row_bound="18.0278", fraction_bits=0, intercept="1")
    assert (start.gradient_factor, start.squared_bound) == (5, 325)
    one = 2**start.residual_bits
    reports = every_report(2, 325, start.residual_bits, 5, levels=[one // 2])
    stated = float(start.squared_distance("replace-one", 3, Setting()))
    assert 0.98 * stated <= farthest(reports) <= stated
    null = float(start.squared_distance("zero-out", 3, Setting()))
    assert float(np.square(reports).sum(axis=1).max()) == null
    # An exposure or an offset would give residuals other than one half.
    assert farthest(every_report(2, 325, start.residual_bits, 5, levels=[one])) > 2 * stated


@pytest.mark.parametrize("bits", [8, 9, 10, *(pytest.param(bits, marks=pytest.mark.slow) for bits in (11, 12))])
def test_two_full_weights_keep_the_bound(bits: int) -> None:
    one = 2**bits
    levels = np.arange(one + 1) / one
    weights = -(-np.arange(one + 1) * (one - np.arange(one + 1)) // one) / one
    beta, inner = float(largest_ratio(bits, "replace-one")), 0.0
    for level, weight in zip(levels.tolist(), weights.tolist(), strict=True):
        linear, square = 2 * level * levels, 2 * beta * weight * weights
        cosine = np.where(2 * square > linear, linear / np.maximum(2 * square, 1e-300), 1.0)
        found = level**2 + levels**2 + linear * cosine + beta * (weight**2 + weights**2) - square * cosine**2
        assert found.max() <= 4 * (1 + 1e-12)
        inner = max(inner, float(found[cosine < 1].max(initial=0.0)))
    assert inner < 3.66


def test_the_numbers_of_the_note_come_out() -> None:
    gammas = {
        (bits, neighbours): mechanism(residual_bits=bits, neighbours=neighbours).gradient_factor
        for bits in (8, 10, 12)
        for neighbours in ("replace-one", "zero-out")
    }
    assert list(gammas.values()) == [149, 221, 147, 219, 146, 218]
    ratios = [float(largest_ratio(bits, "replace-one")) for bits in (8, 10, 12)]
    assert ratios == pytest.approx([23.905487, 24.476378, 24.628914], abs=1e-6)
    nulls = [float(largest_ratio(bits, "zero-out")) for bits in (8, 10, 12)]
    assert nulls == pytest.approx([10.798907, 11.009255, 11.068292], abs=1e-6)
    for bits, distance, sigma in ((8, 78118912, 330027318), (10, 308281344, 1302389686)):
        square = mechanism(residual_bits=bits).squared_distance("replace-one", 3, Setting())
        assert square == distance**2
        assert distance / gaussian_mu(1, 1e-6) == pytest.approx(sigma, rel=1e-8)
    start = mechanism(**START)
    assert start.gradient_factor == 256
    assert start.squared_distance("replace-one", 3, Setting()) == Fraction(25, 16) * 2**52
    # Made for null rows a report still keeps the bound of replaced rows.
    null = mechanism(neighbours="zero-out")
    assert null.squared_distance("replace-one", 3, Setting()) == 4 * null.squared_distance("zero-out", 3, Setting())


# --- the encoder ------------------------------------------------------------------------------------------------


def drawn(residual: float, factor: float, bits: int = 8, count: int = 100_000) -> list[FloatArray]:
    words = np.frombuffer(source("dither")(12 * count), "<u4").reshape(-1, 3)
    return list(integer_residuals(np.full(count, residual), np.full(count, factor), bits, words))  # type: ignore[arg-type]


def test_the_roundings_have_the_right_mean_and_rounding_to_nearest_has_not() -> None:
    levels, multiples, weights = drawn(-0.3, 0.7)
    assert set(levels.tolist()) == {76, 77}
    assert set(weights[levels == 77].tolist()) == {53, 54}

    def off(values: FloatArray, mean: float) -> float:
        return abs(float(values.mean()) - mean) / (float(values.std()) / len(values) ** 0.5)

    # Four deviations each: a false alarm in 1 of 5,000 seeds; a mean that is off by .05 of a step is 20 of them.
    assert off(levels, 76.8) < 4
    assert off(multiples, -76.8 * 0.7) < 4
    assert off(weights[levels == 77], 77 * 179 / 256) < 4
    assert off(levels, 77) > 20
    assert off(weights[levels == 77], 53) > 20
    ends = drawn(1.0, 1.0)
    assert [set(each.tolist()) for each in ends] == [{256}, {256}, {0}]


def test_a_weight_of_the_residual_itself_passes_what_the_integer_residual_allows() -> None:
    """The bound rests on om being at most the integer above t (2^h - t)/2^h, for the t that is sent, whatever U is."""
    one, residual = 2**8, np.linspace(0, 1, 2001)
    words = np.array(list(itertools.product((0, 2**32 - 1), repeat=3)), np.uint32)
    passed = False
    for word in words:
        dithers = np.tile(word, (len(residual), 1))
        levels, _, weights = integer_residuals(residual, np.ones_like(residual), 8, dithers)
        allowed = -(-(levels * (one - levels)) // one)
        assert (weights <= allowed).all()
        of_the_residual = np.floor(one * residual * (1 - residual) + word[2] / 2**32)
        passed |= bool((of_the_residual > allowed).any())
    assert passed


parameters = st.one_of(
    st.sampled_from(["0", "0.0000000000000000000000000000000000000001", "1000000", "-1000000", "-0.5"]),
    st.integers(-(10**6), 10**6).map(str),
)


@settings(max_examples=40)
@given(
    st.tuples(parameters, parameters, parameters),
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=3, max_size=3),
    st.integers(0, 2**32 - 1),
)
def test_whatever_parameter_and_row_are_the_integers_keep_their_bounds(
    parameter: tuple[str, str, str], row: list[float], word: int
) -> None:
    asked = mechanism(parameter=parameter)
    words = word.to_bytes(4, "little") * 3
    steps = asked.clip(np.array([row]), Setting(), lambda size: words[:size])[0]
    vector, multiple, weight = steps[:-2], int(steps[-2]), int(steps[-1])
    one = 2**asked.residual_bits
    assert int(vector @ vector) <= asked.squared_bound
    assert abs(multiple) <= one
    assert 0 <= weight <= one // 4
    if not np.isfinite(row).all():
        assert not steps.any()
    if asked.is_start and steps.any():
        assert (abs(multiple) <= one // 2, weight) == (True, one // 4)
    report = measurement_of(asked, 3, ANY_CLAIM).exact_reports(np.array([row]), None, lambda size: words[:size])[0]
    assert sum(int(x) ** 2 for x in report) <= asked.squared_length(3, Setting())


@pytest.mark.parametrize("spelling", ["-0", "0.0", "1e3", "nan", "inf", "+1", "1.", "", "00"])
def test_a_parameter_that_is_spelled_otherwise_is_no_document(spelling: str) -> None:
    with pytest.raises(ValidationError):
        mechanism(parameter=("0", spelling, "0"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameter": ("1", "1000000.5", "0")}, "parameter: a number is larger than 1000000"),
        ({"parameter": ("1", "0")}, "parameter: 2 numbers; give 3"),
        ({"after": None}, "after: a parameter other than 0 names the task"),
        ({"target": 3}, "target 3 is not the number of one of 3 columns"),
        ({"intercept": "0"}, "intercept 0: the model's constant lies above 0"),
        ({"intercept": "1"}, "intercept 1: the model's constant lies above 0"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_words(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidTaskError, match=words):
        mechanism(**changes).check_options(ANY_CLAIM, 3, Setting())


def test_a_tiny_parameter_is_not_the_start_though_every_residual_is_one_half() -> None:
    tiny = mechanism(parameter=("0.0000000000000000000000000000000000000001", "0", "0"))
    assert not tiny.is_start
    assert tiny.squared_distance("replace-one", 3, Setting()) == 4 * 149**2 * 2**36
    assert mechanism(**START).is_start
