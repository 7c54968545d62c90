"""The rows of persons: how many an organisation may contribute, and which persons have equally many."""

from collections.abc import Iterator

import numpy as np

from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.mechanisms.setting import Setting

_NUMBERS_AT_ONCE = 1 << 20
"""How many numbers of an organisation's rows, or words of theirs, are held at once."""


def check_rows(rows: FloatArray, persons: IntArray, setting: Setting) -> None:
    """Refuse more rows than an organisation may contribute.

    `rows` have shape `(n, d)`; `persons` says whose each is, shape `(n,)`, numbered from 0. Raises InvalidRowError if
    more rows than the task allows, of all persons or of one; ValueError if the task's reports are single rows.
    """
    contributors = setting.contributors
    if contributors is None:
        raise ValueError("the task's reports are single rows; only organisations contribute many")
    if len(rows) > contributors.max_rows:
        raise InvalidRowError(f"{len(rows)} rows; an organisation contributes {contributors.max_rows} at most")
    most = int(np.bincount(persons).max(initial=0)) if len(persons) else 0
    if most > contributors.rows_per_person:
        raise InvalidRowError(
            f"a person has {most} rows; the promise is for at most {contributors.rows_per_person}: keep so "
            "many of each person"
        )


def by_number_of_rows(persons: IntArray) -> Iterator[IntArray]:
    """Yield the persons that have as many rows as each other: their rows' places, shape `(persons, rows of each)`.

    `persons` says whose row each is, shape `(n,)`, numbered from 0. Places of one person are in ascending order.
    """
    order = np.argsort(persons, kind="stable")
    held = np.bincount(persons)
    starts = np.cumsum(held) - held
    for size in np.unique(held[held > 0]):
        first = starts[held == size]
        yield order[first[:, np.newaxis] + np.arange(size)]


def clipped_together(rows: FloatArray, persons: IntArray | None, width: int) -> Iterator[FloatArray]:
    """Yield rows, shape `(n, d)`, or those of persons of equally many, shape `(n, r, d)`; a few at a time.

    `persons` says whose row each is, shape `(n,)`; None where rows are clipped one by one. `width` is how many numbers
    of a row are held at once.
    """
    if persons is None:
        step = max(1, _NUMBERS_AT_ONCE // width)
        yield from (rows[start : start + step] for start in range(0, len(rows), step))
        return
    for places in by_number_of_rows(persons):
        step = max(1, _NUMBERS_AT_ONCE // (width * places.shape[1]))
        yield from (rows[places[start : start + step]] for start in range(0, len(places), step))
