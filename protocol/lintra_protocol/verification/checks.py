"""What one server computes of its own shares, and what all of them conclude from the sum.

The check share is linear in the share: a second public matrix, drawn from the check points, applied to the same
shares. Its sum over all servers shows F_c = f_c(r), G_c = f_c(1/r) and H = sum_d P_d (r^d + r^-d), which of an honest
report are uniform numbers, whatever its row is; and sum_c F_c G_c = R^2 + H only if the proof is one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.encoding.canonical import ByteRows
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.verification.fields import (
    PRIMES,
    ROOTS,
    WEIGHT_LIMBS,
    FieldArray,
    fold,
    halve,
    inner,
    joined,
    minus,
    over_primes,
    reduced,
    require_exact_sums,
    weight_limbs,
)
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.points import Points, require_usable
from lintra_protocol.verification.shares import expanded_blocks, reports_at_once

_FLOATS_AT_ONCE = 1 << 16
"""Limbs of shares in one product, and sums that are put together at once: half a megabyte each, which a cache holds."""

_NUMBERS_AT_ONCE = 1 << 15
"""Of each server's check shares that are added up at once: a cache holds them, and what is made of them."""

_LIMBS = 5
"""Of 16 bits in a word of a share. An element has one less."""

_WEIGHT_ROWS = len(PRIMES) * 2 * WEIGHT_LIMBS
"""Of the matrix: for each prime, each of r and 1/r, each limb."""

_BLIND_ROWS = len(PRIMES) * 2
"""Rows of values behind those of the words: betas and gammas of each prime."""


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
    step = reports_at_once(parameters)
    blocks = (payloads[start : start + step] for start in range(0, len(payloads), step))
    return _check_shares(parameters, server, len(payloads), blocks, points)


def check_shares_of_seeds(parameters: Parameters, server: int, seeds: ByteRows, points: Points) -> ByteRows:
    """Return the check shares of payloads that seeds, shape `(k, 32)`, stand for (see `check_shares`).

    A block is checked while a cache still holds what its seeds were expanded to.
    """
    return _check_shares(parameters, server, len(seeds), expanded_blocks(parameters, seeds), points)


