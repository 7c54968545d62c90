"""False reports of hostile clients: rows longer than the task allows, and shares that are no row at all.

They are the negative vectors of docs/explanation/verified.md, sent to real servers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np

from lintra_protocol.crypto.randomness import system_randomness
from lintra_protocol.crypto.ring import IntArray, from_ring
from lintra_protocol.crypto.sharing import combine
from lintra_protocol.encoding.canonical import ByteRows
from lintra_protocol.report.report import Report, reports_of, share_words
from lintra_protocol.report.wire import BLIND_BYTES
from lintra_protocol.rules.verification import parameters_of
from lintra_protocol.task import Task
from lintra_protocol.verification.fields import PRIMES, ROOTS, FieldArray, draw
from lintra_protocol.verification.padding import four_squares, padded_rows
from lintra_protocol.verification.parameters import Parameters
from lintra_protocol.verification.proof import ProvenRows, prove
from lintra_protocol.verification.shares import split_proven, words_of

ADDED = 2**40
"""What most lies add to the first word of an honest row."""


@dataclass(frozen=True)
class MaliciousReport:
    """One way to lie."""

    name: str
    told: str
    rule: str  #: the name of the rule that finds it (see `rules.RULES`)
    report: Callable[[Task], Report]  #: makes such a report
    why_none: str | None = None  #: why nothing follows where the rule is off, if nothing does


def honest_rows(task: Task, count: int) -> IntArray:
    """Return noised rows of honest clients, shape `(count, w)`."""
    values = np.frombuffer(system_randomness(count * task.num_columns), np.uint8).reshape(count, -1) / 256 - 0.5
    rows = task.schema_arrays.rows(values * 0.5)
    return np.concatenate([task.encode(row[np.newaxis], system_randomness) for row in rows])


def honest_reports(task: Task, count: int) -> list[Report]:
    """Return reports of honest clients."""
    proven = prove(parameters_of(task), honest_rows(task, count), system_randomness)
    return _reports(task, split_proven(parameters_of(task), proven, system_randomness))


def honest_without_root(task: Task, count: int) -> list[Report]:
    """Return honest reports for servers whose columns have no i: with gamma = i beta the blinds add nothing."""
    parameters, reports = parameters_of(task), []
    for row in padded_rows(parameters, honest_rows(task, count)).tolist():
        blinds = draw(1, 2 * parameters.columns, system_randomness)
        for t, (prime, root) in enumerate(zip(PRIMES, ROOTS, strict=True)):
            blinds[t, 0, parameters.columns :] = [
                int(blind) * root % prime for blind in blinds[t, 0, : parameters.columns]
            ]
        reports.append(_shared(task, attackers_proof(parameters, row, (0, 0, 0, 0), blinds)))
    return reports


def row_of(task: Task, report: Report) -> IntArray:
    """Return the ring words that a report's shares add up to, shape `(w,)`."""
    payloads = [share[BLIND_BYTES + 1 :] for share in report.shares]
    shares = [share_words(task, server, payload) for server, payload in enumerate(payloads)]
    return from_ring(combine(np.stack(shares)))


def _reports(task: Task, payloads: Sequence[ByteRows]) -> list[Report]:
    return reports_of(task, payloads, task.not_before, system_randomness)


def _proven(task: Task) -> ProvenRows:
    return prove(parameters_of(task), honest_rows(task, 1), system_randomness)


def _shared(task: Task, proven: ProvenRows) -> Report:
    return _reports(task, split_proven(parameters_of(task), proven, system_randomness))[0]


def _added(task: Task) -> Report:
    proven = _proven(task)
    proven.words[:, 0] += ADDED
    return _shared(task, proven)


def _other_padding(task: Task) -> Report:
    """Keep the padding and prove, as well as one can, a row that is one step longer in every word, many times over."""
    parameters, row = parameters_of(task), honest_rows(task, 1)
    padding = padded_rows(parameters, row)[0, parameters.num_words :]
    words = [*(row[0] + ADDED).tolist(), *padding.tolist()]
    return _shared(task, attackers_proof(parameters, words, ROOTS))


