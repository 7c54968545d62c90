"""Cases and planted faults of organisations, the same for every mechanism that takes their contributions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import isqrt, sqrt
from typing import Any

import numpy as np

from lintra_audit.kinds.kind_audit import OrganisationAudit, Planted
from lintra_audit.trials.audit_case import Case, make_case_task, numbers, unchecked_task
from lintra_audit.trials.organisations import THE_ORGANISATION, File, charge, contribute, exact_contribution
from lintra_audit.trials.simulated_release import Seams
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import IntArray
from lintra_protocol.fields.contributors import MAX_ROWS, Contributors
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.privacy.statement import Neighbours
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


MOST_ROWS = 12
"""Most rows of one organisation in these cases."""

_ABOUT = {
    "planned-for-all": "the noise is that of a task without corrupt organisations",
    "noise-of-each-row": "every row brings noise of its own",
    "noise-by-size": "the noise is as many times larger as there are rows",
    "missing-noise": "one organisation adds no noise",
    "one-row-of-each": "the noise is that of persons of one row",
    "one-place": "the noise is that of persons in one organisation",
    "root-of-places": "rows in s organisations are taken to move the sum by the root of s",
    "clipped-by-row": "a person's rows are clipped one by one, not together",
    "two-blocks": "a person's rows in two blocks are clipped twice",
    "dropped-rows": "rows with a missing value are dropped from an exact count",
    "count-of-row-bound": "the count's weight follows from the row bound, not from the person's",
    "bare-count": "the count carries no noise, though the task says so",
    "two-reports": "an organisation's rows are in two reports",
    "too-many-rows": "an organisation sends more rows than max_rows",
    "exact-count": "rows are counted exactly although persons come and go",
    "organisation-charged": "the ledger charges the organisation, not its persons",
    "promise-charged": "the ledger charges what is promised to persons who come and go, as it is",
}

_SEEN = frozenset({"optimal test", "noise law"})
_BARE = frozenset({"optimal test", "black box", "noise law"})
_COMMON = {
    "planned-for-all": ("replaced", _SEEN),
    "noise-of-each-row": ("replaced", frozenset({"noise law"})),
    "noise-by-size": ("replaced", frozenset({"noise law"})),
    "missing-noise": ("replaced", _BARE),
    "one-row-of-each": ("replaced", _SEEN),
    "one-place": ("several", _SEEN),
    "root-of-places": ("several", _SEEN),
    "two-reports": ("replaced", _BARE),
    "too-many-rows": ("many", frozenset({"refusal"})),
    "exact-count": ("exact-added", frozenset({"refusal", "encoder", "black box"})),
    "organisation-charged": ("added", frozenset({"ledger"})),
    "promise-charged": ("added", frozenset({"ledger"})),
}
"""By fault, the end of the case's name and the checks that must catch it."""

_EXACT = ("one-row", "null-rows", "several", "many")
"""Cases of an exact count, by the end of their names."""

_EXACTLY_COUNTED = {
    name: (case if case in _EXACT else "null-rows", caught)
    for name, (case, caught) in _COMMON.items()
    if case != "exact-added"
}

CLIPPED_TOGETHER = {
    "clipped-by-row": ("replaced", frozenset({"encoder"})),
    "two-blocks": ("replaced", frozenset({"encoder"})),
    "dropped-rows": ("one-row", frozenset({"encoder"})),
    "bare-count": ("added", frozenset({"black box", "noise law"})),
}
"""Mistakes that only mechanisms can make which clip a person's rows together and count them in a word."""

COUNTED_BY_SUM = {"count-of-row-bound": ("replaced", frozenset({"encoder"}))}
"""A mistake that only a sum can make: its count is as large as the bound."""


def organisation_audit(
    word: str,
    plain: AnyMechanism,
    *,
    person_bound: str | None = None,
    columns: Callable[[], Sequence[Column]] = lambda: numbers(2),
    faults: dict[str, tuple[str, frozenset[str]]] | None = None,
    counts_noisily: bool = True,
) -> OrganisationAudit:
    """Return cases of three organisations, two of them corrupt, and of five, and the mistakes that they show.

    `word` is what names of cases begin with; `plain` is the mechanism, not yet calibrated. `person_bound` is that of
    persons of three rows, where they are clipped together. `faults` are beside those that every mechanism shares.
    `counts_noisily` says whether the mechanism can have a noisy count; without one persons of several rows become null.
    """
    begins = f"organisations-{word}"
    named = (_COMMON if counts_noisily else _EXACTLY_COUNTED) | (faults or {})

    def cases() -> list[Case]:
        found = _cases(begins, word, partial(_task, plain, columns), person_bound)
        return found if counts_noisily else [case for case in found if case.name.removeprefix(f"{begins}-") in _EXACT]

    return OrganisationAudit(
        cases,
        {
            f"{name}-of-{word}": Planted(_ABOUT[name], ORGANISATION_FAULTS[name], f"{begins}-{case}", caught)
            for name, (case, caught) in named.items()
        },
    )


def _cases(begins: str, word: str, made: Callable[..., Task], person_bound: str | None) -> list[Case]:
    lowest = f"{word} of 3 organisations, t = 2"
    replaced = partial(made, _held(3, person_bound=person_bound, count="noisy"))
    one_row = partial(made, _held(1, count="exact"))
    null = partial(made, _held(2, count="exact"), "zero-out")
    added = partial(made, _held(2, count="noisy"), "add-remove")
    several = partial(made, _held(1, organisations_per_person=2, count="exact"), min_clients=5)
    much = "an organisation with more rows than it may have"
    return [
        Case(f"{begins}-replaced", f"{lowest}, persons of 3 rows, noisy count", replaced, 3),
        Case(f"{begins}-one-row", f"{lowest}, persons of 1 row, exact count", one_row, 3),
        Case(f"{begins}-null-rows", f"{lowest}, 2 rows or null rows, exact count", null, 3),
        Case(f"{begins}-added", f"{lowest}, 2 rows or none, noisy count", added, 3),
        Case(f"{begins}-several", f"{word} of 5 organisations, t = 2, persons in 2 of them", several, 5),
        Case(f"{begins}-many", much, one_row, 3, must_refuse=True, others=MOST_ROWS),
        Case(
            f"{begins}-exact-added",
            "2 rows or none, and an exact count",
            lambda: _exactly_counted(added()),
            3,
            must_refuse=True,
        ),
    ]


def _task(
    plain: AnyMechanism,
    columns: Callable[[], Sequence[Column]],
    held: Contributors,
    neighbours: Neighbours = "replace-one",
    min_clients: int = 3,
) -> Task:
    given = columns()
    return make_case_task(
        plain,
        num_columns=len(given),
        columns=given,
        min_clients=min_clients,
        max_corrupt_clients=2,
        neighbours=neighbours,
        contributors=held,
    )


def _held(rows: int, *, organisations_per_person: int = 1, **given: Any) -> Contributors:
    return Contributors(
        rows_per_person=rows, organisations_per_person=organisations_per_person, max_rows=MOST_ROWS, **given
    )


def _exactly_counted(task: Task) -> Task:
    """Return a task of the same noise that counts rows exactly, against the rule."""
    held = task.contributors
    if held is None:
        raise ValueError("only organisations count rows")
    setting = Setting(held.model_copy(update={"count": "exact"}))
    return unchecked_task(replace(task.measurement, setting=setting, claim=task.claim), task.columns)
