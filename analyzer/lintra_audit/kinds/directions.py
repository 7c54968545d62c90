"""The audits of a second round: products along public directions of rows that are clipped twice.

The promise holds for any directions. Here one direction occurs twice and is longer than 1, which no range finder would
release. Only with such directions does the audit see whether the joined row was clipped again.
"""

from functools import partial
from typing import cast

import numpy as np

from lintra_audit.kinds.kind_audit import Planted
from lintra_audit.trials.audit_case import Case, make_case_task, numbers
from lintra_audit.trials.neighbours import HOSTILE, Pair, hostile_rows
from lintra_audit.trials.organisations import File, contribute, exact_contribution
from lintra_audit.trials.planted_faults import noiseless, only_for
from lintra_audit.trials.scaled_task import MAX_CLIENTS, twin_of
from lintra_audit.trials.simulated_release import Seams, encode
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.directions import BASIS_BITS, along, directions, encode_basis
from lintra_protocol.mechanisms.layout import CLIPPED, ROWS, Layout
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.persons import by_number_of_rows
from lintra_protocol.mechanisms.second_moment import SecondMoment
from lintra_protocol.noise.clipping import quantise
from lintra_protocol.task import Task

ORGANISATIONS_CASE = "organisations-second-round"

_COLUMNS, _CLIENTS = 4, 10
_AFTER = "A" * 43
_TWICE = encode_basis(np.outer([0, 1, 1, 1], [10_000, 10_000]))
_PLAIN = SecondMoment(row_bound="1", fraction_bits=0, sigma=4, basis=_TWICE, after=_AFTER, targets=(0,))
_ROUNDING = 1e-6


def cases() -> list[Case]:
    """Return a second round alone, with all options, and with the null row."""
    made = partial(make_case_task, num_columns=_COLUMNS, min_clients=_CLIENTS, max_corrupt_clients=1)
    options = _PLAIN.model_copy(update={"intercept": "0.7", "trace": True, "clip_count_weight": "0.5"})
    about = f"products along two directions and a target, n = {_CLIENTS}, d = {_COLUMNS}, t = 1"
    return [
        Case("second-round", about, partial(made, _PLAIN), _CLIENTS),
        Case("second-round-options", f"with intercept, trace and clip counter: {about}", partial(made, options), 10),
        Case("second-round-null-row", f"row or null row: {about}", partial(made, _PLAIN, neighbours="zero-out"), 10),
    ]


def organisation_cases() -> list[Case]:
    """Return a second round of organisations whose persons have several rows."""
    held = Contributors(rows_per_person=2, organisations_per_person=1, max_rows=12, count="noisy", person_bound="1")
    task = partial(
        make_case_task,
        _PLAIN.model_copy(update={"intercept": "0.5"}),
        num_columns=_COLUMNS,
        min_clients=3,
        max_corrupt_clients=2,
        contributors=held,
    )
    about = "a second round of 3 organisations, t = 2, persons of 2 rows, noisy count"
    return [Case(ORGANISATIONS_CASE, about, task, 3)]


def _held(mechanism: Mechanism, num_columns: int) -> tuple[SecondMoment, IntArray]:
    """Return a mechanism that has directions, and these, in steps of 2^-14, shape `(d, r)`."""
    second = cast("SecondMoment", mechanism)
    if second.basis is None:
        raise ValueError("the task has no directions")
    return second, directions(second.basis, num_columns)


def _joining(mechanism: Mechanism, num_columns: int) -> FloatArray:
    """Return what maps a row to its directions and targets: shape `(d, r + k)`."""
    second, basis = _held(mechanism, num_columns)
    return np.concatenate([basis * 2.0**-BASIS_BITS, np.eye(num_columns)[:, list(second.targets)]], axis=1)


def farthest(task: Task, cosine: float) -> Pair:
    """Return rows that are on the bound along the directions too, and have this cosine there.

    Only vectors in the range of the map can be joined rows. Both rows lie along the two orthogonal directions that the
    map stretches most. Where the map shrinks them, neither the second bound nor the promise can be reached.
    """
    mechanism = task.mechanism
    left, sizes, _ = np.linalg.svd(_joining(mechanism, task.num_columns), full_matrices=False)
    plane = left[:, :2] / np.maximum(sizes[:2], sizes[0] * 1e-9)
    first = plane[:, 0]
    if sizes.size < 2 or sizes[1] < sizes[0] * 1e-9:
        second = -first if cosine < 0 else 0 * first
    else:
        second = cosine * first + (1 - cosine**2) ** 0.5 * plane[:, 1]
    bound = float(mechanism.row_bound)
    if CLIPPED not in task.measurement.layout:
        return HOSTILE * bound * second, HOSTILE * bound * first
    # One row just inside both bounds, also when it is rounded; the other is clipped.
    joined = float(np.linalg.norm(second @ _joining(mechanism, task.num_columns)))
    longest = max(joined, float(np.linalg.norm(second))) + 4 * task.num_columns * 2.0**-mechanism.fraction_bits
    return bound / longest * second, HOSTILE * bound * first


