"""The analyses that the console offers of a release, their questions, and why a release cannot give the others.

Nobody asks which mechanism a release came from: it is asked for what an analysis needs, and refuses in words.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from lintra_analysis.releases.release import Release
from lintra_analyzer.web.analyses import ANALYSES, Analysis, Request, parse_request
from lintra_protocol.errors import InvalidAnalysisError

MOST_BOXES = 60
"""With more columns names are typed, one a line, instead of ticked."""

MOST_SYNTHETIC_ROWS = 100_000
"""On a page; the REST interface makes more."""


@dataclass(frozen=True)
class Refused:
    """An analysis that a release cannot give, and why."""

    offer: Analysis
    reason: str


def offer_of(kind: str) -> Analysis:
    """Return an analysis by its kind.

    Raises InvalidAnalysisError if there is none; the detail names those that there are.
    """
    if kind not in ANALYSES:
        raise InvalidAnalysisError(f"there is no page for {kind!r}; there are {', '.join(ANALYSES)}")
    return ANALYSES[kind]


def offers_of(release: Release) -> tuple[list[Analysis], list[Refused]]:
    """Return the analyses that a release can give, and the others with the reason."""
    given, refused = [], []
    for offer in ANALYSES.values():
        try:
            offer.needs(release)
        except InvalidAnalysisError as error:
            refused.append(Refused(offer, error.detail))
        else:
            given.append(offer)
    return given, refused


class AnalysisForm:
    """What somebody filled into the form of an analysis, as a query carries it."""

    def __init__(self, offer: Analysis, query: Sequence[tuple[str, str]]) -> None:
        """Read a query; what the form does not ask for is left out, and so is what is empty."""
        self.offer = offer
        found: dict[str, list[str]] = {}
        for name, value in query:
            if name in offer.form.fields:
                words = self._words(name, value)
                found.setdefault(name, []).extend(word.strip() for word in words if word.strip())
        self.values: Mapping[str, list[str]] = {name: words for name, words in found.items() if words}

    @property
    def complete(self) -> bool:
        """Whether everything that has no default was filled in."""
        return all(name in self.values for name in self.offer.required)

    @property
    def query(self) -> str:
        """Return the same as a query, for links: equal forms give equal ones."""
        return urlencode([(name, word) for name in self.offer.form.fields for word in self.values.get(name, ())])

    def first(self, name: str, default: str = "") -> str:
        """Return what was filled into a field with one value."""
        return self.values.get(name, [default])[0]

    def request(self) -> Request:
        """Return what the service is asked."""
        document = self.document()
        if self.offer.kind == "synthetic" and isinstance(rows := document.get("num_rows"), int):
            document["num_rows"] = _bounded(rows)
        return parse_request(json.dumps({"kind": self.offer.kind, **document}).encode())

    def document(self) -> dict[str, object]:
        """Return what was filled in as the fields of a request; raise InvalidAnalysisError if a number is none."""
        asked: dict[str, object] = {}
        for name, words in self.values.items():
            several, kind = self.offer.type_of(name)
            values = [_value(name, word, kind) for word in words]
            asked[name] = values if several else values[0]
        return asked

    def _words(self, name: str, value: str) -> list[str]:
        """Return what one field says: one word, names on lines of their own, or numbers with blanks between them."""
        several, kind = self.offer.type_of(name)
        if not several:
            return [value]
        return value.splitlines() if kind == "string" else value.replace(",", " ").split()


def _value(name: str, word: str, kind: str) -> object:
    if kind == "string":
        return word
    try:
        return int(word) if kind == "integer" else float(word)
    except ValueError:
        wanted = "a whole number" if kind == "integer" else "a number"
        raise InvalidAnalysisError(f"{name}: expected {wanted}, got {word[:40]!r}") from None


def _bounded(rows: int) -> int:
    if rows > MOST_SYNTHETIC_ROWS:
        raise InvalidAnalysisError(
            f"num_rows: at most {MOST_SYNTHETIC_ROWS:,} on a page; the REST interface makes more at once"
        )
    return rows
