"""Cases and planted faults of organisations, the same for every mechanism that takes their contributions."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lintra_audit.kinds.kind_audit import OrganisationAudit, Planted
from lintra_audit.trials.audit_case import Case, make_case_task, numbers, unchecked_task
from lintra_audit.trials.organisation_faults import ORGANISATION_FAULTS
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Neighbours
from lintra_protocol.task import Task

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
