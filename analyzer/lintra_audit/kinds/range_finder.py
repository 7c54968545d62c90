"""The audits of `range_finder`: rows that share the longest projection and are opposite orthogonally to it."""

from fractions import Fraction
from functools import partial
from math import sqrt
from typing import cast

import numpy as np

from lintra_audit.kinds.kind_audit import KindAudit, Planted
from lintra_audit.kinds.organisations import organisation_audit
from lintra_audit.trials.audit_case import Case, make_case_task, numbers
from lintra_audit.trials.neighbours import Pair, hostile_rows
from lintra_audit.trials.planted_faults import noiseless, only_for, without_room_for_the_count
from lintra_audit.trials.scaled_task import MAX_CLIENTS, twin_of
from lintra_audit.trials.simulated_release import Encode, encode, first_largest
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import CLIPPED, Products
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.range_finder import RangeFinder, Target
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.clipping import quantise
from lintra_protocol.privacy.statement import Neighbours
from lintra_protocol.task import Task

_NUM_COLUMNS, _NUM_CLIENTS = 12, 6
_TWIN_COLUMNS, _TWIN_RANK = 8, 2

_OF_ORGANISATIONS = RangeFinder(
    row_bound="1",
    fraction_bits=0,
    sigma=4,
    rank=2,
    omega_seed=base64url(bytes(32)),
    projected_bound="0.015625",
    intercept="0.015625",
)
"""The farthest pair is sqrt(1 - (C / (k B))^2) of the promise, k sqrt(2) being Omega's largest singular value.

With C = k B / 32 or less that is .9995 or more. Here k = 2, both bounds are whole numbers of steps, and C is so small
that eight times the noise can still be drawn, as some mistakes do.
"""


def cases() -> list[Case]:
    """Return projections alone, with all other fields, with a clip counter as large as all else, and the null row."""
    plain = RangeFinder(
        row_bound="1", fraction_bits=0, sigma=4, rank=3, omega_seed=base64url(bytes(32)), projected_bound="0.8"
    )
    fields = plain.model_copy(
        update={
            "projected_bound": "0.5",
            "intercept": "0.7",
            "trace": True,
            "targets": (Target(column=1, bound="0.1", bits=2),),
        }
    )
    counted = plain.model_copy(update={"clip_count_weight": "1"})
    size = _NUM_CLIENTS
    made = partial(make_case_task, num_columns=_NUM_COLUMNS, min_clients=size, max_corrupt_clients=1)
    about = f"n = {size}, d = {_NUM_COLUMNS}, r = 3, t = 1"
    return [
        Case("range-finder", f"projected products, {about}", partial(made, plain), size),
        Case("range-finder-fields", f"with intercept, target and trace, {about}", partial(made, fields), size),
        Case("range-finder-count", f"with a clip counter, {about}", partial(made, counted), size),
        Case(
            "range-finder-null-row",
            f"row or null row, {about}",
            partial(made, plain, neighbours="zero-out"),
            _NUM_CLIENTS,
        ),
    ]


def farthest(task: Task) -> Pair:
    """Return a + b and a - b, of which q sees a alone, so that the distance is 2 |b| |q|.

    The row a has targets as large as they count and the longest projection, and is the shortest such row. Of its
    multiples t a, with |a + b| the bound B, that one is taken for which (B^2 - t^2 |a|^2) (c^2 + t^2 Q) is largest: c
    is the intercept and Q the square of all else of q. A larger projection would be clipped, and leave less for b.
    """
    mechanism = cast("RangeFinder", task.mechanism)
    signs = mechanism.signs(task.num_columns)
    own = np.eye(task.num_columns)[:, [target.column for target in mechanism.targets]]
    seen = np.concatenate([own, signs], axis=1)
    bound, limit = float(mechanism.row_bound), float(mechanism.projected_bound) * sqrt(mechanism.rank)
    values = np.array([float(target.bound) for target in mechanism.targets])
    along = np.linalg.svd(signs)[2][0] * limit
    # Slightly beyond the clip of the projection, so that rounding leaves the longest projection.
    a: FloatArray = np.linalg.lstsq(seen.T, np.concatenate([values, along]) * (1 + 1e-6), rcond=None)[0]
    counted = values * np.array([2.0**target.bits for target in mechanism.targets])
    beside = float(counted @ counted) + float(mechanism.projected_bound) ** 2
    best = (bound**2 / float(a @ a) - float(mechanism.intercept) ** 2 / beside) / 2
    a *= sqrt(min(max(best, 0.0), 1.0))
    free = _unseen(seen) * sqrt(bound**2 - float(a @ a))
    if CLIPPED not in task.measurement.layout:
        return a + free, a - free
    # With a clip counter one row is clipped and the other stays inside both bounds, also when it is rounded.
    margin = 2 * sqrt(task.num_columns) * 2.0**-mechanism.fraction_bits
    return (a + free) * (1 - margin), (a - free) * 1.01


def _unseen(seen: FloatArray) -> FloatArray:
    """Return a unit row of which `seen`, shape `(d, k)`, shows nothing; the same on every processor, shape `(d,)`.

    It is the part orthogonal to `seen` of a column's direction, or of a sum or difference of two, whichever keeps most.
    Two columns with equal projections differ by such a row, and its entries are rounded alike.
    """
    own = np.eye(len(seen))
    first, second = np.triu_indices(len(seen), k=1)
    tried = np.hstack([own, (own[:, first] - own[:, second]) / sqrt(2), (own[:, first] + own[:, second]) / sqrt(2)])
    kept = tried - seen @ (np.linalg.pinv(seen) @ tried)
    lengths = np.linalg.norm(kept, axis=0)
    most = first_largest(lengths)
    row: FloatArray = kept[:, most] / lengths[most]
    return row


