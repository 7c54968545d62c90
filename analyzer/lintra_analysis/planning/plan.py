"""Planning before anybody is asked for data: noise, predicted error, bytes and limits of a mechanism.

Noise is calibrated by the mechanisms themselves, so a plan is what a task will do. Errors are predicted from public
numbers only: the size of the cohort and the norm of a typical row (docs/planning.md).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context

import numpy as np
from pydantic import ValidationError

from lintra_analysis.planning.coalition import CLIENTS_PER_ROW, calibrated_sketch, most_rows, usual_claim
from lintra_protocol.documents import Real, first_complaint, fraction, real
from lintra_protocol.errors import InvalidTaskError, LintraError
from lintra_protocol.mechanisms import Osnap, SecondMoment
from lintra_protocol.mechanisms.base import LOG_MAX_WRAP, MIN_SIGMA, Mechanism
from lintra_protocol.mechanisms.collusion import epsilons_if_colluding
from lintra_protocol.privacy.boundary import NoBoundaryError, bisect_whole, smallest_whole
from lintra_protocol.privacy.calibration import central_sigma, local_sigma, published_mu, published_sigma
from lintra_protocol.privacy.gaussian import gaussian_epsilon, gaussian_mu
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.ring import RING_BITS
from lintra_protocol.sealing import HYBRID, OVERHEAD_BYTES
from lintra_protocol.sharing import SEED_BYTES
from lintra_protocol.wire import BLIND_BYTES, KEY_ID_BYTES, header_bytes

MOST_COLUMNS_OF_PRODUCTS = 500
"""Beyond this a report of second moments takes more than a megabyte for each server."""

MOST_CLIENTS = 2**32
"""A task may have no more (docs/protocol.md)."""


@dataclass(frozen=True)
class Question:
    """What is planned for.

    Attributes:
        columns: d.
        claim: the promise; its `min_clients` is the cohort that errors are predicted for.
        max_clients: for which the ring must have room.
        rows: m of the sketch, or None for the rule.
        sparsity: s of the sketch.
        row_bound: B.
        row_norm: r, the root mean square norm of a clipped row, at most B.
        num_servers: N.
        features: columns that a ridge regression uses.
        rank: directions that a low-rank approximation keeps.
        usual_coalition: whether the tolerated coalition follows from the smallest cohort (see `usual_claim`).
    """

    columns: int
    claim: Claim
    max_clients: int
    rows: int | None = None
    sparsity: int = 1
    row_bound: Real = "1"
    row_norm: float = 1.0
    num_servers: int = 3
    features: int = 1
    rank: int = 1
    usual_coalition: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be planned for."""
        if min(self.columns, self.features, self.rank, self.sparsity) < 1 or self.num_servers < 2:
            raise InvalidTaskError("columns, features, rank and sparsity are at least 1, servers at least 2")
        if self.rank > self.columns or self.features > self.columns:
            raise InvalidTaskError(f"{self.columns} columns have no rank {self.rank} or {self.features} features")
        if not 0 < self.row_norm <= float(fraction(self.row_bound)):
            raise InvalidTaskError(f"row norm {self.row_norm} does not lie within the row bound {self.row_bound}")
        if not self.claim.min_clients <= self.max_clients <= MOST_CLIENTS:
            raise InvalidTaskError(f"{self.max_clients} clients at most, but {self.claim.min_clients} at least")

    @property
    def sensitivity(self) -> float:
        """Return Delta, the distance of two neighbouring rows, in normalised units."""
        return float(fraction(self.row_bound)) * (2 if self.claim.neighbours == "replace-one" else 1)

    @property
    def mu(self) -> float:
        """Return mu*, the Gaussian privacy parameter that the claim leaves to the noise."""
        return gaussian_mu(float(fraction(self.claim.epsilon)), self.claim.noise_delta)

    @property
    def trace(self) -> float:
        """Return the expected trace of the Gram matrix, n r^2."""
        return self.claim.min_clients * self.row_norm**2

    @property
    def best_rows(self) -> float:
        """Return m*, where the predicted error of the sketch is smallest: n r^2 mu^2 / (Delta^2 d)."""
        return self.trace * (self.mu / self.sensitivity) ** 2 / self.columns

    @property
    def sketch_rows(self) -> int:
        """Return the rows asked for, or the rule's: m* in whole rows, from 3d on, with 30 honest clients each."""
        if self.rows is not None:
            return self.rows
        wanted = max(round(self.best_rows), 3 * self.columns, 2 * self.rank, self.sparsity)
        if self.claim.min_clients < 2 * CLIENTS_PER_ROW:
            return 1
        return max(1, min(wanted, most_rows(self.claim), 2**20))

    def with_claim(self, **changes: object) -> "Question":
        """Return the question with other numbers in its claim; the largest cohort grows with the smallest.

        Raises:
            InvalidTaskError: no claim has these numbers.
        """
        try:
            free = {"max_corrupt_clients": 0, "delta_coalition": "0"} if self.usual_coalition else {}
            claim = Claim.model_validate(self.claim.model_dump() | free | changes)
            if self.usual_coalition:
                claim = usual_claim(
                    epsilon=claim.epsilon,
                    delta=claim.delta,
                    neighbours=claim.neighbours,
                    min_clients=claim.min_clients,
                    threat=claim.threat,
                    is_sketch=True,
                )
        except ValidationError as error:
            raise InvalidTaskError(first_complaint(error)) from None
        return replace(self, claim=claim, max_clients=max(self.max_clients, claim.min_clients))


