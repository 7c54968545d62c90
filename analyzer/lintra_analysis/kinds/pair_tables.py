"""Which pairs of columns are counted together, and in how many cells: by a rule that knows public numbers only.

A table of c cells whose noise has deviation s rows is off by c s sqrt(2/pi) / 2n in total variation. As many cells as
keep that at one tenth say whether tables are worth it: below four by four the rule takes fewer pairs, or none. What is
counted has twice as many cells a side (docs/decisions/0061-finer-pair-tables.md). No row is looked at.
"""

from collections.abc import Sequence
from itertools import combinations
from math import floor, pi, sqrt
from typing import Literal

from lintra_protocol.encoding.documents import Real, fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.privacy.discrete import discrete_mu
from lintra_protocol.privacy.statement import MAX_SLACK, Claim

GOAL = 0.1
"""Expected total variation of a table by its noise."""

FINER = 2
"""So many times as many cells a side are counted: noise is taken out cell by cell, what cells hide never comes back."""

LEAST_CELLS = 4
"""The rule wants at least four by four cells; two or three would say what a covariance says."""

MAX_WORDS = 1 << 15
"""The rule stays below so many words of pair tables, and prefers coarser cells to fewer pairs."""

_FINE_BITS = 20


def with_pairs(
    mechanism: RonGauss,
    claim: Claim,
    columns: Sequence[Column],
    wanted: Sequence[Sequence[str]] | Literal["rule"],
    weight: Real,
    contributors: Contributors | None = None,
) -> RonGauss:
    """Return a mechanism that counts pairs of columns.

    `mechanism` is without pairs, not yet calibrated; `wanted` holds names of columns, two by two, or "rule". `weight`
    is `pair_weight`. Raises InvalidTaskError if a pair names no two different columns that have cells.
    """
    if wanted == "rule":
        return _by_rule(mechanism, claim, weight, contributors)
    if not wanted:
        return mechanism
    names = {column.name: number for number, column in enumerate(columns)}
    pairs = set()
    for pair in wanted:
        numbers = sorted({names[name] for name in pair if name in names})
        if len(pair) != 2 or len(numbers) != 2:
            raise InvalidTaskError(f"pairs: expected the names of two different columns, got {', '.join(pair)}")
        if missing := [
            columns[number].name for number in numbers if not mechanism.counted.cells_before_merging(number)
        ]:
            raise InvalidTaskError(f"pairs: {missing[0]!r} has no histogram, whose cells a pair needs; give it bins")
        pairs.add((numbers[0], numbers[1]))
    side = side_of_tables(mechanism, claim, len(pairs), weight, contributors)
    return _counting(mechanism, tuple(sorted(pairs)), FINER * max(1, side), weight)


def side_of_tables(
    mechanism: RonGauss, claim: Claim, num_pairs: int, weight: Real, contributors: Contributors | None = None
) -> int:
    """Return b, so that tables of b by b cells have the expected total variation `GOAL` by noise.

    Organisations are taken to have `max_rows` each.
    """
    # The price depends on how many tables there are, not on their cells.
    fine = {"fraction_bits": _FINE_BITS, "sigma": MIN_SIGMA}
    noise = mechanism.model_copy(update=fine).joint_noise
    squared = fraction(weight) ** 2
    paired = noise.__class__(**{**vars(noise), "num_tables": num_pairs, "squared_table_weight": squared})
    distance = 2 * paired.squared_row_distance(claim.neighbours) / noise.squared_length**2
    honest = claim.min_clients - claim.max_corrupt_clients
    mu = discrete_mu(float(fraction(claim.epsilon)), claim.noise_delta, MAX_SLACK)
    deviation = sqrt(claim.min_clients / max(1, honest) * num_pairs * float(distance / squared)) / mu
    rows = claim.min_clients
    if contributors is not None:
        rows *= contributors.max_rows
        deviation *= contributors.rows_per_person * contributors.organisations_per_person
    return floor(sqrt(GOAL * rows * 2 * sqrt(pi / 2) / deviation))


def _by_rule(mechanism: RonGauss, claim: Claim, weight: Real, contributors: Contributors | None) -> RonGauss:
    before = mechanism.counted.cells_before_merging
    counted = [number for number in range(len(mechanism.levels)) if before(number) > 1]
    every = list(combinations(counted, 2))
    of_label = [pair for pair in every if mechanism.label in pair]
    for pairs in (every, of_label):
        if not pairs:
            continue
        side = side_of_tables(mechanism, claim, len(pairs), weight, contributors)
        if side < LEAST_CELLS:
            continue
        # More than the cells of the finest histogram changes nothing.
        for finer in range(min(FINER * side, max(map(before, counted))), LEAST_CELLS - 1, -1):
            made = _counting(mechanism, tuple(pairs), finer, weight)
            if sum(made.counted.tables) <= MAX_WORDS:
                return made
    return mechanism


def _counting(mechanism: RonGauss, pairs: tuple[tuple[int, int], ...], side: int, weight: Real) -> RonGauss:
    paired = {column for pair in pairs for column in pair}
    cells = (
        0 if number not in paired else levels or min(side, mechanism.counted.cells_before_merging(number))
        for number, levels in enumerate(mechanism.levels)
    )
    return mechanism.model_copy(update={"pairs": pairs, "pair_bins": tuple(cells), "pair_weight": weight})
