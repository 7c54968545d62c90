"""A client's share of Laplace noise: its law by enumeration, words that tie, and what is refused."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.noise.discrete_laplace import MAX_SCALE, laplace_shares


def words(*values: int) -> Callable[[int], bytes]:
    """Return a source that gives these words, and then no more."""
    left = list(values)

    def take(count: int) -> bytes:
        taken = b"".join(left.pop(0).to_bytes(8, "little") for _ in range(count // 8))
        assert len(taken) == count
        return taken

    return take


def then_zeros(values: list[int]) -> Callable[[int], bytes]:
    """Return a source that gives these words, and then zeros, by which ties are settled downwards."""
    stream = BytesIO(b"".join(value.to_bytes(8, "little") for value in values))
    return lambda count: stream.read(count).ljust(count, b"\0")


@cache
def borders(scale: int, shares: int, count: int) -> list[int]:
    """Return the first words at which a positive part is at least 1, 2, .., by bisection over all words."""
    ends = [(-1, 2**64)] * count
    for _ in range(65):
        middles = [(low + high) // 2 for low, high in ends]
        inner = [max(middle, 0) for middle in middles]
        drawn = laplace_shares((count,), scale, shares, then_zeros(inner)).tolist()
        for place, middle in enumerate(middles):
            low, high = ends[place]
            if high - low > 1:
                ends[place] = (low, middle) if drawn[place] >= place + 1 else (middle, high)
    return [high for _, high in ends]


def law_of(scale: int, shares: int, count: int) -> FloatArray:
    """Return the probabilities of the values 0 to count - 1 of a positive part, as the sampler has them."""
    ends = [0, *borders(scale, shares, count)]
    return np.array([(b - a) / 2**64 for a, b in pairwise(ends)])


@pytest.mark.parametrize(("scale", "shares"), [(5, 1), (2, 3), (4, 2), (3, 50)])
def test_every_probability_is_that_of_the_negative_binomial_to_the_last_bit_of_a_word(scale: int, shares: int) -> None:
    chance, exact = (scale + 1) ** (-1 / shares), []
    ratio = Fraction(1)
    for value in range(12):
        exact.append(chance * float(ratio))
        ratio *= Fraction(scale * (value * shares + 1), (scale + 1) * shares * (value + 1))
    np.testing.assert_allclose(law_of(scale, shares, 12), exact, rtol=1e-13, atol=2**-62)


def whole(scale: int, shares: int, clients: int, far: int = 120) -> FloatArray:
    """Return the law of the sum of so many clients' shares at -far, .., far, from the sampler's own probabilities."""
    part = law_of(scale, shares, far)
    one = np.convolve(part, part[::-1])
    found = one
    for _ in range(clients - 1):
        found = np.convolve(found, one)
    middle = found.size // 2
    return found[middle - far : middle + far + 1]


def test_the_shares_of_h_clients_are_discrete_laplace_and_those_of_fewer_or_of_another_scale_are_not() -> None:
    far, scale, shares = 20, 3, 3
    law = np.array([(scale / (scale + 1)) ** abs(x) / (2 * scale + 1) for x in range(-far, far + 1)])
    np.testing.assert_allclose(whole(scale, shares, 3)[100:141], law, rtol=1e-9)
    assert np.abs(whole(scale, shares, 2)[100:141] / law - 1).max() > 0.1
    assert np.abs(whole(scale + 1, shares, 3)[100:141] / law - 1).max() > 0.1


def test_no_value_of_the_whole_noise_loses_more_than_pure_epsilon_and_without_one_client_some_do() -> None:
    scale, shares, shift = 3, 3, 4
    epsilon = shift * math.log1p(1 / scale)

    def largest(clients: int) -> float:
        found = whole(scale, shares, clients)[80:161]
        return float(np.log(found[shift:] / found[:-shift]).max())

    assert largest(3) == pytest.approx(epsilon, rel=1e-9)
    assert largest(5) <= epsilon * (1 + 1e-9)
    assert largest(2) > epsilon * 1.05


def test_a_word_that_equals_the_digits_of_a_border_is_settled_by_further_ones() -> None:
    (first,) = borders(4, 2, 1)
    tie = first - 1  # a tie settled downwards stands one word below
    low, high = (laplace_shares((1,), 4, 2, words(tie, 0, more))[0] for more in (0, 2**64 - 1))
    assert (low, high) == (0, 1)
    with pytest.raises(IndexError):
        laplace_shares((1,), 4, 2, words(tie, 0))


def test_the_positive_parts_read_their_words_before_the_negative_ones() -> None:
    (first,) = borders(4, 2, 1)
    assert laplace_shares((2,), 4, 2, words(first, 0, 0, first)).tolist() == [1, -1]


def test_the_largest_word_is_far_out_in_the_tail_and_comes_to_an_end() -> None:
    found = laplace_shares((1,), 2, 5, words(2**64 - 1, 0, 0))
    assert 90 < found[0] < 130


@pytest.mark.parametrize("wrong", [0, -1, 2**40, 1.5, True, "4", None])
@pytest.mark.parametrize("place", [0, 1])
def test_a_parameter_that_is_no_whole_number_in_range_is_refused(wrong: Any, place: int) -> None:
    scale, shares = (wrong, 4) if place == 0 else (4, wrong)
    with pytest.raises(ValueError, match=("scale", "shares")[place]):
        laplace_shares((1,), scale, shares, bytes)
    with pytest.raises(ValueError, match="dimension"):
        laplace_shares((-1,), 4, 4, bytes)


def test_no_share_is_drawn_for_no_report_and_the_largest_scale_works() -> None:
    assert laplace_shares((0, 3), 4, 4, words()).shape == (0, 3)
    middle = laplace_shares((1,), MAX_SCALE, 1, words(2**63, 0))
    assert middle[0] == pytest.approx(math.log(2) * MAX_SCALE, rel=1e-3)
