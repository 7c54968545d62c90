"""Faults of organisations, of their ledgers and of the rules about them. Each replaces one function of the pipeline.

`lintra_audit.kinds.organisations` says which of them a mechanism can have, and which checks catch them.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt, sqrt

import numpy as np

from lintra_audit.trials.organisations import THE_ORGANISATION, File, charge, contribute, exact_contribution
from lintra_audit.trials.simulated_release import Seams
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.fields.contributors import MAX_ROWS
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.task import Task


def _with_noise(task: Task, file: File, runs: int, random_bytes: RandomBytes, factor: float) -> IntArray:
    """Encode a file with noise of so many times the deviation."""
    noisier = task.measurement.changed(sigma=round(task.mechanism.sigma * factor))
    exact = exact_contribution(task, file)
    return noisier.noised(np.broadcast_to(exact, (runs, exact.size)), random_bytes)


def _planned_for_all(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode with noise that would do if no organisation were corrupt."""
    del organisation
    honest = 1 - task.claim.max_corrupt_clients / task.claim.min_clients
    return _with_noise(task, file, runs, random_bytes, sqrt(honest))


def _noise_of_each_row(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode with a draw of noise for every row."""
    del organisation
    return _with_noise(task, file, runs, random_bytes, sqrt(max(len(file.rows), 1)))


def _noise_by_size(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode with noise in proportion to the rows, as if a mean got noise and was multiplied afterwards.

    Where so much cannot be drawn, with as much as can.
    """
    del organisation
    largest = task.measurement.layout.largest_sigma
    most = (MAX_SIGMA - 1) / (largest + 1)
    return _with_noise(task, file, runs, random_bytes, min(max(len(file.rows), 1), most))


def _missing_noise(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode, and leave out the first organisation's noise."""
    if organisation:
        return contribute(task, organisation, file, runs, random_bytes)
    exact = exact_contribution(task, file)
    return np.repeat(exact[np.newaxis], runs, axis=0)


def _one_row_of_each(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode with the noise that a person of one row needs."""
    del organisation
    held, stated = task.contributors, replace(task.measurement, claim=task.claim)
    if held is None:
        raise ValueError("only organisations have persons of several rows")
    one = replace(stated, setting=Setting(held.model_copy(update={"rows_per_person": 1})))
    less, distance = float(one.squared_distance), float(stated.squared_distance)
    return _with_noise(task, file, runs, random_bytes, sqrt(less / distance))


def _one_place(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode with the noise that a person in one organisation needs."""
    del organisation
    return _with_noise(task, file, runs, random_bytes, 1 / sqrt(task.setting.squared_places))


def _root_of_places(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode as if changes in s organisations added up like noise, to the root of s times one of them."""
    del organisation
    return _with_noise(task, file, runs, random_bytes, float(task.setting.squared_places) ** -0.25)


def _clipped_by_row(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode every row as a person of its own: each keeps the bound, all of a person together do not."""
    return contribute(task, organisation, File.of_persons(file.rows), runs, random_bytes)


def _two_blocks(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode the file in two blocks, so that a person whose rows lie in both is clipped twice."""
    halves = file.persons * 2 + np.arange(len(file.rows)) % 2
    numbered = np.unique(halves, return_inverse=True)[1]
    return contribute(task, organisation, File(file.rows, numbered, file.null_rows), runs, random_bytes)


def _dropped_rows(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode without the rows in which a value is missing, although the count is exact."""
    whole = ~np.isnan(file.rows).any(axis=1)
    rest = np.unique(file.persons[whole], return_inverse=True)[1]
    return contribute(task, organisation, File(file.rows[whole], rest, file.null_rows), runs, random_bytes)


def _count_of_row_bound(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode with half the row bound as the count of a row, which costs more where a person's bound is small."""
    reports = contribute(task, organisation, file, runs, random_bytes)
    rows, own = len(file.rows), exact_contribution(task, file)[-1]
    reports[:, -1] += isqrt(task.mechanism.squared_bound // 4) * rows - own
    return reports


def _bare_count(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode without noise in the count, though the task says it is noisy."""
    reports = contribute(task, organisation, file, runs, random_bytes)
    reports[:, -1] = exact_contribution(task, file)[-1]
    return reports


def _twice(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode the file twice and add up, as if two reports of one organisation had been taken."""
    reports = [contribute(task, organisation, file, runs, random_bytes) for _ in range(2)]
    return reports[0] + reports[1]


def _any_rows(task: Task, organisation: int, file: File, runs: int, random_bytes: RandomBytes) -> IntArray:
    """Encode however many rows there are."""
    held = task.contributors
    if held is None:
        raise ValueError("only organisations have a largest number of rows")
    many = task.model_copy(update={"contributors": held.model_copy(update={"max_rows": MAX_ROWS})})
    return contribute(many, organisation, file, runs, random_bytes)


def _admit_all(task: Task) -> None:
    """Admit a task whatever it says."""


def _charge_the_organisation(task: Task, persons: Sequence[str]) -> dict[str, float]:
    """Charge the organisation instead of the persons in its file."""
    charged = charge(task, persons)
    return dict.fromkeys(persons, 0.0) | {THE_ORGANISATION: max(charged.values())}


def _charge_as_promised(task: Task, persons: Sequence[str]) -> dict[str, float]:
    """Charge the mu of the task's own neighbours, which are nearer than replaced ones."""
    mu = task.privacy(task.claim.min_clients).mu
    return dict.fromkeys(persons, mu) | {THE_ORGANISATION: 0.0}


ORGANISATION_FAULTS: dict[str, Seams] = {
    "planned-for-all": Seams(contribute=_planned_for_all),
    "noise-of-each-row": Seams(contribute=_noise_of_each_row),
    "noise-by-size": Seams(contribute=_noise_by_size),
    "missing-noise": Seams(contribute=_missing_noise),
    "one-row-of-each": Seams(contribute=_one_row_of_each),
    "one-place": Seams(contribute=_one_place),
    "root-of-places": Seams(contribute=_root_of_places),
    "clipped-by-row": Seams(contribute=_clipped_by_row),
    "two-blocks": Seams(contribute=_two_blocks),
    "dropped-rows": Seams(contribute=_dropped_rows),
    "count-of-row-bound": Seams(contribute=_count_of_row_bound),
    "bare-count": Seams(contribute=_bare_count),
    "two-reports": Seams(contribute=_twice),
    "too-many-rows": Seams(contribute=_any_rows),
    "exact-count": Seams(admit=_admit_all),
    "organisation-charged": Seams(charge=_charge_the_organisation),
    "promise-charged": Seams(charge=_charge_as_promised),
}
"""By name; each replaces one seam."""