def _check_shares(
    parameters: Parameters, server: int, count: int, blocks: Iterable[ByteRows], points: Points
) -> ByteRows:
    require_usable(points)
    require_exact_sums()
    matrix = _matrix_at(parameters, points, ROOTS)
    found, done = np.empty((count, parameters.check_bytes), np.uint8), 0
    at_once = _FLOATS_AT_ONCE // (_WEIGHT_ROWS * _LIMBS * parameters.columns)
    work = _Workspace(parameters, max(1, min(at_once, count, reports_at_once(parameters))))
    for block in blocks:
        for start in range(0, len(block), work.count):
            some = block[start : start + work.count]
            matrix.apply(some, work, found[done : done + len(some)], last=server == parameters.num_servers - 1)
            done += len(some)
    return found


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

    Raises InvalidMessageError as `accepted` does.
    """
    count = len(shares[0]) if shares else 0
    if len(shares) != parameters.num_servers or any(each.shape != (count, parameters.check_bytes) for each in shares):
        raise InvalidMessageError(
            f"the check shares of {parameters.num_servers} servers have {parameters.check_bytes} bytes a report"
        )
    passed = np.empty((len(PRIMES), count), np.bool_)
    step = max(1, min(count, _NUMBERS_AT_ONCE // (len(PRIMES) * parameters.check_elements)))
    room = np.empty((3, len(PRIMES), parameters.check_elements, step), np.uint64)
    for start in range(0, count, step):
        some = slice(start, start + step)
        passed[:, some] = _passed(parameters, [each[some].view("<u8") for each in shares], room)
    return passed


def _passed(parameters: Parameters, shares: Sequence[FieldArray], room: FieldArray) -> NDArray[np.bool_]:
    """Say of each of a block of reports whether it passes in each field, shape `(4, k)`.

    `shares` are the elements of all servers' check shares, each of shape `(k, 4 (2L + 1))`. `room` is to be written
    over, of shape `(3, 4, 2L + 1, k)` or with a longer last axis.
    """
    count, columns = len(shares[0]), parameters.columns
    limits = np.repeat(np.array(PRIMES, np.uint64), parameters.check_elements)
    if any((each.max(axis=0) >= limits).any() for each in shares):
        raise InvalidMessageError("a check share holds a number that is no element of its field")
    # Elements lie below 2^60, so those of 16 servers add up without a wrap.
    total = np.add(shares[0], shares[1], out=room[0].reshape(-1)[: shares[0].size].reshape(shares[0].shape))
    for each in shares[2:]:
        total += each
    # Reports last: then every step runs through many of them.
    opened, other = room[1, ..., :count], room[2, ..., :count]
    opened.reshape(-1, count)[:] = total.T
    fold(opened, other)
    proof = opened[:, -1].copy()
    halve(opened, other)
    at_point, at_inverse = ((other[:, own], opened[:, own]) for own in (slice(columns), slice(columns, 2 * columns)))
    bound = over_primes([parameters.squared_bound % prime for prime in PRIMES], 2)
    passed: NDArray[np.bool_] = inner(at_point, at_inverse) == reduced(proof + bound)
    return passed


class _Workspace:
    """What blocks need one after the other, allocated once: fresh memory would cost more than the sums in it.

    Attributes:
        count: most reports of a block.
        values: words as they stand in a report, in limbs, then betas and gammas; shape `(n, K + 8, 5 L)`.
        sums: of products of limbs, shape `(4 x 2 x 3, count, 5 L)`.
        proofs: coefficients in limbs, shape `(count, 4, K + 3, 4)`.
    """

    def __init__(self, parameters: Parameters, count: int) -> None:
        width = _LIMBS * parameters.columns
        rows = parameters.powers + _BLIND_ROWS
        self.count = count
        # Nobody writes where no word or limb stands: behind the last word, and at the blinds' fifth limbs.
        self.values: FloatArray = np.zeros((max(1, min(count, _FLOATS_AT_ONCE // (rows * width))), rows, width))
        self.sums: FloatArray = np.empty((_WEIGHT_ROWS, count, width))
        self.proofs: FloatArray = np.empty((count, len(PRIMES), parameters.powers + 3, _LIMBS - 1))


@dataclass(frozen=True)
class _CheckMatrix:
    """The public matrix of a check, as limbs; for each prime at r and at 1/r."""

    parameters: Parameters
    #: r^k for the words; for each prime's own blinds r^K + i r^(K+1) and r^(K+2) + i r^(K+3), and zeros at the others';
    #: shape `(4 x 2 x 3, K + 8)`
    values: FloatArray
    proof: FloatArray  #: r^d + r^-d, shape `(4, 3, K + 3)`
    offset: FieldArray  #: O times the sum of the powers of each column's words, shape `(4, 2, 1, L)`

    @classmethod
    def at(cls, parameters: Parameters, points: Points, roots: Sequence[int]) -> "_CheckMatrix":
        """Compute the matrix at points in plain integers; it is small. The roots are those of -1."""
        powers, full = parameters.powers, parameters.padded - (parameters.powers - 1) * parameters.columns
        values = np.zeros((len(PRIMES), 2, powers + _BLIND_ROWS), np.uint64)
        proof, offset = [], []
        for number, (prime, root, point) in enumerate(zip(PRIMES, roots, points, strict=True)):
            both = [_powers(each, powers + 4, prime) for each in (point, pow(point, -1, prime))]
            values[number, :, :powers] = [each[:powers] for each in both]
            blinds = [[(each[k] + root * each[k + 1]) % prime for k in (powers, powers + 2)] for each in both]
            values[number, :, powers + 2 * number : powers + 2 * number + 2] = blinds
            proof.append([sum(pair) % prime for pair in zip(*both, strict=True)][1:])
            sums = [(sum(each[:powers]), sum(each[: powers - 1])) for each in both]
            offset.append(
                [[parameters.offset * of[c >= full] % prime for c in range(parameters.columns)] for of in sums]
            )
        return cls(
            parameters,
            weight_limbs(values).transpose(0, 1, 3, 2).reshape(_WEIGHT_ROWS, -1),
            weight_limbs(np.array(proof, np.uint64)).transpose(0, 2, 1).copy(),
            np.array(offset, np.uint64)[:, :, np.newaxis],
        )

    def apply(self, payloads: ByteRows, work: _Workspace, found: ByteRows, *, last: bool) -> None:
        """Write the check shares of some payloads; `last` if they are the last server's."""
        parameters, count, columns = self.parameters, len(payloads), self.parameters.columns
        sums, step = work.sums[:, :count], len(work.values)
        for start in range(0, count, step):
            values = self._limbs(payloads[start : start + step], work)
            np.matmul(self.values, values, out=sums[:, start : start + step].transpose(1, 0, 2))
        of_limbs = sums.reshape(len(PRIMES), 2, WEIGHT_LIMBS, count, columns, _LIMBS)
        evaluated = joined(np.moveaxis(of_limbs, -1, 3))
        if last:
            evaluated = minus(evaluated, self.offset)
        proofs = work.proofs[:count]
        proofs[:] = _element_limbs(parameters, payloads)[:, :, 2 * columns :]
        # Of each report and prime a product of its own: limbs of weights times limbs of coefficients.
        opened = joined((self.proof @ proofs).transpose(1, 2, 3, 0)[:, np.newaxis])
        elements = found.view("<u8").reshape(count, len(PRIMES), -1)
        elements[..., :columns], elements[..., columns:-1] = evaluated.transpose(1, 2, 0, 3)
        elements[..., -1] = opened[:, 0].T

    def _limbs(self, payloads: ByteRows, work: _Workspace) -> FloatArray:
        """Return words, in the order of a report, and blinds in limbs of 16 bits, shape `(k, K + 8, 5 L)`."""
        parameters, count, columns = self.parameters, len(payloads), self.parameters.columns
        values = work.values[:count]
        values.reshape(count, -1)[:, : _LIMBS * parameters.padded] = payloads[:, : parameters.words_bytes].view("<u2")
        blinds = values[:, parameters.powers :].reshape(count, len(PRIMES), 2, columns, _LIMBS)
        of_blinds = _element_limbs(parameters, payloads)[:, :, : 2 * columns]
        blinds[..., :-1] = of_blinds.reshape(count, len(PRIMES), 2, columns, _LIMBS - 1)
        return values


@lru_cache(maxsize=4)
def _matrix_at(parameters: Parameters, points: Points, roots: Sequence[int]) -> _CheckMatrix:
    """Return the matrix, which all blocks of a cohort share."""
    return _CheckMatrix.at(parameters, points, roots)


def _element_limbs(parameters: Parameters, payloads: ByteRows) -> NDArray[np.uint16]:
    """Return the elements of payloads in limbs of 16 bits, shape `(k, 4, 2L + K + 3, 4)`; a view."""
    limbs = payloads[:, parameters.words_bytes :].view("<u2")
    return limbs.reshape(len(payloads), len(PRIMES), parameters.elements, _LIMBS - 1)


def _powers(base: int, count: int, prime: int) -> list[int]:
    """Return the powers 0 .. count - 1 of an element."""
    found = [1]
    for _ in range(count - 1):
        found.append(found[-1] * base % prime)
    return found
