"""Synthetic rows as a table with its provenance: the promise, the seed, the model, and what not to use it for.

A `repr` shows sizes only. The rows belong to nobody and may be published.
"""

import csv
import io
import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

import numpy as np

from lintra_analysis.estimators.estimates import Plain, to_plain
from lintra_analysis.releases.features import ColumnArray, Feature
from lintra_protocol.errors import InvalidAnalysisError
from lintra_protocol.privacy.statement import PrivacyStatement

WARNING = (
    "synthetic rows: intervals and tests computed from them as if they were data are wrong (95 % intervals of a slope "
    "covered 31 to 82 %); take intervals from the release itself (regression, moments, or the bootstrap of this model)"
)
METADATA_KEY = b"lintra"
_CHUNK = 8192
_FRAMES = "install lintra[frames], or use to_csv()"


class PandasFrame(Protocol):
    """What is used of a pandas data frame here."""

    shape: tuple[int, int]
    attrs: dict[Hashable, object]

    def __getitem__(self, name: str) -> object:
        """Return one column."""


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticRows:
    """Rows that were drawn from a model; post-processing of a release, so free of privacy cost.

    >>> from lintra_analysis import open_release, synthesize
    >>> rows = synthesize(open_release("people.npz"), num_rows=3, seed=7)
    >>> rows.to_csv("people.csv")  # and people.csv.json, with the promise and the warnings
    >>> rows.provenance()["num_clients"]
    240

    Attributes:
        columns: by name, in order, the label last; all of one length.
        label: the label's column, or None.
        features: the schema of the other columns.
        promise: made to the people behind the release.
        num_clients: how many people that are.
        seed: gives the same rows again, with the same model.
        model_digest: hash of the release that the model follows from.
        space: "columns", or "projected" for the coordinates h1..hp.
        warnings: of the model.
        label_levels: of a label that is a class, in order; empty for a number or no label.
    """

    columns: dict[str, ColumnArray]
    label: str | None
    features: tuple[Feature, ...]
    promise: PrivacyStatement
    num_clients: int
    seed: int
    model_digest: str
    space: str
    warnings: tuple[str, ...] = ()
    label_levels: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"SyntheticRows(rows={self.num_rows}, columns={len(self.columns)}, seed={self.seed})"

    def __len__(self) -> int:
        return self.num_rows

    @property
    def num_rows(self) -> int:
        """Return how many rows there are."""
        return int(next(iter(self.columns.values())).size)

    def provenance(self) -> dict[str, Plain]:
        """Return what goes with every copy of the rows: promise, seed, model, and the warning."""
        return {
            "rows": self.num_rows,
            "columns": list(self.columns),
            "label": self.label,
            "space": self.space,
            "seed": str(self.seed),
            "model_digest": self.model_digest,
            "num_clients": self.num_clients,
            "privacy": to_plain(self.promise),
            "warnings": [WARNING, *self.warnings],
        }

    def to_csv(self, target: str | Path | TextIO | None = None) -> str | None:
        """Write the rows as CSV with a line of names, and to a file's side its provenance as `<name>.json`.

        Args:
            target: a path, an open text file (which gets the rows only), or None to get the text back.
        """
        if target is None:
            text = io.StringIO()
            self._write(text)
            return text.getvalue()
        if not isinstance(target, str | Path):
            self._write(target)
            return None
        path = Path(target)
        with path.open("w", encoding="utf-8", newline="") as file:
            self._write(file)
        self._write_note(path)
        return None

    def to_npz(self, path: str | Path) -> None:
        """Write a file that `numpy.load(path, allow_pickle=False)` reads.

        It holds the names in `columns`, each column under its own place, "0", "1" and so on, since not every name is
        one of a file, and the provenance as JSON in `provenance`.
        """
        Path(path).write_bytes(self.npz())

    def npz(self) -> bytes:
        """Return what `to_npz` writes."""
        held: dict[str, np.ndarray] = {str(place): column for place, column in enumerate(self.columns.values())}
        held["columns"] = np.array(list(self.columns))
        held["provenance"] = np.array(json.dumps(self.provenance(), ensure_ascii=False))
        file = io.BytesIO()
        np.savez_compressed(file, allow_pickle=False, **held)
        return file.getvalue()

    def to_dict(self) -> dict[str, Plain]:
        """Return the columns and the provenance as plain values, ready for JSON."""
        values: dict[str, Plain] = {name: to_plain(column) for name, column in self.columns.items()}
        return {"columns": values, "provenance": self.provenance()}

    def to_pandas(self) -> PandasFrame:
        """Return a pandas data frame, with the provenance in `attrs["lintra"]`.

        Reals are float64, integers int64, booleans bool; categories and a class label are ordinary (unordered)
        pandas categoricals that know every level, also one that no row has.

        Raises:
            InvalidAnalysisError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise InvalidAnalysisError(f"pandas is not installed here; {_FRAMES}") from None
        levels = {feature.name: feature.levels for feature in self.features}
        if self.label is not None:
            levels[self.label] = self.label_levels
        frame: PandasFrame = pandas.DataFrame(
            {
                name: pandas.Categorical(column.tolist(), levels.get(name) or None)
                if column.dtype.kind == "U"
                else column
                for name, column in self.columns.items()
            }
        )
        frame.attrs["lintra"] = self.provenance()
        return frame

    def to_parquet(self, path: str | Path) -> None:
        """Write a Parquet file with the provenance as JSON under the key `lintra` of its metadata.

        The same stands to its side as `<name>.json`, as with CSV.

        Raises:
            InvalidAnalysisError: pandas or pyarrow is not installed.
        """
        frame = self.to_pandas()
        try:
            from pyarrow import Table, parquet
        except ImportError:
            raise InvalidAnalysisError(f"pyarrow is not installed here; {_FRAMES}") from None
        table = Table.from_pandas(frame, preserve_index=False)
        note = json.dumps(self.provenance(), ensure_ascii=False).encode()
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), METADATA_KEY: note})
        parquet.write_table(table, Path(path))
        self._write_note(Path(path))

    def _write_note(self, path: Path) -> None:
        note = json.dumps(self.provenance(), indent=2, ensure_ascii=False) + "\n"
        path.with_name(path.name + ".json").write_text(note, "utf-8")

    def _write(self, file: TextIO) -> None:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.lines())

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows as a file spells their values."""
        for start in range(0, self.num_rows, _CHUNK):
            yield from zip(*(_texts(column[start : start + _CHUNK]) for column in self.columns.values()), strict=True)


def _texts(values: ColumnArray) -> list[str]:
    if values.dtype.kind == "b":
        return ["true" if value else "false" for value in values.tolist()]
    if values.dtype.kind == "f":
        return [repr(value) for value in np.asarray(values).tolist()]
    return [str(value) for value in values.tolist()]
