"""What is audited: small cohorts with the task's own calibration, and twins of real tasks at that size."""

from dataclasses import dataclass
from math import ceil, isqrt, sqrt

import numpy as np

from lintra_protocol.canonical import base64url
from lintra_protocol.documents import real
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms import AnyMechanism, Osnap, OsnapPublished, SecondMoment, Sum
from lintra_protocol.mechanisms.base import MIN_SIGMA
from lintra_protocol.noise import MAX_SIGMA
from lintra_protocol.privacy.statement import SMOOTHING, Claim, Neighbours
from lintra_protocol.randomness import derive_seed, expand
from lintra_protocol.ring import FloatArray, IntArray
from lintra_protocol.schema import Column
from lintra_protocol.sealing import CLASSICAL
from lintra_protocol.signing import SigningKey
from lintra_protocol.task import AnalyzerEntry, ServerEntry, Task

NUM_SERVERS = 3
MAX_NUMBERS = 64
"""Words of noise in one run, clients times words, up to which a task is audited as it is."""

KINDS = frozenset({"osnap", "sum", "second_moment"})
"""The mechanisms whose tasks can be audited: those that have twins of any size."""

_PUBLISHED = OsnapPublished(entry_bound="1", fraction_bits=0, sigma=4, rows=1, published_epsilon="1")
_KEYS = bytes(32)
# Far outside every ball: whoever sends this relies on nothing but the encoder's bound.
_HOSTILE = 1e3


@dataclass(frozen=True)
class Case:
    """One audit: a task, the cohort that reports, and what is asked of the servers.

    Attributes:
        name: one word for tables and `--case`.
        about: what it is, in a few words.
        task: the public parameters; checked when it is made.
        num_clients: who reports.
        without_first: whether a second release, of the same reports without client 0, is asked for.
        effort: runs of this case for one run of an ordinary one; a smaller mu needs more.
        must_refuse: whether the rules must refuse the last request.
    """

    name: str
    about: str
    task: Task
    num_clients: int
    without_first: bool = False
    effort: int = 1
    must_refuse: bool = False

    def requests(self) -> list[IntArray]:
        """Return the numbers of the clients in each release that is asked for."""
        everybody = np.arange(self.num_clients)
        return [everybody, everybody[1:]] if self.without_first else [everybody]

    def rows(self, victim: int) -> tuple[FloatArray, FloatArray]:
        """Return the normalised rows of world 0 and world 1, each of shape `(clients, d)`: worst-case neighbours.

        The victim sends far too long a row along one axis, and the opposite one, nothing, or one along another axis
        in the other world, whichever pair the claim calls farthest; where entries are clipped, all of them are too
        large. The others' rows are known to the adversary.
        """
        bound = float(self.task.mechanism.row_bound)
        worlds = np.zeros((2, self.num_clients, self.task.num_columns))
        worlds[:, :, -1] = bound / 2
        worlds[:, victim] = 0.0
        axes = slice(None) if self.task.mechanism.kind == "osnap_published" else 0
        worlds[1, victim, axes] = bound * _HOSTILE
        if self.task.claim.neighbours == "replace-one":
            if isinstance(self.task.mechanism, SecondMoment):
                worlds[0, victim] = _farthest(self.task.mechanism, self.task.num_columns) * bound * _HOSTILE
            else:
                worlds[0, victim, axes] = -bound * _HOSTILE
        return worlds[0], worlds[1]

    def adjacent_rows(self, victim: int) -> tuple[FloatArray, FloatArray]:
        """Return rows as in `rows`, but the victim's differ by one integer step: indistinguishable if all is well."""
        worlds = np.array(self.rows(victim))
        largest = isqrt(self.task.mechanism.squared_bound)
        if isinstance(self.task.mechanism, OsnapPublished):
            largest = self.task.mechanism.entry_steps
        worlds[:, victim] = 0.0
        worlds[:, victim, 0] = np.array([largest - 1, largest]) * 2.0**-self.task.mechanism.fraction_bits
        return worlds[0], worlds[1]


def make_case_task(
    mechanism: AnyMechanism,
    *,
    num_columns: int,
    min_clients: int,
    max_corrupt_clients: int = 0,
    epsilon: str = "4",
    delta: str = "0.00001",
    neighbours: Neighbours = "replace-one",
) -> Task:
    """Return a checked task among made-up parties, its mechanism calibrated to the claim."""
    claim = Claim(
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        min_clients=min_clients,
        max_corrupt_clients=max_corrupt_clients,
        threat="adaptive",
    )
    return task_of(mechanism.calibrated(claim, num_columns, 1000), claim, num_columns)