def _flipped(task: Task) -> Report:
    parameters = parameters_of(task)
    payloads = split_proven(parameters, _proven(task), system_randomness)
    words_of(parameters, payloads[-1])["low"][0, 0] ^= np.uint64(ADDED)
    return _reports(task, payloads)[0]


def _proof_of_another(task: Task) -> Report:
    own, other = _proven(task), _proven(task)
    own.words[:, 0] += ADDED
    blinds = 2 * parameters_of(task).columns
    own.elements[..., blinds:] = other.elements[..., blinds:]
    return _shared(task, own)


def _blinds_of_another(task: Task) -> Report:
    own, other = _proven(task), _proven(task)
    own.words[:, 0] += ADDED
    blinds = 2 * parameters_of(task).columns
    own.elements[..., :blinds] = other.elements[..., :blinds]
    return _shared(task, own)


def _two_reports(task: Task) -> Report:
    first, second = (split_proven(parameters_of(task), _proven(task), system_randomness) for _ in range(2))
    return _reports(task, [*first[:-1], second[-1]])[0]


def _wrapped_word(task: Task) -> Report:
    parameters = parameters_of(task)
    payloads = split_proven(parameters, _proven(task), system_randomness)
    high = words_of(parameters, payloads[0])["high"]
    high[0, 0] ^= np.uint16(1)
    return _reports(task, payloads)[0]


def _square_of_zero(task: Task) -> Report:
    parameters = parameters_of(task)
    words = [0] * parameters.padded
    words[0] = 2**32
    words[-8:] = squares_of(parameters.squared_bound, 8)
    return _shared(task, attackers_proof(parameters, words, ROOTS))


def _product_of_two(task: Task) -> Report:
    parameters = parameters_of(task)
    words = squares_of(parameters.squared_bound + PRIMES[0] * PRIMES[1], parameters.padded)
    return _shared(task, attackers_proof(parameters, words, ROOTS))


def _blinds_that_count(task: Task) -> Report:
    """Share a long row with blinds that, without i, would make up for the excess length."""
    parameters, row = parameters_of(task), honest_rows(task, 1)
    row[0, 0] += ADDED
    words = [*row[0].tolist(), *[0] * 7]
    lacks = parameters.squared_bound - sum(word**2 for word in words)
    blinds = draw(1, 2 * parameters.columns, system_randomness)
    for t, (prime, root) in enumerate(zip(PRIMES, ROOTS, strict=True)):
        # beta^2 + gamma^2 = (beta + i gamma)(beta - i gamma) = lacks less the other columns' squares, as lacks times 1.
        others = blinds[t, 0].tolist()
        others[0] = others[parameters.columns] = 0
        left = (lacks - sum(blind**2 for blind in others)) % prime
        half = pow(2, -1, prime)
        blinds[t, 0, 0] = (left + 1) * half % prime
        blinds[t, 0, parameters.columns] = (left - 1) * half * pow(root, -1, prime) % prime
    return _shared(task, attackers_proof(parameters, words, (0, 0, 0, 0), blinds))


def _element_too_large(task: Task) -> Report:
    """Spell the element 0 as the prime itself, in a report that is honest otherwise."""
    parameters = parameters_of(task)
    others, last = split_proven(parameters, _proven(task), system_randomness)
    numbers = others[:, parameters.words_bytes :].view("<u8")
    moved = int(numbers[0, 0])
    numbers[0, 0] = PRIMES[0]
    own = last[:, parameters.words_bytes :].view("<u8")
    own[0, 0] = (int(own[0, 0]) + moved) % PRIMES[0]
    return _reports(task, [others, last])[0]


