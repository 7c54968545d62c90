"""The analyses that the console offers of a release, their questions, and why a release cannot give the others.

Nobody asks which mechanism a release came from: it is asked for what an analysis needs, and refuses in words.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from lintra_analysis.estimators.linear_score import is_binary
from lintra_analysis.estimators.means import means
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_analyzer.web.analyses import Request, parse_request
from lintra_protocol.errors import InvalidAnalysisError

LISTS = frozenset({"features", "columns", "quantiles", "powers", "regularizations"})
WHOLE = frozenset({"components", "num_rows", "seed", "powers", "first", "last"})
REAL = frozenset({"regularization", "regularizations", "confidence", "quantiles"})
MOST_BOXES = 60
"""With more columns names are typed, one a line, instead of ticked."""

MOST_SYNTHETIC_ROWS = 100_000
"""On a page; the REST interface makes more."""


@dataclass(frozen=True)
class Offer:
    """One analysis.

    Attributes:
        kind: its name in the REST interface.
        title: its name on the page.
        answers: the question that it answers, in a sentence.
        reading: how to read its picture.
        needs: asks a release for what the analysis needs; what that raises is why it cannot be had.
        fields: what its form asks for.
        required: those that have no default.
        explains: of the columns of a release those that the field `target` can name, the likeliest first.
    """

    kind: str
    title: str
    answers: str
    reading: str
    needs: Callable[[Release], object]
    fields: tuple[str, ...]
    required: tuple[str, ...] = ()
    explains: Callable[[Release], list[str]] = lambda release: names_of(release)


def names_of(release: Release) -> list[str]:
    """Return the names of the columns that vary; none where a release is not about single columns."""
    return [column.name for column in _columns_of(release) if column.constant is None]


def _ones_of(release: Release) -> list[str]:
    return [column.name for column in _columns_of(release) if is_binary(column)]


def _declared_first(release: Release) -> list[str]:
    try:
        declared = {release.columns[each.column].name for each in release.need("range_sums").targets}
    except InvalidAnalysisError:
        declared = set()
    # False comes before True, and the order of the columns stays otherwise.
    return sorted(names_of(release), key=lambda name: name not in declared)


def _columns_of(release: Release) -> tuple[ScaledColumn, ...]:
    try:
        return release.columns
    except InvalidAnalysisError:
        return ()


def _moments(release: Release) -> object:
    return release.second_moment()


def _binary(release: Release) -> object:
    release.second_moment()
    if not any(is_binary(column) for column in release.columns):
        raise InvalidAnalysisError("a score ranks by a column of zeros and ones, and this release has none")
    return None


def _means(release: Release) -> object:
    return means(release)


def _cells(release: Release) -> object:
    return release.need("cells")


def _range(release: Release) -> object:
    return release.need("range_sums")


def _rounds(release: Release) -> object:
    return release.need("joint_sums")


_LINES = "Points are estimates, lines their intervals; a hollow point has none. The grey line is 0."
_USUAL = ("of", "confidence")

OFFERS = (
    Offer("regression", "Regression", "How does one column change with others?", _LINES, _moments,
          ("target", "features", "regularization", *_USUAL), ("target",)),
    Offer("regression-path", "Regression path", "What does a penalty change, and which one costs least?",
          "Each curve is a coefficient; the dashed line marks the penalty of the smallest cost.", _moments,
          ("target", "features", "regularizations"), ("target",)),
    Offer("linear-score", "Linear score", "Which rows are likelier to have a 1 in a column of zeros and ones?",
          "Filled bars are told apart from 0, hollow ones are not.", _binary,
          ("target", "features", *_USUAL), ("target",), _ones_of),
    Offer("pca", "Principal components", "In which directions do the columns vary together?", _LINES, _moments,
          ("components", "columns", "about", *_USUAL)),
    Offer("correlation", "Correlations", "Which columns rise and fall together?",
          "Red is together, blue against each other. A number in brackets may as well be 0.", _moments,
          ("columns", "about", *_USUAL)),
    Offer("means", "Means", "What is the average of each column?", _LINES, _means, ("columns", *_USUAL)),
    Offer("histogram", "Histograms and quantiles", "How are the values of each column distributed?",
          "Bars are the shares of the cells, lines the intervals of these shares.", _cells,
          ("columns", "quantiles", *_USUAL)),
    Offer("power-sums", "Sums of powers", "What are the sums of |x|, of x squared and so on?", _LINES, _cells,
          ("columns", "powers", "confidence")),
    Offer("wide-components", "Components of many columns", "In which directions do very many columns vary together?",
          _LINES, _range, ("components", "about")),
    Offer("wide-variances", "Variances along components", "How much do very many columns vary along them?",
          _LINES, _range, ("components", "about", "confidence")),
    Offer("wide-ridge", "Ridge regression on many columns", "How does one column change with very many others?",
          "Bars are hollow, since nothing here tells a coefficient from 0.", _range,
          ("target", "regularization", "about"), ("target",), _declared_first),
    Offer("synthetic", "Synthetic rows", "What could rows look like that have the released shape?", "", _rounds,
          ("num_rows", "seed"), ("num_rows", "seed")),
    Offer("fidelity", "What to expect of synthetic rows", "Which parts of synthetic rows can be believed?",
          "Points are released correlations; lines are how far those of synthetic rows may be from them.", _rounds,
          ("confidence",)),
)  # fmt: skip


@dataclass(frozen=True)
class Refused:
    """An analysis that a release cannot give, and why."""

    offer: Offer
    reason: str


def offer_of(kind: str) -> Offer:
    """Return an analysis by its kind.

    Raises:
        InvalidAnalysisError: there is none; the detail names those that there are.
    """
    for offer in OFFERS:
        if offer.kind == kind:
            return offer
    raise InvalidAnalysisError(f"there is no page for {kind!r}; there are {', '.join(one.kind for one in OFFERS)}")


def offers_of(release: Release) -> tuple[list[Offer], list[Refused]]:
    """Return the analyses that a release can give, and the others with the reason."""
    given, refused = [], []
    for offer in OFFERS:
        try:
            offer.needs(release)
        except InvalidAnalysisError as error:
            refused.append(Refused(offer, error.detail))
        else:
            given.append(offer)
    return given, refused


class Asked:
    """What somebody filled into the form of an analysis, as a query carries it."""

    def __init__(self, offer: Offer, query: Sequence[tuple[str, str]]) -> None:
        """Read a query; what the form does not ask for is left out, and so is what is empty."""
        self.offer = offer
        found: dict[str, list[str]] = {}
        for name, value in query:
            if name in offer.fields:
                words = _words(name, value)
                found.setdefault(name, []).extend(word.strip() for word in words if word.strip())
        self.values: Mapping[str, list[str]] = {name: words for name, words in found.items() if words}

    @property
    def complete(self) -> bool:
        """Whether everything that has no default was filled in."""
        return all(name in self.values for name in self.offer.required)

    @property
    def query(self) -> str:
        """Return the same as a query, for links: equal forms give equal ones."""
        return urlencode([(name, word) for name in self.offer.fields for word in self.values.get(name, ())])

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
        """Return what was filled in as the fields of a request."""
        asked: dict[str, object] = {}
        for name, words in self.values.items():
            values = [_value(name, word) for word in words]
            asked[name] = values if name in LISTS else values[0]
        return asked


def _words(name: str, value: str) -> list[str]:
    """Return what one field says: one word, names on lines of their own, or numbers with blanks between them."""
    if name not in LISTS:
        return [value]
    return value.replace(",", " ").split() if name in WHOLE | REAL else value.splitlines()


def _value(name: str, word: str) -> object:
    if name not in WHOLE | REAL:
        return word
    try:
        return int(word) if name in WHOLE else float(word)
    except ValueError:
        wanted = "a whole number" if name in WHOLE else "a number"
        raise InvalidAnalysisError(f"{name}: expected {wanted}, got {word[:40]!r}") from None


def _bounded(rows: int) -> int:
    if rows > MOST_SYNTHETIC_ROWS:
        raise InvalidAnalysisError(
            f"num_rows: at most {MOST_SYNTHETIC_ROWS:,} on a page; the REST interface makes more at once"
        )
    return rows