def task_of(mechanism: AnyMechanism, claim: Claim, num_columns: int) -> Task:
    """Return a checked task for a calibrated mechanism; its keys belong to nobody."""
    keys = [SigningKey(derive_seed(_KEYS, "audit identity", bytes([k]))).public_key for k in range(NUM_SERVERS + 2)]
    task = Task(
        salt=base64url(_KEYS),
        purpose="an audit",
        author_key=keys[0],
        servers=tuple(
            ServerEntry(url=f"http://server-{index}.test", identity_key=key) for index, key in enumerate(keys[2:])
        ),
        analyzer=AnalyzerEntry(identity_key=keys[1], sealing_key=base64url(derive_seed(_KEYS, "audit sealing"))),
        columns=tuple(Column(name=f"x{index}", lower="-1", upper="1") for index in range(num_columns)),
        mechanism=mechanism,
        claim=claim,
        max_clients=1000,
        not_before=1,
        not_after=2**40,
        suite=CLASSICAL,
    )
    task.check()
    return task


def standard_cases() -> list[Case]:
    """Return what `lintra audit release` runs by default."""
    plain = Sum(row_bound="1", fraction_bits=0, sigma=4)
    products = SecondMoment(row_bound="1", fraction_bits=0, sigma=4)
    one = make_case_task(_sketch(3), num_columns=2, min_clients=24, max_corrupt_clients=2)
    two = make_case_task(_sketch(4, 2), num_columns=2, min_clients=24)
    corrupt = make_case_task(_sketch(4, 2), num_columns=2, min_clients=48, max_corrupt_clients=2)
    strict = make_case_task(plain, num_columns=2, min_clients=12, max_corrupt_clients=1, epsilon="1")
    spare = make_case_task(plain, num_columns=2, min_clients=11, max_corrupt_clients=1)
    null = make_case_task(plain, num_columns=2, min_clients=12, neighbours="zero-out")
    pair = make_case_task(plain, num_columns=1, min_clients=2)
    moments = make_case_task(products, num_columns=2, min_clients=10, max_corrupt_clients=1)
    published = make_case_task(_PUBLISHED, num_columns=1, min_clients=120, epsilon="1.12", delta="0.000001")
    return [
        Case("osnap", "sketch, s = 1, n = 24, m = 3, d = 2, t = 2", one, 24),
        Case("osnap-2", "sketch, s = 2, n = 24, m = 4, d = 2, smoothed", two, 24),
        Case("osnap-2-corrupt", "sketch, s = 2, n = 48, m = 4, d = 2, t = 2, smoothed", corrupt, 48),
        Case("published", "published calibration, s = 1, n = 120, m = 1, d = 1", published, 120, effort=2),
        Case("sum", "sum, n = 12, d = 2, t = 1, epsilon 1", strict, 12, effort=2),
        Case("null-row", "sum, n = 12, d = 2, row or null row", null, 12),
        Case("second-moment", "products, n = 10, d = 2, t = 1", moments, 10),
        Case("pair", "sum, n = 2, d = 1", pair, 2),
        Case("thin-row", "sketch, m = 3, t = 2, cohort of 9 instead of 24", one, 9, must_refuse=True),
        Case("twice", "sum, n = 12, then again without client 0", spare, 12, without_first=True, must_refuse=True),
    ]


def case_of_task(task: Task) -> tuple[Case, str]:
    """Return an audit of a task at its minimum cohort, or of a twin of a size that can be run often; and say which.

    The twin has the same kind of mechanism, bound, neighbours and delta, for a cohort and a row length that fit into
    `MAX_NUMBERS` words a run. Its noise is set so that its mu is the task's; with several entries per column, where mu
    depends on the matrix, it is calibrated to the task's claim instead.

    Raises:
        InvalidTaskError: the task's mechanism is not one that this audit knows.
        LintraError: the task does not keep its own promise.
    """
    task.check()
    num_clients = task.claim.min_clients
    if task.mechanism.kind not in KINDS:
        raise InvalidTaskError(f"the audit does not know the mechanism {task.mechanism.kind!r}")
    if num_clients * task.num_words <= MAX_NUMBERS:
        return Case("task", f"the task itself, n = {num_clients}", task, num_clients), "the task itself"
    twin = _twin(task)
    same = "claim" if getattr(task.mechanism, "sparsity", 1) > 1 else "mu"
    size = f"n = {twin.claim.min_clients}, m = {twin.mechanism.num_rows}, d = {twin.num_columns}"
    said = (
        f"a twin ({size}) with the task's {same}: the task's own minimum cohort, {num_clients} clients with "
        f"{task.num_words} words each, is too large to be run often enough"
    )
    return Case("task", f"twin: {size}", twin, twin.claim.min_clients), said


