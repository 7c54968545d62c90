"""What a client proves: that its padded row a has |a|^2 = R^2, by the coefficients of one polynomial in each field.

Column c of a is the polynomial f_c(X) = sum_k a_(kL+c) X^k + beta_c (X^K + i X^(K+1)) + gamma_c (X^(K+2) + i X^(K+3)),
with uniform blinds beta and gamma and i^2 = -1. In sum_c f_c(X) f_c(1/X) the constant term is |a|^2, blinds or not,
since beta^2 + (i beta)^2 = 0. The proof is the other coefficients P_1 .. P_(K+3); that of X^-d is that of X^d.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.verification.fields import (
    PRIMES,
    ROOTS,
    FieldArray,
    draw,
    joined,
    minus,
    over_primes,
    reduced,
    summed,
    times,
    weight_limbs,
)
from lintra_protocol.verification.padding import padded_rows
from lintra_protocol.verification.parameters import Parameters

_RAISE = 1 << 31
"""Added to every word, which lies between -2^31 and 2^31, so that none is negative."""

_NUMBERS_AT_ONCE = 1 << 15
"""Coefficients of the rows that are proven at once: a cache holds them, and what they are made of."""


_FEW_WORDS = 512
"""Up to so many padded words one row is proven with Python's integers: arrays would cost more than what is in them."""

_SLOT, _WIDE_SLOT = 64, 128
"""Bits for a sum of products of words, which is below R^2 < 2^62, and for one of words below 2^31 and elements."""


@dataclass(frozen=True)
class ProvenRows:
    """Some rows with their padding and proofs; `repr` shows none of them.

    `words` has shape `(k, W)`; `elements` are betas, gammas and coefficients, shape `(4, k, 2L + K + 3)`.
    """

    words: IntArray = field(repr=False)
    elements: FieldArray = field(repr=False)