def hostile(mechanism: Mechanism, num_columns: int) -> FloatArray:
    """Return rows that try to leave the first bound, and such that try to leave the second; shape `(k, d)`."""
    stretched = np.linalg.svd(_joining(mechanism, num_columns), full_matrices=False)[0].T
    aligned = np.concatenate([stretched, -stretched]) * float(mechanism.row_bound)
    return np.concatenate([hostile_rows(mechanism, num_columns), aligned, aligned * 1e3, aligned * 0.7])


def twin(task: Task) -> Task:
    """Return a column for each of at most two directions, as long as the task's own, and the first target beside."""
    mechanism, basis = _held(task.mechanism, task.num_columns)
    lengths = np.sqrt(np.square(basis[:, :2]).sum(axis=0)).astype(np.int64)
    targets = tuple(range(lengths.size, lengths.size + len(mechanism.targets[:1])))
    columns = lengths.size + len(targets)
    steps = np.pad(np.diag(lengths), ((0, len(targets)), (0, 0)))
    small = mechanism.model_copy(update={"basis": encode_basis(steps), "targets": targets})
    return twin_of(task, small, min(task.claim.min_clients, MAX_CLIENTS), numbers(columns))


# --- mistakes ---------------------------------------------------------------------------------------------------


def _clipped_once(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode what is joined as it is: the row was clipped before."""
    second, basis = _held(measurement.mechanism, rows.shape[-1])
    steps = quantise(rows.reshape(-1, rows.shape[-1]) * 2.0**second.fraction_bits, second.squared_bound)
    return _with_words_of(measurement, along(steps, basis, second.targets), rows, random_bytes)


def _unclipped_target(measurement: Measurement, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Encode with unclipped targets from the file."""
    second, basis = _held(measurement.mechanism, rows.shape[-1])
    flat = np.clip(rows.reshape(-1, rows.shape[-1]), -1, 1)
    joined = second.clip(flat, measurement.setting)
    joined[:, basis.shape[1] :] = np.rint(flat[:, list(second.targets)] * 2.0**second.fraction_bits)
    return _with_words_of(measurement, joined, rows, random_bytes)


def _persons_clipped_once(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode an organisation's file with persons' rows that are clipped together, and not again along directions."""
    second, basis = _held(task.mechanism, task.num_columns)
    exact = exact_contribution(task, file)
    layout, setting = task.measurement.layout, task.setting
    once = np.zeros(layout.num_noised, np.int64)
    for places in by_number_of_rows(file.persons):
        whole = second.with_centre_for_missing(file.rows)[places].reshape(len(places), -1)
        steps = quantise(whole * 2.0**second.fraction_bits, second.person_bound(setting))
        mapped = along(steps.reshape(-1, task.num_columns), basis, second.targets)
        once += Layout(layout.blocks[: len(layout.blocks) - (ROWS in layout)]).summed(second.fill(mapped, setting))
    reports = contribute(task, organisation, file, runs, random_bytes)
    reports[:, : once.size] += once - exact[: once.size]
    return reports


def _with_words_of(measurement: Measurement, steps: IntArray, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
    """Return reports of rows of shape `(runs, clients, d)` with noise, whose clipped rows are `steps`."""
    exact = noiseless(measurement, rows)
    wrong = measurement.layout.reports(
        {CLIPPED: exact.reshape(-1, exact.shape[-1])[:, -1:], **measurement.mechanism.fill(steps, measurement.setting)}
    )
    return wrong.reshape(exact.shape) + encode(measurement, rows, random_bytes) - exact


FAULTS = {
    "clipped-once": Planted(
        "rows are not clipped again once they are joined",
        only_for("second_moment", _clipped_once),
        "second-round",
        frozenset({"encoder"}),
    ),
    "target-from-the-file": Planted(
        "targets are taken from the file, not from the clipped row",
        only_for("second_moment", _unclipped_target),
        "second-round",
        frozenset({"encoder"}),
    ),
}
"""What clients do wrong, by name."""

ORGANISATION_FAULT = Planted(
    "persons' rows are not clipped together again once they are joined",
    Seams(contribute=_persons_clipped_once),
    ORGANISATIONS_CASE,
    frozenset({"encoder"}),
)