def hostile(mechanism: Mechanism, num_columns: int) -> FloatArray:
    """Return rows that try to leave either ball: also those whose projections are longest, shape `(k, d)`."""
    finder = cast("RangeFinder", mechanism)
    directions = np.linalg.svd(finder.signs(num_columns), full_matrices=False)[0].T
    aligned = np.concatenate([directions, -directions]) * float(finder.row_bound)
    return np.concatenate([hostile_rows(mechanism, num_columns), aligned, aligned * 1e3, aligned * 0.3])


def twin(task: Task) -> Task:
    """Return eight columns with two projections, and the first target if there is one."""
    mechanism = cast("RangeFinder", task.mechanism)
    columns = min(task.num_columns, _TWIN_COLUMNS)
    targets = tuple(target.model_copy(update={"column": 0}) for target in mechanism.targets[:1])
    rank = max(1, min(mechanism.rank, _TWIN_RANK, columns // 2))
    small = mechanism.model_copy(update={"rank": rank, "targets": targets})
    return twin_of(task, small, min(task.claim.min_clients, MAX_CLIENTS), numbers(columns))


# --- mistakes ---------------------------------------------------------------------------------------------------


def _with_projection(
    measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes, projected: IntArray
) -> IntArray:
    """Encode rows of shape `(runs, clients, d)` of a task without further fields, given what stands for p."""
    steps = measurement.mechanism.clip(rows.reshape(-1, rows.shape[-1]), measurement.setting)
    exact = Products(steps, projected).of_each_row().reshape(*rows.shape[:2], -1)
    return exact + encode(measurement, rows, random_bytes) - noiseless(measurement, rows)


def _unclipped(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with projections that are rounded and left as long as they are."""
    finder = cast("RangeFinder", measurement.mechanism)
    steps = finder.clip(rows.reshape(-1, rows.shape[-1]), measurement.setting)
    long = np.rint(steps @ finder.signs(rows.shape[-1]) * 2.0**-finder.halvings).astype(np.int64)
    return _with_projection(measurement, rows, random_bytes, long)


def _without_halving(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode without the halving h in the projection and in its clip, but with h in the noise."""
    finder = cast("RangeFinder", measurement.mechanism)
    steps = finder.clip(rows.reshape(-1, rows.shape[-1]), measurement.setting)
    whole = steps @ finder.signs(rows.shape[-1])
    norms = np.maximum(np.linalg.norm(whole, axis=1, keepdims=True), 1)
    longest = sqrt(4.0**finder.halvings * finder.projected_squared_bound)
    kept = np.trunc(whole * np.minimum(1, longest / norms)).astype(np.int64)
    return _with_projection(measurement, rows, random_bytes, kept)


def _own_signs(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with signs that every client draws for itself, once it has its row."""
    finder = cast("RangeFinder", measurement.mechanism)
    steps = finder.clip(rows.reshape(-1, rows.shape[-1]), measurement.setting)
    size = (*steps.shape, finder.rank)
    signs = 1 - 2 * (np.frombuffer(random_bytes(int(np.prod(size))), np.uint8) & 1).astype(np.int64)
    seen = np.einsum("nd,ndr->nr", steps, signs.reshape(size)) * 2.0**-finder.halvings
    return _with_projection(measurement, rows, random_bytes, quantise(seen, finder.projected_squared_bound))


def _with_noise_for(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes, squared: float) -> IntArray:
    """Encode with the noise that rows at another squared distance would need."""
    stated = float(_squared_distance(measurement, "replace-one"))
    sigma = round(measurement.mechanism.sigma * sqrt(squared / stated))
    return encode(measurement.changed(sigma=sigma), rows, random_bytes)


def _squared_distance(measurement: Measurement, neighbours: Neighbours) -> Fraction:
    return measurement.mechanism.squared_distance(neighbours, measurement.num_columns, Setting())


def _products_noise(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with the sensitivity of second moments, sqrt(2) B^2, in the units of the projection."""
    finder = cast("RangeFinder", measurement.mechanism)
    unit = finder.projected_squared_bound / float(fraction(finder.projected_bound)) ** 2
    squared = 2 * finder.squared_bound * unit * float(fraction(finder.row_bound)) ** 2
    return _with_noise_for(measurement, rows, random_bytes, squared)


def _one_side_noise(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with the sensitivity of one row, B C."""
    return _with_noise_for(measurement, rows, random_bytes, float(_squared_distance(measurement, "zero-out")))


def _planted(about: str, faulty: Encode, *caught_by: str, case: str = "range-finder") -> Planted:
    return Planted(about, only_for("range_finder", faulty), case, frozenset(caught_by))


AUDIT = KindAudit(
    cases=cases,
    faults={
        "one-side-of-the-range": _planted(
            "the noise is that of a row and the null row", _one_side_noise, "optimal test", "black box", "noise law"
        ),
        "products-for-the-range": _planted("the noise is that of all second moments", _products_noise, "noise law"),
        "unclipped-projection": _planted("projections are not clipped", _unclipped, "encoder"),
        "forgotten-halving": _planted("projections are not halved", _without_halving, "encoder"),
        "signs-of-its-own": _planted(
            "each client draws signs of its own after it has its row", _own_signs, "noise law"
        ),
        "free-clip-count-of-a-range": _planted(
            "clipped rows are counted, but the noise is that of a task without a count",
            without_room_for_the_count,
            "optimal test",
            "noise law",
            case="range-finder-count",
        ),
    },
    farthest=farthest,
    hostile=hostile,
    twin=twin,
    organisations=organisation_audit("products with projections", _OF_ORGANISATIONS, columns=lambda: numbers(4)),
)