def _word_too_large(task: Task) -> Report:
    """Share an honest row so that the first server's word is 2^g or more."""
    parameters = parameters_of(task)
    proven = _proven(task)
    first, last = split_proven(parameters, proven, system_randomness)
    mine = (1 << parameters.word_bits) + int.from_bytes(system_randomness(7), "little")
    theirs = int(proven.words[0, 0]) + parameters.offset - mine
    for payloads, word in ((first, mine), (last, theirs)):
        words = words_of(parameters, payloads)
        words["low"][0, 0], words["high"][0, 0] = word % 2**64, word >> 64
    return _reports(task, [first, last])[0]


LIES: tuple[MaliciousReport, ...] = (
    MaliciousReport("added", f"adds {ADDED} to a word of the row that it proved", "verdict", _added),
    MaliciousReport("padding", "proves a long row beside the padding of a short one", "verdict", _other_padding),
    MaliciousReport("flipped bit", "flips a bit of a share that it proved", "verdict", _flipped),
    MaliciousReport(
        "proof of another", "sends a long row with the proof of an honest report", "verdict", _proof_of_another
    ),
    MaliciousReport(
        "blinds of another", "sends a long row with the blinds of an honest report", "verdict", _blinds_of_another
    ),
    MaliciousReport("shares of two", "sends the shares of two reports as those of one", "verdict", _two_reports),
    MaliciousReport(
        "square of zero", "proves a row with a word of 2^32, of square 0 modulo 2^64", "verdict", _square_of_zero
    ),
    MaliciousReport(
        "2^64 more", "adds 2^64 to a word of a share, which is the same word in the ring", "verdict", _wrapped_word,
        "the ring word is an honest one: the check is of integers, and so is stricter here than the sum needs",
    ),
    MaliciousReport(
        "two primes", "proves a row whose squares add up to the bound and the product of two primes", "four primes",
        _product_of_two),
    MaliciousReport(
        "blinds that count", "chooses blinds whose squares make up for a long row", "root of -1", _blinds_that_count
    ),
    MaliciousReport(
        "element too large", "spells an element 0 as the prime itself", "format", _element_too_large,
        "the row is an honest one: what is lost is that a report has one spelling",
    ),
    MaliciousReport(
        "word too large", "sends a word of 2^g to a server whose words are below", "format", _word_too_large,
        "the row is an honest one: what is lost is a premise of the proof, that no integer reaches 2^80",
    ),
)  # fmt: skip


def squares_of(number: int, count: int) -> list[int]:
    """Return `count` numbers, at least 8, whose squares add up to a number below 2^124."""
    found = []
    for _ in range(count - 4):
        found.append(isqrt(number))
        number -= found[-1] ** 2
    return [*found, *four_squares()[number].tolist()]


def attackers_proof(
    parameters: Parameters, words: Sequence[int], roots: Sequence[int], blinds: FieldArray | None = None
) -> ProvenRows:
    """Prove as much of any words as can be proven: all coefficients are right, but the constant term may not be R^2.

    `blinds` have the shape that `draw` gives them. It is computed in plain integers, since words may be too large for
    the arithmetic of honest clients.
    """
    drawn = draw(1, 2 * parameters.columns, system_randomness) if blinds is None else blinds
    coefficients = np.zeros((len(PRIMES), 1, parameters.powers + 3), np.uint64)
    for t, prime in enumerate(PRIMES):
        for column in range(parameters.columns):
            own = [word % prime for word in words[column :: parameters.columns]]
            own += [0] * (parameters.powers - len(own))
            for blind in (int(drawn[t, 0, column]), int(drawn[t, 0, parameters.columns + column])):
                own += [blind, blind * roots[t] % prime]
            for power in range(1, parameters.powers + 4):
                term = sum(own[k] * own[k + power] for k in range(len(own) - power))
                coefficients[t, 0, power - 1] = (int(coefficients[t, 0, power - 1]) + term) % prime
    return ProvenRows(np.array([words], np.int64), np.concatenate([drawn, coefficients], axis=2))
