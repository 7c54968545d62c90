"""What organisations contribute: the sum of their rows' exact encodings, and one draw of noise for all of them.

The unit of privacy is a person, who may have several rows in several organisations
(docs/explanation/privacy.md#organisations). A task tells its mechanism who contributes; the mechanism's own document
never says it.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from pydantic import PrivateAttr

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import InvalidRowError, InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms.encoder import Encoder
from lintra_protocol.privacy.statement import Claim, Neighbours

_WORDS_AT_ONCE = 1 << 21
"""How many words of noiseless rows are held at once."""


class Contributed(Encoder):
    """A mechanism as far as it knows that a report may be the contribution of an organisation."""

    takes_contributors: ClassVar[bool] = False
    """Whether organisations may contribute to it."""

    clips_persons: ClassVar[bool] = False
    """Whether all rows of a person are clipped together, as one long vector, and not one by one."""

    _contributors: Contributors | None = PrivateAttr(default=None)

    @property
    def contributors(self) -> Contributors | None:
        """Return who contributes, as the task says; None where every report is one row."""
        return self._contributors

    def of_contributors(self, contributors: Contributors | None) -> Self:
        """Return this mechanism as that of a task with these contributors."""
        if self._contributors == contributors:
            return self
        copy = self.model_copy()
        copy._contributors = contributors
        return copy

    # --- words and sizes ---------------------------------------------------------------------------------------

    @property
    def persons(self) -> str:
        """Return in words to whom the promise is made; nothing where it is made to a client and its row."""
        return "" if self.contributors is None else self.contributors.persons

    @property
    def senders(self) -> str:
        """Return in words who sends reports."""
        return "clients" if self.contributors is None else f"organisations of {self.contributors.max_rows} rows"

    @property
    def exact_count_words(self) -> int:
        """Return 1 if a report ends with the exact number of its rows, a word without noise; else 0."""
        return int(self.contributors is not None and self.contributors.count == "exact")

    @property
    def counts_noisily(self) -> bool:
        """Whether the rows of an organisation are counted with noise."""
        return self.contributors is not None and self.contributors.count == "noisy"

    def report_words(self, num_columns: int) -> int:
        """Return the ring words in a report: w, which carry noise, and one more for an exact count."""
        return self.num_words(num_columns) + self.exact_count_words

    def report_sigmas(self, num_columns: int) -> IntArray:
        """Return the deviation of every word's noise, shape `(report_words,)`: `sigmas`, and 0 for an exact count.

        Where servers add the noise all are 0.
        """
        return np.pad(self.sigmas(num_columns), (0, self.exact_count_words)) * (self.noising_servers == 0)

    def largest_report_word(self) -> int:
        """Return the largest absolute value of a word of a noiseless report, of one row or of `max_rows` of them."""
        rows = 1 if self.contributors is None else self.contributors.max_rows
        return rows * self.largest_word()

    def released_rows(self, sketch: IntArray) -> float:
        """Return how many rows all organisations have, with noise if it is released so, from a sum of shape `(1, w)`.

        Raises:
            ValueError: the reports are not contributions.
        """
        if self.contributors is None:
            raise ValueError("every report is one row; their number is that of the reports")
        return float(sketch[0, -1]) if self.exact_count_words else self.noisy_rows(sketch)

    def noisy_rows(self, sketch: IntArray) -> float:
        """Return the rows that released integers, shape `(m, w)`, count with noise.

        Raises:
            ValueError: this mechanism counts none.
        """
        del sketch
        raise ValueError(f"{self.kind} has no noisy count")

    @property
    def count_deviation(self) -> float:
        """Return the deviation, in rows, that one report gives a noisy count; only where there is one.

        Raises:
            ValueError: this mechanism has none.
        """
        raise ValueError(f"{self.kind} has no noisy count")

    @property
    def has_noisy_count(self) -> bool:
        """Whether released integers of this mechanism can count rows with noise."""
        return False

    @property
    def person_norm(self) -> float | None:
        """Return the largest norm of all rows of a person together, in normalised units; None if clipped one by one."""
        return None

    # --- what a person can move ----------------------------------------------------------------------------------

    @property
    def squared_count_step(self) -> Fraction:
        """Return the square of what a row adds to a noisy count word of its own, in multiples of that word's noise.

        It is 0 where there is no such word. Only Lemma O0 asks for it.
        """
        return Fraction(0)

    def squared_person_distance(self, neighbours: Neighbours) -> Fraction:
        """Return the largest squared distance of two sums that differ in one person's rows in one organisation.

        Rows that are clipped one by one: Lemma O0 (docs/explanation/privacy.md#organisations).
        """
        return self._of_persons(self.squared_row_distance, neighbours)

    def _of_persons(self, squared_of_rows: Callable[[Neighbours], Fraction], neighbours: Neighbours) -> Fraction:
        """Return the same from the squared distance of two rows, or of a row and the null row."""
        if self.contributors is None:
            return squared_of_rows(neighbours)
        rows, alone = self.contributors.rows_per_person, squared_of_rows("zero-out") + self.squared_count_step
        if neighbours == "replace-one":
            alone = max(squared_of_rows("replace-one"), alone)
        return rows**2 * alone

    @property
    def squared_places(self) -> int:
        """Return s^2: a person's rows in s organisations may all change at once, each in the same way."""
        return 1 if self.contributors is None else self.contributors.organisations_per_person**2

    # --- the organisation's part ---------------------------------------------------------------------------------

    def contribution(self, rows: FloatArray, persons: IntArray, random_bytes: RandomBytes) -> IntArray:
        """Encode all rows of an organisation as one report with one draw of noise, shape `(report_words,)`.

        `rows` are normalised, of shape `(n, d)` and any norm; what is missing is no finite number. `persons` says whose
        row each is, shape `(n,)`, numbered from 0.
        """
        return self.noised(self.exact_contribution(rows, persons), rows.shape[1], random_bytes)

    def noised(self, exact: IntArray, num_columns: int, random_bytes: RandomBytes) -> IntArray:
        """Add one draw of noise to a contribution, none to its exact count.

        `exact` has shape `(report_words,)`, or `(k, report_words)` for one draw for each of k; `num_columns` is d.
        """
        noise = self.noise(len(np.atleast_2d(exact)), num_columns, random_bytes)
        noised: IntArray = exact + np.pad(noise, ((0, 0), (0, self.exact_count_words))).reshape(exact.shape)
        return noised

    def exact_contribution(self, rows: FloatArray, persons: IntArray) -> IntArray:
        """Return the same without noise, shape `(report_words,)` (see `contribution` for the arguments)."""
        self._require_rows(rows, persons)
        if self.leaves_out:
            whole = np.flatnonzero(np.isfinite(rows).all(axis=1))
            rows, persons = rows[whole], persons[whole]
        total = self.exact_sum(rows, persons)
        return np.append(total, [len(rows)] * self.exact_count_words).astype(np.int64)

    def exact_sum(self, rows: FloatArray, persons: IntArray) -> IntArray:
        """Return the sum of the noiseless reports of rows that are clipped one by one, shape `(w,)`."""
        del persons
        total = np.zeros(self.num_words(rows.shape[1]), np.int64)
        step = max(1, _WORDS_AT_ONCE // total.size)
        for start in range(0, len(rows), step):
            total += self.exact_reports(rows[start : start + step]).sum(axis=0)
        return total

    def _require_rows(self, rows: FloatArray, persons: IntArray) -> None:
        if self.contributors is None:
            raise ValueError("the task's reports are single rows; only organisations contribute many")
        if len(rows) > self.contributors.max_rows:
            raise InvalidRowError(f"{len(rows)} rows; an organisation contributes {self.contributors.max_rows} at most")
        most = int(np.bincount(persons).max(initial=0)) if len(persons) else 0
        if most > self.contributors.rows_per_person:
            raise InvalidRowError(
                f"a person has {most} rows; the promise is for at most {self.contributors.rows_per_person}: keep so "
                "many of each person"
            )

    # --- what a task may say ---------------------------------------------------------------------------------------

    def require_contributors(self, claim: Claim) -> None:
        """Refuse contributors, or a claim about them, that have no proof.

        Raises:
            InvalidTaskError: in words.
        """
        held = self.contributors
        if held is None:
            if claim.neighbours == "add-remove":
                raise InvalidTaskError(
                    "neighbours 'add-remove' are for contributors: a client that sends a single row is visible, and "
                    "takes its noise along; use 'replace-one' or 'zero-out'"
                )
            return
        if not self.takes_contributors:
            raise InvalidTaskError(f"contributors: organisations cannot contribute to {self.kind}")
        if self.clip_words:
            raise InvalidTaskError("clip_count_weight: contributions do not count clipped rows; use 0")
        self._require_person_bound(held)
        if held.count == "exact" and claim.neighbours == "add-remove":
            raise InvalidTaskError("an exact count tells add-remove neighbours apart: use count 'noisy'")
        if held.count == "exact" and claim.neighbours == "replace-one" and held.rows_per_person > 1:
            raise InvalidTaskError(
                f"a person of up to {held.rows_per_person} rows may be replaced by one of fewer, which shows in an "
                "exact count: use count 'noisy', or neighbours 'zero-out'"
            )
        if held.count == "noisy" and not self.has_noisy_count:
            raise InvalidTaskError(f"contributors: {self.noisy_count_advice()}")

    def noisy_count_advice(self) -> str:
        """Return in words what is needed for a noisy count."""
        return f"{self.kind} like this has no word for a noisy count; use count 'exact'"

    def _require_person_bound(self, held: Contributors) -> None:
        if held.squared_person_bound is None:
            return
        if not self.clips_persons:
            raise InvalidTaskError(f"person_bound: {self.kind} clips the rows of a person one by one; leave it out")
        most = held.rows_per_person * fraction(self.row_bound) ** 2
        if held.squared_person_bound > most:
            raise InvalidTaskError(
                f"person_bound {held.person_bound} is more than row_bound {self.row_bound} times the root of "
                f"{held.rows_per_person} rows, which is all that a person needs"
            )


def by_number_of_rows(persons: IntArray) -> Iterator[IntArray]:
    """Yield the persons that have as many rows as each other: their rows' places, shape `(persons, rows of each)`.

    Places of one person are in ascending order. `persons` says whose row each is, shape `(n,)`, numbered from 0.
    """
    order = np.argsort(persons, kind="stable")
    held = np.bincount(persons)
    starts = np.cumsum(held) - held
    for size in np.unique(held[held > 0]):
        first = starts[held == size]
        yield order[first[:, np.newaxis] + np.arange(size)]
