"""How the vectors of verified reports are replayed against the package."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.encoding.canonical import ByteRows
from lintra_protocol.errors import InvalidMessageError
from lintra_protocol.rules import release as rules
from lintra_protocol.task import Task
from lintra_protocol.verification.checks import accepted, check_shares
from lintra_protocol.verification.fields import PRIMES, FieldArray
from lintra_protocol.verification.padding import four_squares, padded_rows
from lintra_protocol.verification.parameters import Parameters, noised_bound
from lintra_protocol.verification.points import Points, check_points, usable
from lintra_protocol.verification.proof import ProvenRows, proof_elements
from lintra_protocol.verification.shares import expand_seeds, last_shares, malformed


def _parameters(words: int, servers: int, bound: str = "0") -> Parameters:
    return Parameters(words, servers, int(bound))


def _integers(values: list[str]) -> IntArray:
    return np.array([[int(value) for value in values]], np.int64)


def _elements(values: list[list[str]]) -> FieldArray:
    return np.array([[[int(value) for value in own]] for own in values], np.uint64)


def _texts(row: Any) -> list[str]:
    return [str(int(value)) for value in row]


def _bytes(text: str) -> ByteRows:
    return np.frombuffer(bytes.fromhex(text), np.uint8)[np.newaxis]


def _points(values: list[str]) -> Points:
    return int(values[0]), int(values[1]), int(values[2]), int(values[3])


def _sizes(words: int, servers: int) -> list[int | str]:
    found = _parameters(words, servers)
    return [found.padded, found.columns, found.powers, found.word_bits, str(found.offset)]


def _proof(words: list[str], blinds: list[list[str]], sizes: dict[str, Any]) -> list[list[str]]:
    found = proof_elements(_parameters(**sizes), _integers(words), _elements(blinds))
    return [_texts(own[0]) for own in found]


def _last_share(row: list[str], elements: list[list[str]], others: list[str], sizes: dict[str, Any]) -> str:
    proven = ProvenRows(_integers(row), _elements(elements))
    return last_shares(_parameters(**sizes), proven, [_bytes(other) for other in others]).tobytes().hex()


def _check_share(server: int, payload: str, points: list[str], **sizes: Any) -> list[list[str]]:
    found = check_shares(_parameters(**sizes), server, _bytes(payload), _points(points))
    return [_texts(own) for own in found.view("<u8").reshape(len(PRIMES), -1)]


def judge(payloads: list[str], seed: str, **sizes: Any) -> bool:
    """Return what all servers conclude from what they stored."""
    parameters, points = _parameters(**sizes), check_points(bytes.fromhex(seed))
    shares = [_bytes(payload) for payload in payloads]
    assert not any(malformed(parameters, server, share).any() for server, share in enumerate(shares))
    checks = [check_shares(parameters, server, share, points) for server, share in enumerate(shares)]
    return bool(accepted(parameters, checks, points)[0])


def _accepted(bodies: list[str], seed: str, **sizes: Any) -> bool:
    parameters, points = _parameters(**sizes), check_points(bytes.fromhex(seed))
    return bool(accepted(parameters, [_bytes(body) for body in bodies], points)[0])


def _require_formed(server: int, payload: str, **sizes: Any) -> None:
    if malformed(_parameters(**sizes), server, _bytes(payload)).any():
        raise InvalidMessageError("a number in the share is out of range")


def _check_seed(task: str, batch: int, root: str, nonces: list[str]) -> str:
    known = Task.from_canonical(task.encode())
    return rules.check_seed(known, batch, bytes.fromhex(root), [bytes.fromhex(each) for each in nonces]).hex()


OPERATIONS: dict[str, Callable[..., Any]] = {
    "verified_sizes": _sizes,
    "noised_bound": lambda longest, variances: str(noised_bound(int(longest), [int(each) for each in variances])),
    "padded": lambda row, **sizes: _texts(padded_rows(_parameters(**sizes), _integers(row))[0]),
    "four_squares": lambda numbers: four_squares()[numbers].tolist(),
    "proof": _proof,
    "check_points": lambda seed: [str(point) for point in check_points(bytes.fromhex(seed))],
    "usable_points": lambda points: all(usable(int(r), p) for r, p in zip(points, PRIMES, strict=True)),
    "expand_proven": lambda seed, **sizes: expand_seeds(_parameters(**sizes), _bytes(seed)).tobytes().hex(),
    "last_share": _last_share,
    "check_share": _check_share,
    "judge": judge,
    "accepted": _accepted,
    "require_formed": _require_formed,
    "check_seed": _check_seed,
}