def hostile_rows(mechanism: AnyMechanism, num_columns: int) -> FloatArray:
    """Return normalised rows that try to leave the ball, shape `(k, d)`: huge, barely outside, in all directions."""
    bound = float(mechanism.row_bound)
    directions = np.frombuffer(expand(_KEYS, "hostile rows")(8 * 8 * num_columns), np.int64).astype(np.float64)
    unit = directions.reshape(8, num_columns)
    unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    axis = np.eye(1, num_columns)
    mixed = np.where(np.arange(num_columns) % 2, 1e-3, 1.0)[np.newaxis]
    lengths = np.array([1.0, 1 + 1e-9, 1.04, 1e3, 1e6, 1e150, 1e300, 1.0])[:, np.newaxis]
    spread = np.full((1, num_columns), 1.0)
    rows: FloatArray = bound * np.concatenate(
        [unit * lengths, -unit[:4] * lengths[2:6], axis * 2, -axis * 2, axis[:, ::-1] * 1e300, spread, -spread, mixed]
    )
    return rows


def _farthest(mechanism: SecondMoment, num_columns: int) -> FloatArray:
    """Return the direction, or 0, whose products lie farthest from those of the first axis.

    With R = B^2 and the intercept c its cosine is -c^2 / R (docs/privacy.md#trace-and-intercept); in one dimension
    there is only the opposite row or none at all.
    """
    square = mechanism.intercept_steps**2 / mechanism.squared_bound
    direction = np.zeros(num_columns)
    if num_columns == 1:
        direction[0] = -1.0 if 6 * square > 1 else 0.0
    else:
        direction[0] = -min(square, 1.0)
        direction[1] = sqrt(1 - direction[0] ** 2)
    return direction


def _sketch(rows: int, sparsity: int = 1) -> Osnap:
    return Osnap(row_bound="1", fraction_bits=0, sigma=64, rows=rows, sparsity=sparsity)


def _twin(task: Task) -> Task:
    """Return the small task of `case_of_task`."""
    claim, mechanism = task.claim, task.mechanism
    several = isinstance(mechanism, Osnap) and mechanism.sparsity > 1
    rows = min(mechanism.num_rows, 4 if several else 3)
    clients = min(claim.min_clients, 8 * rows)
    small = Claim(
        epsilon=claim.epsilon,
        delta=real(f"{claim.noise_delta:.12g}"),
        neighbours=claim.neighbours,
        min_clients=clients,
        # With several entries per column so small a cohort has none to spare.
        max_corrupt_clients=0 if several else min(claim.max_corrupt_clients, 1),
        threat="adaptive",
    )
    columns = min(task.num_columns, 2)
    if isinstance(mechanism, Osnap):
        mechanism = mechanism.model_copy(update={"rows": rows, "sparsity": 2 if several else 1})
    if several:
        return task_of(mechanism.calibrated(small, columns, 1000), small, columns)
    mu = task.privacy(claim.min_clients).mu
    return task_of(_with_mu(mechanism, small, columns, mu), small, columns)


def _with_mu(mechanism: AnyMechanism, claim: Claim, num_columns: int, mu: float) -> AnyMechanism:
    """Return the mechanism with the noise that gives `mu` at the minimum cohort; on a coarser grid if it must."""
    honest = mechanism.smallest_row(claim.min_clients, claim)
    for bits in range(mechanism.fraction_bits, -1, -1):
        coarser = mechanism.model_copy(update={"fraction_bits": bits})
        distance = float(coarser.squared_distance(claim, num_columns))
        sigma = ceil(((distance / mu**2 + SMOOTHING) / honest) ** 0.5 * (1 + 1e-9))
        if sigma <= MAX_SIGMA:
            break
    return coarser.model_copy(update={"sigma": max(sigma, MIN_SIGMA)})
