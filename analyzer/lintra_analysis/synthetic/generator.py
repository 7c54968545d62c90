"""Draws rows from a model and a seed, as a table with its provenance, warnings and notes.

The same seed gives the same rows in every process (see `synthetic.drawing`).
"""

import operator
from dataclasses import replace

from lintra_analysis.synthetic.fidelity import weaknesses
from lintra_analysis.synthetic.model import GaussianModel
from lintra_analysis.synthetic.rows import SyntheticRows
from lintra_analysis.synthetic.sampling import MAX_NUMBERS, Space, drawn_columns, seed_bytes
from lintra_protocol.errors import InvalidAnalysisError

MAX_ROWS = 10_000_000


def synthesize(model: GaussianModel, num_rows: int, seed: int, space: Space = "columns") -> SyntheticRows:
    """Draw rows from a model; any number of rows, and any number of times, costs no privacy.

    `model` is made by `fit`. `num_rows` says how many, split over the classes by largest remainder and in random order.
    `seed` is from 0 to 2^256 - 1; the same seed gives the same rows. `space` is the original columns, or the projected
    coordinates h1..hp.
    """
    rows = plain_rows(model, num_rows, seed, space)
    said = weaknesses(model, rows.columns if space == "columns" else None)
    return replace(rows, warnings=(*rows.warnings, *said))


def plain_rows(model: GaussianModel, num_rows: int, seed: int, space: Space = "columns") -> SyntheticRows:
    """Draw rows as `synthesize` does, without its judgement of them, for those who draw very often.

    Raises InvalidAnalysisError if the space is unknown, or these are too many rows for one call.
    """
    if space not in ("columns", "projected"):
        raise InvalidAnalysisError(f"space: expected 'columns' or 'projected', got {space!r}")
    release = model.release
    model.class_sizes(num_rows)
    if num_rows > MAX_ROWS or num_rows * max(release.num_coordinates, release.size) > MAX_NUMBERS:
        raise InvalidAnalysisError(f"{num_rows} rows at once are too many; draw them with several seeds")
    columns = drawn_columns(model, num_rows, seed_bytes(seed), space)
    label = release.label
    return SyntheticRows(
        columns=columns,
        label=None if label is None else label.name,
        features=release.features,
        promise=release.promise,
        num_clients=release.num_clients,
        seed=operator.index(seed),
        model_digest=model.digest,
        space=space,
        warnings=model.warnings,
        label_levels=release.levels,
    )