def prove(parameters: Parameters, noised: IntArray, random_bytes: RandomBytes) -> ProvenRows:
    """Prove of noised rows, shape `(k, w)`, that none is too long.

    Args:
        parameters: of the task.
        noised: what is shared.
        random_bytes: a cryptographic source, for the blinds: field by field, of each row betas, then gammas.

    Raises:
        ValueError: a row is too long (see `padding.too_long`).
    """
    words = padded_rows(parameters, noised)
    blinds = draw(len(words), 2 * parameters.columns, random_bytes)
    elements = np.empty((len(PRIMES), len(words), parameters.elements), np.uint64)
    elements[..., : blinds.shape[2]] = blinds
    step = max(1, _NUMBERS_AT_ONCE // (len(PRIMES) * (parameters.powers + 3)))
    for start in range(0, len(words), step):
        some = slice(start, start + step)
        elements[:, some, blinds.shape[2] :] = proof_elements(parameters, words[some], blinds[:, some])
    return ProvenRows(words, elements)


def proof_elements(parameters: Parameters, words: IntArray, blinds: FieldArray) -> FieldArray:
    """Return P_1 .. P_(K+3) of each field, shape `(4, k, K + 3)`.

    `words` are padded rows, shape `(k, W)`, of squared norm R^2. `blinds` are betas, then gammas, shape `(4, k, 2L)`.
    """
    if len(words) == 1 and parameters.padded <= _FEW_WORDS:
        return np.array(_elements_of_one(parameters, words[0], blinds[:, 0].tolist()), np.uint64)[:, np.newaxis]
    powers, columns = parameters.powers, parameters.columns
    of_beta, of_gamma = _blinded_columns(parameters, words, blinds)
    beta, gamma = blinds[..., :columns], blinds[..., columns:]
    both = summed(times(beta, gamma))
    squares = reduced(summed(times(beta, beta)) + summed(times(gamma, gamma)))

    straight, turned = (np.zeros((len(PRIMES), len(words), powers + 3), np.uint64) for _ in range(2))
    straight[..., :powers] += of_beta[..., ::-1]
    straight[..., 2 : powers + 2] += of_gamma[..., ::-1]
    turned[..., 1 : powers + 1] += of_beta[..., ::-1]
    turned[..., 3 : powers + 3] += of_gamma[..., ::-1]
    turned[..., 0] += squares + both
    turned[..., 2] += both
    straight[..., : powers - 1] += _autocorrelation(parameters, words)
    return reduced(straight + times(reduced(turned), over_primes(ROOTS, 3)))


def _autocorrelation(parameters: Parameters, words: IntArray) -> FieldArray:
    """Return sum_i a_i a_(i + dL) for d = 1 .. K-1 as elements, shape `(4, k, K - 1)`: below R^2 as integers."""
    step, width = parameters.columns, parameters.padded
    found = np.empty((parameters.powers - 1, len(words)), np.int64)
    for place in range(parameters.powers - 1):
        lag = step * (place + 1)
        np.einsum("ij,ij->i", words[:, : width - lag], words[:, lag:], out=found[place])
    return np.stack([(found.T % prime).astype(np.uint64) for prime in PRIMES])


def _blinded_columns(parameters: Parameters, words: IntArray, blinds: FieldArray) -> tuple[FieldArray, FieldArray]:
    """Return C_k = sum_c beta_c a_(kL+c) and D_k, the same with gamma, for k = 0 .. K-1; each of shape `(4, n, K)`.

    As matrix products of limbs; a row of zeros more gives what the raised words are too large by.
    """
    count, rows, columns = len(words), parameters.powers + 1, parameters.columns
    raised = np.full((count, rows * columns), _RAISE, "<u4")
    raised[:, : parameters.padded] += words.astype(np.uint32)
    values = raised.view("<u2").reshape(count, rows, columns, 2).transpose(0, 3, 1, 2).astype(np.float64)
    limbs = weight_limbs(blinds.reshape(len(PRIMES), count, 2, columns)).transpose(1, 3, 0, 2, 4)
    products = values.reshape(count, 2 * rows, columns) @ limbs.reshape(count, columns, -1)
    found = joined(products.reshape(count, 2, rows, len(PRIMES), 2, -1).transpose(3, 4, 5, 1, 0, 2))
    lowered = [minus(found[:, blind, :, :-1], found[:, blind, :, -1:]) for blind in range(2)]
    return lowered[0], lowered[1]


# --- one row ----------------------------------------------------------------------------------------------------------


def _elements_of_one(parameters: Parameters, row: IntArray, blinds: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return what `proof_elements` returns of one padded row, shape `(W,)`, by products of long integers.

    A polynomial is an integer with a coefficient in each slot of bits (Kronecker, 1882), so one product of integers
    is one of polynomials. `blinds` are those of each prime.
    """
    columns, count = parameters.columns, parameters.powers + 3
    table = np.zeros((parameters.powers, columns), np.int64)
    table.reshape(-1)[: len(row)] = row
    upward = [_packed(table[:, c], _SLOT) for c in range(columns)]
    backward = [_packed(table[::-1, c], _SLOT) for c in range(columns)]
    product = sum(one * other for one, other in zip(upward, backward, strict=True)) >> _SLOT * (parameters.powers - 1)
    # What stood below may borrow from the lowest slot, which holds |a|^2 and is left out.
    own = [*_slots(product, parameters.powers, _SLOT)[1:], 0, 0, 0, 0]
    wide = [_packed(table[::-1, c], _WIDE_SLOT) for c in range(columns)]
    found = []
    for prime, root, each in zip(PRIMES, ROOTS, blinds, strict=True):
        betas, gammas = each[:columns], each[columns:]
        # X^0 of a factor is beta, X^1 i beta, X^2 gamma, X^3 i gamma, as C and D stand in the coefficients.
        factors = [
            beta | root * beta % prime << 128 | gamma << 256 | root * gamma % prime << 384
            for beta, gamma in zip(betas, gammas, strict=True)
        ]
        of_blinds = _slots(sum(one * other for one, other in zip(wide, factors, strict=True)), count, _WIDE_SLOT)
        both = sum(beta * gamma for beta, gamma in zip(betas, gammas, strict=True))
        of_blinds[0] += root * (sum(blind * blind for blind in each) + both)
        of_blinds[2] += root * both
        found.append([(one + other) % prime for one, other in zip(of_blinds, own, strict=True)])
    return found


def _packed(numbers: IntArray, bits: int) -> int:
    """Return the integer with one signed number in each slot of so many bits, the first in the lowest."""
    raised = np.zeros((len(numbers), bits // 32), "<u4")
    raised[:, 0] = (numbers + _RAISE).astype(np.uint32)
    return int.from_bytes(raised.tobytes(), "little") - _RAISE * _ones(len(numbers), bits)


def _slots(number: int, count: int, bits: int) -> list[int]:
    """Return the signed numbers in the slots of an integer, from the lowest."""
    raised = number + (_ones(count, bits) << bits - 1)
    words = struct.unpack(f"<{count * bits // 64}Q", raised.to_bytes(count * bits // 8, "little"))
    half = 1 << bits - 1
    if bits == 64:
        return [word - half for word in words]
    return [(high << 64 | low) - half for low, high in zip(words[::2], words[1::2], strict=True)]


@lru_cache(maxsize=16)
def _ones(count: int, bits: int) -> int:
    """Return the integer with a one in each of some slots."""
    return sum(1 << bits * slot for slot in range(count))
