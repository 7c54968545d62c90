"""Chooses few columns of a table that predict its target better, under noise, than all of them do.

The columns are added in the order of what the table's own R2 loses without each, while the median R2 of the point
rises. No interval is computed. The choice reads the table, so a specification that follows it has read it too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lintra_analysis.trial.draws import Draws
from lintra_analysis.trial.verdict import OwnRows
from lintra_protocol.crypto.ring import FloatArray, IntArray

MOST_CHOSEN = 10

LEAST_GAIN = 0.01
"""What fewer columns have to gain in R2 to be worth a word."""


@dataclass(frozen=True)
class FewColumns:
    """Columns that are enough, of how many, and the median R2 with them and with all."""

    columns: tuple[str, ...]
    among: int
    r2: float
    all_r2: float


def chosen_few(draws: Draws, own: OwnRows, column_of: Sequence[str], all_r2: float) -> FewColumns | None:
    """Return the best few columns, or None if they predict no better than all.

    `column_of` names the column of the table that each feature comes from; the indicators of a category come from one.
    """
    columns, named = list(dict.fromkeys(column_of)), np.array(column_of)
    places = [np.flatnonzero(named == column) for column in columns]
    losses = _losses(own.about_means, places)
    best: tuple[float, list[int]] = (-np.inf, [])
    order = np.argsort(-losses, kind="stable").tolist()
    for count in range(1, min(MOST_CHOSEN, len(columns) - 1) + 1):
        features = np.sort(np.concatenate([places[column] for column in order[:count]]))
        some = draws.of_features([draws.design.names[feature] for feature in features.tolist()])
        r2 = float(np.median(own.some(features).r2_of(some.points())))
        if r2 <= best[0]:
            break
        best = r2, order[:count]
    if best[0] < all_r2 + LEAST_GAIN:
        return None
    return FewColumns(tuple(columns[column] for column in best[1]), len(columns), best[0], all_r2)


def _losses(moments: FloatArray, groups: Sequence[IntArray]) -> FloatArray:
    """Return the part of the target's squares that only each group of features explains.

    `moments` are about the means, the target last, shape `(q, q)`. Of features that depend on others none is lost.
    """
    inverse = np.linalg.pinv(moments[:-1, :-1], hermitian=True)
    slopes = inverse @ moments[:-1, -1]
    found = []
    for features in groups:
        block = inverse[np.ix_(features, features)]
        found.append(float(slopes[features] @ np.linalg.pinv(block, hermitian=True) @ slopes[features]))
    return np.array(found)