@dataclass(frozen=True)
class Prediction:
    """How wrong an estimate of the Gram matrix, and what follows from it, is expected to be.

    Attributes:
        squared_error: expected squared Frobenius error of the Gram matrix, in normalised units.
        relative_error: its root over the trace of the matrix.
        low_rank: largest part of the rows' squared length that the best directions of this rank lose to the error.
        ridge: part of the target's squared length that a ridge regression loses to the error, in first order.
    """

    squared_error: float
    relative_error: float
    low_rank: float
    ridge: float


@dataclass(frozen=True)
class Option:
    """One mechanism, calibrated.

    Attributes:
        mechanism: as it would stand in the task.
        sigma: deviation of one client's noise in a word (off the diagonal for second moments), normalised units.
        leverage: bound of an honest client's leverage.
        epsilon: recomputed for the smallest cohort; not above the claim's.
        if_colluding: what epsilon becomes if so many per cent of the smallest cohort collude; infinite for no privacy.
        predicted: errors to expect from the smallest cohort.
        report_bytes: what one client sends to all servers together, for each form of shares.
        headroom_bits: how many times the largest total, as a power of two, fits into the ring.
        max_clients: the largest cohort for which the ring has room on this grid.
    """

    mechanism: Mechanism
    sigma: float
    leverage: float
    epsilon: float
    if_colluding: dict[int, float]
    predicted: Prediction
    report_bytes: dict[str, int]
    headroom_bits: float
    max_clients: int


@dataclass(frozen=True)
class Yardsticks:
    """One client's noise per entry that others would need for the same promise on the same sketch.

    Attributes:
        published: of Burkhardt et al. 2025, equation (4), for each of s copies; None where it is undefined.
        published_epsilon: what it really gives if all rows are filled alike; None where a coalition isolates somebody.
        undefined: why it is undefined, or nothing.
        central: of clients whose noise adds up to a trusted curator's.
        local: of clients that trust nobody.
    """

    published: float | None
    published_epsilon: float | None
    undefined: str
    central: float
    local: float


def plan_sketch(question: Question) -> Option:
    """Calibrate the sketch and predict its error.

    Raises:
        InvalidTaskError, RowUnderfilledError: no such task is possible.
    """
    claim, m = question.claim, question.sketch_rows
    asked = Osnap(row_bound=question.row_bound, fraction_bits=0, sigma=MIN_SIGMA, rows=m, sparsity=question.sparsity)
    mechanism = calibrated_sketch(asked, claim, question.columns, question.max_clients)
    sigma = mechanism.sigma * 2.0**-mechanism.fraction_bits
    if question.sparsity == 1:
        leverage = 1 / mechanism.smallest_row(claim.min_clients, claim)
    else:
        leverage = float(fraction(mechanism.leverage))
    return _option(question, mechanism, sigma, leverage, sketch_error(question, m, sigma))


