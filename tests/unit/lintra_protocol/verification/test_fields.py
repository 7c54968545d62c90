"""Arithmetic modulo the four primes, at its largest elements."""

import numpy as np
import pytest

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.verification.checks import passed_in
from lintra_protocol.verification.fields import PRIMES, FieldArray, fold, halve, inner, joined, reduced, summed, times
from lintra_protocol.verification.parameters import Parameters


@pytest.mark.parametrize(("words", "servers"), [(1, 2), (5, 3), (2041, 16), (5151, 2)])
def test_the_largest_check_shares_are_judged_as_plain_integers_are(words: int, servers: int) -> None:
    parameters = Parameters(words, servers, 2**62 - 1)
    largest = np.repeat(np.array(PRIMES, np.uint64) - np.uint64(1), parameters.check_elements)
    drawn = np.random.default_rng(2).integers(2**60 - 10**6, 2**60 - 400, largest.size, dtype=np.uint64)
    rows = np.stack([largest, drawn]).view(np.uint8)
    total = [[servers * int(number) for number in each] for each in (largest, drawn)]
    for row, found in zip(total, passed_in(parameters, [rows] * servers).T.tolist(), strict=True):
        assert found == [plain_passes(parameters, row, t) for t in range(4)]
    fitting = drawn.copy().reshape(4, -1)
    for t, prime in enumerate(PRIMES):
        own = [int(number) for number in fitting[t]]
        pairs = zip(own[: parameters.columns], own[parameters.columns : -1], strict=True)
        wanted = servers**2 * sum(f * g for f, g in pairs) - parameters.squared_bound
        fitting[t, -1] = wanted * pow(servers, -1, prime) % prime
    assert passed_in(parameters, [fitting.reshape(1, -1).view(np.uint8)] * servers).all()


def plain_passes(parameters: Parameters, total: list[int], t: int) -> bool:
    own = total[t * parameters.check_elements :][: parameters.check_elements]
    pairs = zip(own[: parameters.columns], own[parameters.columns : -1], strict=True)
    return (sum(f * g for f, g in pairs) - parameters.squared_bound - own[-1]) % PRIMES[t] == 0


def test_inner_products_of_128_numbers_are_exact_however_large_these_are() -> None:
    numbers: FieldArray = np.full((4, 128, 3), 2**64 - 1, np.uint64)
    numbers[:, :, 1] = 2**60 - 1
    numbers[:, ::3, 2] = np.uint64(2**60)
    expected = [
        [sum(int(n) ** 2 for n in numbers[t, :, k]) % prime for k in range(3)] for t, prime in enumerate(PRIMES)
    ]
    upper = np.empty_like(numbers)
    fold(numbers, upper)
    assert (numbers < np.uint64(2**60 + 2**13)).all()
    halve(numbers, upper)
    assert inner((upper, numbers), (upper, numbers)).tolist() == expected


@pytest.mark.parametrize("value_limbs", [2, 4, 5])
def test_the_largest_sums_of_products_of_limbs_are_put_together_exactly(value_limbs: int) -> None:
    products: FloatArray = np.full((4, 2, 3, value_limbs, 3), float(2**53 - 1))
    products[..., 1] = np.random.default_rng(3).integers(2**52, 2**53, products.shape[:-1])
    products[..., 2] = 0
    found = joined(products)
    weights = {(j, k): 1 << 20 * j + 16 * k for j in range(3) for k in range(value_limbs)}
    for t, prime in enumerate(PRIMES):
        for side in range(2):
            for last in range(3):
                total = sum(weight * int(products[t, side, j, k, last]) for (j, k), weight in weights.items())
                assert int(found[t, side, last]) == total % prime


def test_products_and_sums_of_the_largest_elements_are_exact() -> None:
    edge = [0, 1, 2, 2**30 - 1, 2**30, 2**59, *(2**60 - 400 - step for step in range(20))]
    for t, prime in enumerate(PRIMES):
        values = [*edge, prime - 1, prime - 2, (prime + 1) // 2]
        first, second = (each.ravel() for each in np.meshgrid(np.array(values, np.uint64), np.array(values, np.uint64)))
        found = times(np.stack([first] * 4), np.stack([second] * 4))[t]
        assert found.tolist() == [a * b % prime for a, b in zip(first.tolist(), second.tolist(), strict=True)]
        assert int(summed(np.full((4, 1 << 20), prime - 1, np.uint64))[t]) == (prime - 1) * (1 << 20) % prime
        large = np.array([[2**64 - 1, prime, prime - 1, 2 * prime, 0]] * 4, np.uint64)
        assert reduced(large)[t].tolist() == [number % prime for number in large[t].tolist()]
