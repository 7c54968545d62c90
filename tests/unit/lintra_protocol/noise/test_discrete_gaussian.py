"""The discrete Gaussian: the same samples as the plain form, exact at every border where a word decides."""

import io
import math
from typing import cast

import numpy as np
import plain_gaussian as reference
import pytest

from lintra_protocol.crypto.randomness import RandomBytes, expand
from lintra_protocol.noise import discrete_gaussian as noise
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA, discrete_gaussian

SEED = bytes(range(32))
# First 128 bits of exp(-1), from its published hexadecimal expansion.
EXP_MINUS_ONE = 0x5E2D58D8B3BCDF1ABADEC7829054F90D


def words_of(*words: int) -> noise._Words:
    """Give these words, then zeros."""
    return noise._Words(io.BytesIO(b"".join(word.to_bytes(8, "little") for word in words) + bytes(512)).read, 1)


def awkward(label: str, one_in: int, values: list[int]) -> RandomBytes:
    """Replace one word in `one_in` of a stream by one of `values`, so that rare branches become common ones."""
    stream, choices = expand(SEED, label), expand(SEED, label + " choices")

    def read(count: int) -> bytes:
        drawn = np.frombuffer(stream(count), "<u8").copy()
        choice = np.frombuffer(choices(count), "<u8")
        chosen = (choice >> np.uint64(32)) % np.uint64(one_in) == 0
        drawn[chosen] = np.array(values, "<u8")[choice[chosen] % np.uint64(len(values))]
        return drawn.tobytes()

    return read


def gaussian_law(sigma: float, reach: int) -> list[float]:
    weights = [math.exp(-x * x / (2 * sigma * sigma)) for x in range(reach + 1)]
    total = math.fsum([weights[0], *weights[1:], *weights[1:]])
    return [weight / total for weight in weights]


@pytest.mark.parametrize("sigma", [1, 2, 3, 10, 3000, 1 << 20, 1 << 28, MAX_SIGMA])
@pytest.mark.parametrize("count", [1, 12, 80, 600])
def test_the_vectorised_form_gives_the_samples_of_the_plain_form(sigma: int, count: int) -> None:
    label = f"twin {sigma} {count}"
    expected = reference.samples(count, sigma, reference.reader(expand(SEED, label)))
    assert discrete_gaussian(count, sigma, expand(SEED, label)).tolist() == expected


@pytest.mark.parametrize("sigma", [2, MAX_SIGMA])
def test_the_forms_agree_across_the_border_of_a_block(sigma: int) -> None:
    expected = reference.samples(12_000, sigma, reference.reader(expand(SEED, "blocks")))
    assert discrete_gaussian(12_000, sigma, expand(SEED, "blocks")).tolist() == expected


@pytest.mark.parametrize("sigma", [1, 7, 1 << 20, MAX_SIGMA])
@pytest.mark.slow
def test_the_forms_agree_on_words_that_tie_overflow_and_must_be_redrawn(sigma: int) -> None:
    values = [0, 1, 2**64 - 1, 2**64 - 2, 2**63, *(reference.power(j, 64) for j in (1, 2, 3, 7, 8, 9, 20, 24))]
    expected = reference.samples(500, sigma, reference.reader(awkward("awkward", 6, values)))
    assert discrete_gaussian(500, sigma, awkward("awkward", 6, values)).tolist() == expected


def test_the_forms_agree_on_series_longer_than_the_vectorised_trials() -> None:
    b = 2 * MAX_SIGMA**2
    numerators = [b - lane for lane in range(200)]
    zeros = bytes(8 * 200 * noise.VECTOR_TRIALS)  # every trial succeeds on the word 0
    data = zeros + expand(SEED, "end of the series")(8 * 10_000)
    expected = reference.bernoulli_exp(numerators, b, reference.reader(io.BytesIO(data).read))
    result = noise._bernoulli_exp(np.array(numerators, np.uint64), b, noise._Words(io.BytesIO(data).read, 1))
    assert result.tolist() == expected
    assert 0 < sum(expected) < 200


def test_the_law_at_sigma_2_has_the_published_probabilities() -> None:
    law = gaussian_law(2, 40)
    published = [0.199471140201, 0.176032663382, 0.120985362260, 0.064758797833, 0.026995483257]
    assert law[:5] == pytest.approx(published, rel=0, abs=1e-12)


def test_a_trial_accepts_exactly_a_q_of_the_k_b_q_words_it_does_not_redraw() -> None:
    for numerator, denominator in [(1, 3), (5, 7), (2**58, 2**59), (MAX_SIGMA**2, 2 * MAX_SIGMA**2), (0, 1), (1, 1)]:
        step = (2**64 - 1) // denominator
        if numerator:
            assert noise._bernoulli(numerator, denominator, words_of(numerator * step - 1))
        if numerator < denominator:
            assert not noise._bernoulli(numerator, denominator, words_of(numerator * step))
            assert not noise._bernoulli(numerator, denominator, words_of(denominator * step - 1))
        redrawn = [denominator * step, 2**64 - 1]
        assert noise._bernoulli(numerator, denominator, words_of(*redrawn, 0)) is (numerator > 0)


def test_a_trial_beyond_64_bits_compares_two_words() -> None:
    denominator = 33 * 2 * (MAX_SIGMA + 1) ** 2
    assert denominator > 2**64
    step = (2**128 - 1) // denominator
    for draw, accepted in [(3 * step - 1, True), (3 * step, False)]:
        assert noise._bernoulli(3, denominator, words_of(draw >> 64, draw & (2**64 - 1))) is accepted


