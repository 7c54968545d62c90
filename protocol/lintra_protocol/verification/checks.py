"""What one server computes of its own shares, and what all of them conclude from the sum.

The check share is linear in the share: a second public matrix, drawn from the check points, applied to the same
shares. Its sum over all servers shows F_c = f_c(r), G_c = f_c(1/r) and H = sum_d P_d (r^d + r^-d), which of an honest
report are uniform numbers, whatever its row is; and sum_c F_c G_c = R^2 + H only if the proof is one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.canonical import ByteRows
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.ring import FloatArray
from lintra_protocol.verification.fields import (
    PRIMES,
    ROOTS,
    FieldArray,
    joined,
    minus,
    over_primes,
    reduced,
    require_exact_sums,
    summed,
    times,
    value_limbs,
    weight_limbs,
)
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.points import Points, require_usable
from lintra_protocol.verification.shares import elements_of

_FLOATS_AT_ONCE = 1 << 17
"""Limbs of words in one product: a megabyte, which a cache holds."""


def check_shares(parameters: Parameters, server: int, payloads: ByteRows, points: Points) -> ByteRows:
    """Return the check shares of stored payloads at one server, each for itself, shape `(k, check_bytes)`.

    Args:
        parameters: of the task.
        server: this server's index; the last one's words have the offset O in them.
        payloads: shape `(k, payload_bytes)`, seeds expanded; none is `malformed`.
        points: of the cohort's check seed. A server computes check shares of a report at one point only, ever.

    Raises:
        ValueError: a point at which blinds do not hide the rows.
    """
    require_usable(points)
    require_exact_sums()
    matrix = _CheckMatrix.at(parameters, points)
    step = max(1, _FLOATS_AT_ONCE // (5 * parameters.powers * parameters.columns))
    last = server == parameters.num_servers - 1
    found = [matrix.apply(payloads[start : start + step], last=last) for start in range(0, len(payloads), step)]
    return np.concatenate(found) if found else np.empty((0, parameters.check_bytes), np.uint8)


def accepted(parameters: Parameters, shares: Sequence[ByteRows], points: Points) -> NDArray[np.bool_]:
    """Say of each report whether the servers' check shares add up to what a short row's do, shape `(k,)`.

    Args:
        parameters: of the task.
        shares: of all N servers, each of shape `(k, check_bytes)`.
        points: of the cohort's check seed.

    Raises:
        InvalidMessageError: not N arrays of one shape, or a number in them is no element.
    """
    passed: NDArray[np.bool_] = np.logical_and.reduce(passed_in(parameters, shares), axis=0)
    return passed


def passed_in(parameters: Parameters, shares: Sequence[ByteRows]) -> NDArray[np.bool_]:
    """Say the same for each field by itself, shape `(4, k)`: a report is accepted if it passes in all of them.

    Raises:
        InvalidMessageError: see `accepted`.
    """
    count = len(shares[0]) if shares else 0
    if len(shares) != parameters.num_servers or any(each.shape != (count, parameters.check_bytes) for each in shares):
        raise InvalidMessageError(
            f"the check shares of {parameters.num_servers} servers have {parameters.check_bytes} bytes a report"
        )
    total = np.zeros((len(PRIMES), count, parameters.check_elements), np.uint64)
    for each in shares:
        numbers = each.view("<u8").reshape(count, len(PRIMES), -1).transpose(1, 0, 2)
        if (numbers >= over_primes(PRIMES, 3)).any():
            raise InvalidMessageError("a check share holds a number that is no element of its field")
        total = reduced(total + numbers)
    at_point, at_inverse, proof = np.split(total, [parameters.columns, 2 * parameters.columns], axis=2)
    found = summed(times(at_point, at_inverse))
    bound = over_primes([parameters.squared_bound % prime for prime in PRIMES], 2)
    passed: NDArray[np.bool_] = found == reduced(bound + proof[..., 0])
    return passed


@dataclass(frozen=True)
class _CheckMatrix:
    """The public matrix of a check, as limbs; for each prime at r and at 1/r.

    Attributes:
        words: r^k, shape `(4 x 2 x 3, K)`.
        blinds: of betas r^K + i r^(K+1), of gammas r^(K+2) + i r^(K+3), shape `(4, 2 x 3, 2)`.
        proof: r^d + r^-d, shape `(4, 3, K + 3)`.
        offset: O times the sum of the powers of each column's words, shape `(4, 2, 1, L)`.
    """

    parameters: Parameters
    words: FloatArray
    blinds: FloatArray
    proof: FloatArray
    offset: FieldArray

    @classmethod
    def at(cls, parameters: Parameters, points: Points) -> "_CheckMatrix":
        """Compute the matrix in plain integers; it is small."""
        powers, full = parameters.powers, parameters.padded - (parameters.powers - 1) * parameters.columns
        raised, blinds, proof, offset = [], [], [], []
        for prime, root, point in zip(PRIMES, ROOTS, points, strict=True):
            both = [_powers(each, powers + 4, prime) for each in (point, pow(point, -1, prime))]
            raised.append([each[:powers] for each in both])
            blinds.append([[(each[k] + root * each[k + 1]) % prime for k in (powers, powers + 2)] for each in both])
            proof.append([sum(pair) % prime for pair in zip(*both, strict=True)][1:])
            sums = [[sum(each[: powers - (c >= full)]) for c in range(parameters.columns)] for each in both]
            offset.append([[parameters.offset * each % prime for each in of_point] for of_point in sums])
        limbs = [weight_limbs(np.array(each, np.uint64)) for each in (raised, blinds, proof)]
        return cls(
            parameters,
            limbs[0].transpose(0, 1, 3, 2).reshape(-1, powers),
            limbs[1].transpose(0, 1, 3, 2).reshape(len(PRIMES), -1, 2),
            limbs[2].transpose(0, 2, 1).copy(),
            np.array(offset, np.uint64)[:, :, np.newaxis],
        )

    def apply(self, payloads: ByteRows, *, last: bool) -> ByteRows:
        """Return the check shares of some payloads; `last` if they are the last server's."""
        parameters, count, columns = self.parameters, len(payloads), self.parameters.columns
        elements = elements_of(parameters, payloads)
        products = (self.words @ self._word_limbs(payloads)).reshape(len(PRIMES), 2, 3, 5, count, columns)
        values = value_limbs(elements[..., : 2 * columns].reshape(len(PRIMES), count, 2, columns))
        blinds = self.blinds @ values.transpose(0, 2, 4, 1, 3).reshape(len(PRIMES), 2, -1)
        products[:, :, :, :4] += blinds.reshape(len(PRIMES), 2, 3, 4, count, columns)
        evaluated = joined(products)
        if last:
            evaluated = minus(evaluated, self.offset)
        coefficients = (
            value_limbs(elements[..., 2 * columns :]).transpose(0, 2, 3, 1).reshape(len(PRIMES), -1, 4 * count)
        )
        proof = joined((self.proof @ coefficients).reshape(len(PRIMES), 1, 3, 4, count))
        found = np.empty((count, len(PRIMES), parameters.check_elements), "<u8")
        found[..., :columns], found[..., columns:-1] = evaluated.transpose(1, 2, 0, 3)
        found[..., -1] = proof[:, 0].T
        return found.view(np.uint8).reshape(count, -1)

    def _word_limbs(self, payloads: ByteRows) -> FloatArray:
        """Return the words' limbs of 16 bits, shape `(K, 5 x k x L)`; the last row is filled up with zeros."""
        parameters, count = self.parameters, len(payloads)
        powers, columns = parameters.powers, parameters.columns
        values = np.zeros((powers, 5, count, columns))
        limbs = payloads[:, : parameters.words_bytes].view("<u2").reshape(count, parameters.padded, 5)
        whole = (powers - 1) * columns
        values[:-1] = limbs[:, :whole].reshape(count, powers - 1, columns, 5).transpose(1, 3, 0, 2)
        values[-1, ..., : parameters.padded - whole] = limbs[:, whole:].transpose(2, 0, 1)
        return values.reshape(powers, -1)


def _powers(base: int, count: int, prime: int) -> list[int]:
    """Return the powers 0 .. count - 1 of an element."""
    found = [1]
    for _ in range(count - 1):
        found.append(found[-1] * base % prime)
    return found