def plan_second_moment(question: Question) -> Option:
    """Calibrate the sum of the rows' products and predict its error.

    Raises:
        InvalidTaskError, RowUnderfilledError: no such task is possible.
    """
    # A sum has one row, so that nothing of delta need be kept for crowded ones.
    claim = question.claim.model_copy(update={"delta_coalition": "0"})
    asked = SecondMoment(row_bound=question.row_bound, fraction_bits=0, sigma=MIN_SIGMA)
    mechanism = asked.calibrated(claim, question.columns, question.max_clients)
    sigma = mechanism.sigma * 4.0**-mechanism.fraction_bits
    # Twice sigma^2 on the diagonal, and sigma^2 twice off it, from every client.
    error = claim.min_clients * sigma**2 * question.columns * (question.columns + 1)
    honest = mechanism.smallest_row(claim.min_clients, claim)
    return _option(replace(question, claim=claim), mechanism, sigma, 1 / honest, error)


def yardsticks(question: Question) -> Yardsticks:
    """Return the noise that others would need for the same promise, sketch and row bound."""
    claim, m, s, d = question.claim, question.sketch_rows, question.sparsity, question.columns
    epsilon, delta = float(fraction(claim.epsilon)), float(fraction(claim.delta))
    entry_bound, corrupt = float(fraction(question.row_bound)) / math.sqrt(d), claim.max_corrupt_clients
    published, real_epsilon, undefined = None, math.inf, ""
    try:
        published = published_sigma(epsilon, delta, claim.min_clients, m, s, d, entry_bound, corrupt)
        filled = np.full(m, claim.min_clients * s // m)
        real_epsilon = gaussian_epsilon(published_mu(published, filled, s, d, entry_bound, corrupt), delta)
    except ValueError as error:
        undefined = str(error)
    total = central_sigma(question.sensitivity, epsilon, delta)
    return Yardsticks(
        published=published,
        published_epsilon=real_epsilon if real_epsilon < math.inf else None,
        undefined=undefined,
        # Every row of the sketch holds n s/m clients, and a column has the norm sqrt(s).
        central=total * math.sqrt(m / claim.min_clients),
        local=local_sigma(question.sensitivity, epsilon, delta),
    )


def sketch_error(question: Question, rows: float, sigma: float) -> float:
    """Return the expected squared Frobenius error of the Gram matrix from a sketch without its bias.

    ((tr M)^2 + |M|_F^2 - 2 sum |x|^4)/m + 2 v (d+1) tr M + m v^2 d (d+1), v = n sigma^2/m the noise in an entry, with
    rows of equal norm that fill all directions alike. The first term is the matrix's own, the others are the noise's.

    Args:
        question: what is planned for.
        rows: m.
        sigma: deviation of one client's noise in an entry, in normalised units.
    """
    d, trace = question.columns, question.trace
    v = question.claim.min_clients * sigma**2 / rows
    sampling = (trace**2 * (1 + 1 / d) - 2 * trace * question.row_norm**2) / rows
    return max(sampling, 0.0) + 2 * v * (d + 1) * trace + rows * v**2 * d * (d + 1)


def best_sketch_error(question: Question) -> float:
    """Return the predicted error at m* rows, with a trusted curator's noise."""
    rows = question.best_rows
    sigma = question.sensitivity / question.mu * math.sqrt(rows / question.claim.min_clients)
    return sketch_error(question, rows, sigma)


def predict(question: Question, squared_error: float) -> Prediction:
    """Turn the error of a Gram matrix into what an analyst notices (docs/planning.md).

    With E the error: directions of rank k lose at most sqrt(2k) |E|_F, since tr((P - P')E) <= |P - P'|_F |E|_F for
    projections of rank k. A regression on p features of equal variance with coefficients of norm at most 1 loses
    about 2 p d/(d+1) |E|_F^2 / (tr M)^2 of the target's squared length.
    """
    relative = math.sqrt(squared_error) / question.trace
    d = question.columns
    return Prediction(
        squared_error=squared_error,
        relative_error=relative,
        low_rank=min(1.0, math.sqrt(2 * question.rank) * relative),
        ridge=min(1.0, 2 * question.features * d / (d + 1) * relative**2),
    )


def smallest_epsilon(question: Question, sigma: float) -> Question:
    """Return the question with the smallest epsilon, in six digits, whose sketch needs no more noise than `sigma`.

    Raises:
        InvalidTaskError: there is no such epsilon up to 10^4, or no such task.
    """
    if not 0 < sigma < math.inf:
        raise InvalidTaskError(f"sigma must be positive, got {sigma}")
    leverage = plan_sketch(question).leverage
    mu = question.sensitivity * math.sqrt(leverage) / sigma
    # What the lattice and the rounding of sigma cost is found by trying: a few steps of a millionth.
    for step in range(100):
        epsilon = max(gaussian_epsilon(mu, question.claim.noise_delta), 1e-6) * (1 + step * 1e-6)
        if epsilon > 1e4:
            break
        answer = question.with_claim(epsilon=_six_digits_up(epsilon))
        if plan_sketch(answer).sigma <= sigma:
            return answer
    raise InvalidTaskError(f"no epsilon up to 10000 has a sketch with sigma {sigma} or less")


def smallest_cohort(question: Question, good_enough: Callable[[Question], bool]) -> Question:
    """Return the question with the smallest cohort that is good enough; what is good enough stays so for more clients.

    Raises:
        InvalidTaskError: no cohort is that good.
    """

    def holds(clients: int) -> bool:
        try:
            return good_enough(question.with_claim(min_clients=clients))
        except LintraError:
            return False  # too few clients for any such task

    try:
        corrupt = 0 if question.usual_coalition else question.claim.max_corrupt_clients
        clients = smallest_whole(max(1, corrupt) + 1, holds, MOST_CLIENTS)
    except NoBoundaryError as error:
        raise InvalidTaskError(f"no cohort of up to {MOST_CLIENTS} clients is enough; fix other numbers") from error
    return question.with_claim(min_clients=clients)


def report_bytes(num_words: int, num_servers: int) -> dict[str, int]:
    """Return what one client uploads to all servers together, for both forms of shares, with hybrid sealing."""
    fixed = header_bytes(num_servers) + KEY_ID_BYTES + BLIND_BYTES + 1 + OVERHEAD_BYTES[HYBRID]
    return {
        "uniform": num_servers * (fixed + 8 * num_words),
        "seeded": num_servers * fixed + (num_servers - 1) * SEED_BYTES + 8 * num_words,
    }


def _option(question: Question, mechanism: Mechanism, sigma: float, leverage: float, error: float) -> Option:
    columns, claim = question.columns, question.claim
    fits = _largest(lambda clients: mechanism.log_wrap_probability(columns, clients) <= LOG_MAX_WRAP)
    largest_total = -(-question.max_clients // mechanism.num_rows) * mechanism.largest_word()
    return Option(
        mechanism=mechanism,
        sigma=sigma,
        leverage=leverage,
        epsilon=mechanism.privacy(claim, columns, claim.min_clients).epsilon,
        if_colluding=epsilons_if_colluding(mechanism, claim, columns),
        predicted=predict(question, error),
        report_bytes=report_bytes(mechanism.num_words(columns), question.num_servers),
        headroom_bits=RING_BITS - 1 - math.log2(largest_total),
        max_clients=fits,
    )


def _largest(holds: Callable[[int], bool]) -> int:
    """Return the largest cohort up to `MOST_CLIENTS` for which the monotone `holds` is true; 0 if none."""
    if holds(MOST_CLIENTS):
        return MOST_CLIENTS
    return bisect_whole(0, MOST_CLIENTS, holds)


def _six_digits_up(number: float) -> Real:
    """Spell a positive number with six digits, rounded up."""
    return real(Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float(number))
