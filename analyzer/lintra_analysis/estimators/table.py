"""The presentation of an answer: a table with its title, its text, and its figures."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from lintra_analysis.estimators.estimates import Answer
from lintra_analysis.estimators.figures import Figure
from lintra_analysis.estimators.tabular import Cell, closing, csv_text, facts, table, title
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

Shown = tuple[Sequence[str], Iterable[Sequence[str]]]
"""A table of a text: its heading, and lines of words."""

NO_FIGURE = "this answer has a table and no picture"


@dataclass(frozen=True)
class Matrix:
    """A data frame that is not the lines of a table: numbers of shape `(k, d)`, k names and d names."""

    values: FloatArray
    index: Sequence[str]
    columns: Sequence[str]


@dataclass(frozen=True, eq=False)
class Table:
    """One answer for people and for files.

    Attributes:
        title: above the text.
        columns: the heading of the lines.
        rows: the lines, made as they are read, once; a cell that is None is not available.
        facts: names and values that stand above the tables of the text.
        shown: the tables of the text.
        notes: sentences below them, and `warnings` after those.
        figures: what makes each, by name; mostly one, without a name.
        no_figure: why there is none, if there is none.
        index: columns that a data frame has as its index.
        matrix: what a data frame holds, if not the lines.
    """

    title: str
    columns: Sequence[str]
    rows: Iterable[Sequence[Cell]]
    facts: Sequence[tuple[str, str]] = ()
    shown: Sequence[Shown] = ()
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    no_figure: str = NO_FIGURE
    index: Sequence[str] = ()
    matrix: Matrix | None = None

    def to_csv(self) -> str:
        """Return CSV with one header line; a number that is not available is an empty cell."""
        return csv_text(self.columns, self.rows)

    def to_frame(self) -> "DataFrame":
        """Return a pandas table; needs `lintra[frames]`."""
        import pandas

        if self.matrix is not None:
            own = self.matrix
            return pandas.DataFrame(own.values, index=list(own.index), columns=list(own.columns))
        frame = pandas.DataFrame(list(self.rows), columns=list(self.columns))
        return frame.set_index(list(self.index)) if self.index else frame

    def summary(self, privacy: str | None = None) -> str:
        """Return a text for people; `privacy` says what the release promises, if the caller knows."""
        lines = [*title(self.title), *facts(self.facts)]
        for header, rows in self.shown:
            lines += table(header, rows)
        return "\n".join([*lines, *closing(privacy, self.warnings, self.notes)]) + "\n"

    def html(self) -> str:
        """Return the text as HTML for a notebook: facts, tables, notes and warnings."""
        pairs = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self.facts)
        parts = [f"<h4>{escape(self.title)}</h4>", f"<table>{pairs}</table>" if pairs else ""]
        for header, rows in self.shown:
            head = "".join(f"<th>{escape(cell.strip())}</th>" for cell in header)
            body = ("".join(f"<td>{escape(cell.strip())}</td>" for cell in row) for row in rows)
            lines = "".join(f"<tr>{cells}</tr>" for cells in body)
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>")
        parts += [f"<p>{escape(note)}.</p>" for note in self.notes]
        parts += [f"<p><strong>Warning:</strong> {escape(warning)}.</p>" for warning in self.warnings]
        return f"<div>{''.join(parts)}</div>"

    def figure(self, name: str) -> Figure:
        """Return a figure.

        Raises:
            InvalidAnalysisError: there is none of this name.
        """
        if name not in self.figures:
            known = ", ".join(filter(None, self.figures)) or "no others than the one without a name"
            raise InvalidAnalysisError(f"there is no picture {name[:60]!r}; there are {known}")
        return self.figures[name]()


class Estimate(Answer, ABC):
    """The answer of an estimator: a frozen dataclass of numbers, and the table that shows them."""

    @abstractmethod
    def table(self) -> Table:
        """Return the answer as a table."""

    def summary(self, privacy: str | None = None) -> str:
        """Return a text for people; `privacy` says what the release promises, if the caller knows."""
        return self.table().summary(privacy)

    def to_csv(self) -> str:
        """Return the table with one header line; a number that is not available is an empty cell."""
        return self.table().to_csv()

    def to_frame(self) -> "DataFrame":
        """Return a pandas table; needs `lintra[frames]`."""
        return self.table().to_frame()

    @abstractmethod
    def in_words(self) -> str:
        """Return what was found in a few sentences: the text alternative of the picture."""

    @property
    def pictures(self) -> tuple[str, ...]:
        """The names of what can be drawn: mostly one picture, without a name."""
        return tuple(self.table().figures)

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the first picture on matplotlib's axes, or on new ones; needs `lintra[plot]`.

        Raises:
            InvalidAnalysisError: there is none, or matplotlib is not installed.
        """
        own = self.table()
        for figure in own.figures.values():
            return figure().on(axes)
        raise InvalidAnalysisError(own.no_figure)

    def drawing(self, picture: str) -> "Callable[[Axes], object]":
        """Return what draws a picture of this name on axes.

        Raises:
            InvalidAnalysisError: there is none.
        """
        return self.table().figure(picture).on

    def _repr_html_(self) -> str:
        return self.table().html()

    def npz(self) -> bytes | None:
        """Return the answer as a file of NumPy; None, as mostly, if it has no such form."""
        return None

    def parquet(self) -> bytes | None:
        """Return the answer as a Parquet file; None, as mostly, if it has no other than its table."""
        return None

    def headers(self) -> dict[str, str]:
        """Return HTTP headers that go with the table; mostly none."""
        return {}