@pytest.mark.parametrize("numerators", [[1] * 5, [4] * 5])
def test_the_vectorised_trial_has_the_same_borders(numerators: list[int]) -> None:
    step = (2**64 - 1) // 5
    border = numerators[0] * step
    # One word for each lane; only the second lane goes on, fails its second trial, and so is refused.
    draws = [border, border - 1, border, 5 * step - 1, 2**64 - 1, 5 * step - 1, 2**63]
    result = noise._bernoulli_exp(np.array(numerators, np.uint64), 5, words_of(*draws))
    assert result.tolist() == [True, False, True, True, True]


def test_digits_of_exp_are_those_of_the_constant() -> None:
    assert noise._exp_digits(1, 128) == EXP_MINUS_ONE
    assert noise._exp_digits(1, 64) == EXP_MINUS_ONE >> 64
    assert noise._POWERS[1] == EXP_MINUS_ONE >> 64
    for exponent in [*range(2, 50), 300]:
        for bits in (64, 192, 512):
            assert noise._exp_digits(exponent, bits) == reference.power(exponent, bits)


def test_a_tie_with_exp_minus_one_is_decided_by_the_next_digits() -> None:
    top, next_digits = EXP_MINUS_ONE >> 64, EXP_MINUS_ONE & (2**64 - 1)
    assert noise._below_power(top, 1, words_of(next_digits - 1))
    assert not noise._below_power(top, 1, words_of(next_digits + 1))
    assert noise._below_power(top, 1, words_of(next_digits, 0))  # a second tie, and a third word that is smaller
    assert not noise._below_power(top, 1, words_of(next_digits, 2**64 - 1))
    assert noise._geometric(top, words_of(next_digits - 1)) == 1
    assert noise._geometric(top, words_of(next_digits + 1)) == 0


def test_a_word_gives_the_number_of_powers_above_it() -> None:
    for steps in range(1, 30):
        border = reference.power(steps, 64)
        assert noise._geometric(border - 1, words_of()) == steps
        assert noise._geometric(border + 1, words_of()) == steps - 1


def test_a_candidate_too_large_for_64_bits_is_judged_at_once_and_passes_the_later_steps_untouched() -> None:
    sigma, start = MAX_SIGMA, 2 * 5 + 1
    first = reference.power(9, 64) + 1  # v = 8
    refused_by_power = words_of(2**64 - 1)
    refused_by_series = words_of(0, 0, 2**64 // 2)  # the first trial succeeds, so the second one fails too late
    kept = words_of(0, 2**63 + 2**62)  # the first trial fails: its probability is about one half
    assert noise._settle_steps(start, first, sigma, refused_by_power) == (1, 0)
    assert noise._settle_steps(start, first, sigma, refused_by_series) == (1, 0)
    assert noise._settle_steps(start, first, sigma, kept) == (start + 2 * sigma * 8, 0)


def test_quotients_and_exponents_of_the_largest_vectorised_candidate_fit_in_64_bits() -> None:
    u, v = MAX_SIGMA - 1, noise.LARGE_V - 1
    largest = 2 * MAX_SIGMA * u + (u + MAX_SIGMA * (v - 1)) ** 2
    assert largest < 2**64
    assert largest // (2 * MAX_SIGMA**2) <= noise.MAX_QUOTIENT
    assert noise.VECTOR_TRIALS * 2 * MAX_SIGMA**2 < 2**64


@pytest.mark.parametrize(
    ("shape", "expected"), [(5, (5,)), ((3, 4), (3, 4)), ((), ()), (0, (0,)), ((2, 0, 3), (2, 0, 3))]
)
def test_samples_are_int64_of_the_shape_asked_for(shape: int | tuple[int, ...], expected: tuple[int, ...]) -> None:
    sample = discrete_gaussian(shape, 3, expand(SEED, "shape"))
    assert sample.shape == expected
    assert sample.dtype == np.int64


def test_equal_seeds_give_equal_samples_and_others_do_not() -> None:
    first = discrete_gaussian((40, 5), 30, expand(SEED, "a"))
    np.testing.assert_array_equal(first, discrete_gaussian((40, 5), 30, expand(SEED, "a")))
    np.testing.assert_array_equal(first.ravel(), discrete_gaussian(200, 30, expand(SEED, "a")))
    assert (first != discrete_gaussian((40, 5), 30, expand(SEED, "b"))).any()


def test_sigma_may_be_any_integer_type() -> None:
    for sigma in (np.int64(9), np.uint8(9), np.int32(9)):
        sample = discrete_gaussian(50, cast("int", sigma), expand(SEED, "type"))
        np.testing.assert_array_equal(sample, discrete_gaussian(50, 9, expand(SEED, "type")))


@pytest.mark.parametrize("sigma", [0, -1, MAX_SIGMA + 1, 2**70, 3.0, "3", None, True, np.float64(2)])
def test_a_sigma_that_is_no_integer_in_range_is_refused(sigma: int) -> None:
    with pytest.raises(ValueError, match="sigma"):
        discrete_gaussian(3, sigma, expand(SEED, "bad"))


@pytest.mark.parametrize("shape", [-1, (2, -3)])
def test_a_negative_dimension_is_refused(shape: int | tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="negative dimension"):
        discrete_gaussian(shape, 3, expand(SEED, "bad"))
