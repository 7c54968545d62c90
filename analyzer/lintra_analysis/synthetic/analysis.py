"""Synthetic rows and their report as analyses of a release, for the REST interface and the command line."""

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lintra_analysis.estimators.estimates import Plain
from lintra_analysis.estimators.notes import listed
from lintra_analysis.estimators.table import Estimate, Table
from lintra_analysis.releases.release import Release
from lintra_analysis.synthetic import generator
from lintra_analysis.synthetic.centred_model import fit_two_rounds
from lintra_analysis.synthetic.model import GaussianModel, fit
from lintra_analysis.synthetic.rows import SyntheticRows
from lintra_analysis.synthetic.sampling import MAX_NUMBERS, Space
from lintra_protocol.errors import InvalidAnalysisError

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN_ROWS = 10
SHOWN_WARNINGS = 5


@dataclass(frozen=True, eq=False)
class SyntheticEstimate(Estimate):
    """Synthetic rows as the answer to an analysis."""

    rows: SyntheticRows

    def to_dict(self) -> dict[str, Plain]:
        """Return the columns and the provenance."""
        return self.rows.to_dict()

    def table(self) -> Table:
        """Return the rows; `headers` says what goes with them. The picture is that of the fidelity report."""
        return Table("Synthetic rows", list(self.rows.columns), self.rows.lines())

    def in_words(self) -> str:
        """Return how many rows of what they are."""
        made = self.rows
        return f"{made.num_rows} synthetic rows of {listed(list(made.columns))}, seed {made.seed}; they are nobody's."

    def to_csv(self) -> str:
        """Return the rows; `headers` says what goes with them."""
        return self.rows.to_csv() or ""

    def to_frame(self) -> "DataFrame":
        """Return the rows as a pandas data frame of their own types."""
        return self.rows.to_pandas()

    def parquet(self) -> bytes:
        """Return the rows and their provenance as a Parquet file."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            self.rows.to_parquet(path)
            return path.read_bytes()

    def npz(self) -> bytes:
        """Return the rows and their provenance as a file of NumPy."""
        return self.rows.npz()

    def headers(self) -> dict[str, str]:
        """Return the privacy statement and the warnings as HTTP headers, in JSON."""
        provenance = self.rows.provenance()
        said = {name: value for name, value in provenance.items() if name != "columns"}
        warnings = provenance["warnings"]
        if isinstance(warnings, list) and len(warnings) > SHOWN_WARNINGS:
            # Servers and clients limit the size of headers; the JSON answer has them all.
            said["warnings"] = [*warnings[:SHOWN_WARNINGS], f"{len(warnings) - SHOWN_WARNINGS} more"]
        return {"lintra-provenance": json.dumps(said)}

    def summary(self, privacy: str | None = None) -> str:
        """Return the first rows and what goes with them.

        `privacy`, of one release, is not said: with two rounds it would be less than what both spend.
        """
        del privacy
        lines = self.to_csv().splitlines()[: SHOWN_ROWS + 1]
        if self.rows.num_rows > SHOWN_ROWS:
            lines.append(f".. {self.rows.num_rows - SHOWN_ROWS} more")
        lines.append(f"seed {self.rows.seed}, model {self.rows.model_digest}")
        lines.append(str(self.rows.promise))
        provenance = self.rows.provenance()["warnings"]
        lines += [f"Warning: {warning}." for warning in provenance] if isinstance(provenance, list) else []
        return "\n".join(lines) + "\n"


def gaussian_model(release: Release) -> GaussianModel:
    """Return the model of a release."""
    first, second = release.need("joint_sums"), release.centred
    return fit(first) if second is None else fit_two_rounds(first, second)


def synthesize(
    release: Release, num_rows: int, seed: int, space: Space = "columns", most: int = MAX_NUMBERS
) -> SyntheticRows:
    """Draw synthetic rows from the model of a release; any number of rows, any number of times, costs no privacy.

    >>> from lintra_analysis import open_release, synthesize
    >>> rows = synthesize(open_release("people.npz"), num_rows=1000, seed=7)
    >>> list(rows.columns), len(rows)
    (['age', 'income'], 1000)

    Args:
        release: of the mechanism `ron_gauss`, of one round or of both.
        num_rows: how many.
        seed: from 0 to 2^256 - 1; the same seed gives the same rows.
        space: the original columns, or the projected coordinates h1..hp.
        most: numbers in the table, rows times columns.

    Raises:
        InvalidAnalysisError: as `gaussian_model`, or an argument does not fit.
    """
    model = gaussian_model(release)
    width = len(model.release.features) if space == "columns" else model.release.dimension
    if num_rows * width > most:
        raise InvalidAnalysisError(f"{num_rows} rows of {width} columns are too many at once; at most {most} numbers")
    return generator.synthesize(model, num_rows, seed, space)
