"""Organisations as contributors: one report holds the rows of many persons, and the promise is made to a person.

A person has at most `rows_per_person` rows in one organisation, and rows in at most `organisations_per_person` of them.
What a person can move, and why, stands in docs/proofs/persons.md#organisations.
"""

from fractions import Fraction
from typing import Literal

from pydantic import Field, model_validator

from lintra_protocol.encoding.documents import Frozen, Real, fraction, omitted

MAX_ROWS_PER_PERSON = 65_536
MAX_ROWS = 2**40


class Contributors(Frozen):
    """Who sends the reports of a task, and what one person may be in them.

    Attributes:
        kind: always "organisations".
        rows_per_person: r, most rows of one person in one organisation.
        person_bound: P, in normalised units: the root of the largest sum of squared norms of a person's rows in one
            organisation, where a mechanism clips them together; None for `row_bound` sqrt(r).
        organisations_per_person: s, in how many organisations one person may have rows.
        max_rows: most rows of one organisation.
        count: whether an organisation's number of rows is released as it is, or with noise.
    """

    kind: Literal["organisations"] = "organisations"
    rows_per_person: int = Field(ge=1, le=MAX_ROWS_PER_PERSON)
    person_bound: Real | None = omitted(None)
    organisations_per_person: int = Field(ge=1, le=2**32)
    max_rows: int = Field(ge=1, le=MAX_ROWS)
    count: Literal["exact", "noisy"]

    @model_validator(mode="after")
    def _positive_bound(self) -> "Contributors":
        if self.person_bound is not None and fraction(self.person_bound) <= 0:
            raise ValueError(f"person_bound is positive, got {self.person_bound}")
        return self

    @property
    def squared_person_bound(self) -> Fraction | None:
        """Return P^2, exactly; None where `row_bound` decides."""
        return None if self.person_bound is None else fraction(self.person_bound) ** 2

    @property
    def persons(self) -> str:
        """Return in words to whom the promise is made."""
        rows, places = self.rows_per_person, self.organisations_per_person
        in_places = f"in at most {places} organisation" + "s" * (places > 1)
        return f"persons, each with at most {rows} row{'s' * (rows > 1)} {in_places}"
