"""The one root-finder: its answer lies where the condition holds, and no further from the edge than it says."""

import math
from collections.abc import Callable

import pytest

from lintra_protocol.privacy.bisection import (
    bisect,
    bisect_whole,
    enclose,
    furthest,
    log_excess,
    narrow,
    retreat,
    smallest_whole,
)

# Smooth, kinked, steep, flat and stepwise; each is 0 at 0.3 within its digits, and grows.
EXCESSES: dict[str, Callable[[float], float]] = {
    "line": lambda x: x - 0.3,
    "exponential": lambda x: math.expm1(40 * (x - 0.3)),
    "logarithm": lambda x: math.log(max(x, 1e-300) / 0.3),
    "kink": lambda x: x - 0.3 if x < 0.3 else 1e6 * (x - 0.3),
    "cube": lambda x: (x - 0.3) ** 3,
    "step": lambda x: -1.0 if x <= 0.3 else 1.0,
    "cliff": lambda x: -1e-12 if x <= 0.3 else math.inf,
    "not a number beyond": lambda x: x - 0.3 if x <= 0.3 else math.nan,
}


@pytest.mark.parametrize("name", EXCESSES)
@pytest.mark.parametrize("width", [1e-3, 1e-9, 1e-13])
def test_narrowing_ends_inside_and_within_the_width_of_the_edge(name: str, width: float) -> None:
    excess, calls = EXCESSES[name], 0

    def counted(x: float) -> float:
        nonlocal calls
        calls += 1
        return excess(x)

    inside, outside = narrow(0.0, 1.0, counted, width=width)
    assert excess(inside) <= 0
    assert not excess(outside) <= 0
    assert 0 < outside - inside <= width
    # The two ends, as many steps as halves take, and one more.
    assert calls <= 2 + math.ceil(math.log2(1 / width)) + 1


def test_narrowing_a_smooth_function_takes_a_third_of_the_steps_of_halves() -> None:
    calls = []
    narrow(0.0, 1.0, lambda x: calls.append(x) or math.expm1(x - 0.3), width=1e-12)
    assert len(calls) <= 14


def test_the_inside_may_be_the_upper_end() -> None:
    for inside, outside in (
        narrow(1.0, 0.0, lambda x: 0.3 - x, width=1e-12),
        bisect(1.0, 0.0, lambda x: x >= 0.3, width=1e-12),
    ):
        assert outside < 0.3 <= inside <= outside + 1e-12


def test_narrowing_refuses_ends_that_are_not_on_their_sides() -> None:
    for excess in (lambda x: 1.0, lambda x: -1.0, lambda x: math.nan):
        with pytest.raises(ValueError, match="no bracket"):
            narrow(0.0, 1.0, excess, width=1e-9)
    with pytest.raises(ValueError, match="positive width"):
        narrow(0.0, 1.0, lambda x: x - 0.3, width=0.0)


def test_halves_end_at_neighbouring_doubles() -> None:
    inside, outside = bisect(0.0, 8.0, lambda x: x * x <= 2)
    assert inside * inside <= 2 < outside * outside
    assert outside == math.nextafter(inside, math.inf)


def test_what_is_returned_was_seen_to_hold_also_where_the_condition_is_not_monotone() -> None:
    def ragged(x: float) -> bool:
        return math.sin(1e9 * x) > 0 or x < 0.1

    inside, outside = bisect(0.0, 1.0, ragged)
    assert ragged(inside)
    assert not ragged(outside)


@pytest.mark.parametrize("edge", [1, 2, 3, 17, 1000, 2**40 + 1])
def test_whole_numbers_are_found_exactly(edge: int) -> None:
    assert smallest_whole(1, lambda k: k >= edge) == edge
    assert smallest_whole(1, lambda k: k >= edge, most=2**41) == edge
    assert bisect_whole(0, 2**41, lambda k: k < edge) == edge - 1
    assert bisect_whole(2**41, 0, lambda k: k >= edge) == edge


@pytest.mark.parametrize("guess", [1, 2, 990, 1000, 1003, 2**50])
def test_a_guess_changes_the_number_of_steps_and_not_the_answer(guess: int) -> None:
    asked: list[int] = []

    def holds(k: int) -> bool:
        asked.append(k)
        return k >= 1000

    assert smallest_whole(3, holds, guess=guess) == 1000
    assert 999 in asked
    assert 1000 in asked
    assert len(asked) <= 2 * max(1, abs(guess - 1000)).bit_length() + 3
    assert smallest_whole(3, lambda k: k >= 2, guess=guess) == 3
    assert smallest_whole(3, lambda k: k >= 1000, most=1000, guess=guess) == 1000
    with pytest.raises(ValueError, match="up to 999"):
        smallest_whole(3, lambda k: k >= 1000, most=999, guess=guess)


def test_a_whole_number_that_nothing_satisfies_is_refused_and_the_last_candidate_is_tried() -> None:
    assert smallest_whole(3, lambda k: k >= 100, most=100) == 100
    with pytest.raises(ValueError, match="up to 99"):
        smallest_whole(3, lambda k: k >= 100, most=99)


@pytest.mark.parametrize("start", [1e-6, 0.3, 1.0, 1e9])
@pytest.mark.parametrize("edge", [1e-7, 0.3, 12345.678])
def test_the_furthest_number_is_the_largest_or_the_smallest_inside(start: float, edge: float) -> None:
    largest = furthest(start, lambda x: x / edge - 1, width=1e-12)
    assert edge * (1 - 1e-11) <= largest <= edge
    smallest = furthest(start, lambda x: edge / x - 1, width=1e-12, factor=0.5)
    assert edge <= smallest <= edge * (1 + 1e-11)


def test_the_furthest_number_counts_what_is_not_a_number_as_outside() -> None:
    found = furthest(1.0, lambda x: x - 5 if x < 4 else math.nan, width=1e-12)
    assert 4 * (1 - 1e-11) <= found < 4


def test_an_edge_that_is_not_there_is_said() -> None:
    with pytest.raises(ValueError, match="everywhere"):
        enclose(1.0, lambda x: True)
    with pytest.raises(ValueError, match="nowhere"):
        enclose(1.0, lambda x: False)


def test_retreating_stops_at_the_first_place_that_satisfies_the_stricter_condition() -> None:
    assert retreat(1.0, -0.125, lambda x: x <= 1) == 1.0
    assert retreat(1.0, -0.125, lambda x: x <= 0.7) == 0.625
    with pytest.raises(ValueError, match="nowhere"):
        retreat(1.0, 1e-3, lambda x: False)


def test_the_logarithm_of_an_excess_never_errs_about_the_side() -> None:
    for most in (1e-15, 1e-6, 0.1, 0.3):
        assert log_excess(most, most) == 0
        assert log_excess(math.nextafter(most, 1), most) > 0
        assert log_excess(math.nextafter(most, 0), most) <= 0
    assert log_excess(0.0, 1e-6) < -600
    assert log_excess(math.nan, 1e-6) == math.inf
    assert log_excess(2e-6, 1e-6) == pytest.approx(math.log(2))
