"""RON-Gauss by a trusted curator: one exact vector of counts, sums, products and histograms, and noise added once.

The same vector as the mechanism `ron_gauss` of many clients, with all noise from one party; its release is the same
object, so models, rows and reports are the same too (after Chanyaswad, Liu, Mittal 2019;
docs/reference/mechanisms/central_ron_gauss.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

import numpy as np

from lintra_analysis.kinds.joint_question import JointQuestion, plan_ron_gauss
from lintra_analysis.kinds.ron_gauss import noise_law, projected_sums
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_curator.claims.claim import CalibrationError
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import fraction, real
from lintra_protocol.fields.schema import Column, Kind, Row, Schema
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.ron_gauss import RonGauss
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim, PrivacyStatement

SEED_BYTES = 32
_BLOCK_ROWS = 8192


def mapped_column(name: str, lower: float, upper: float, kind: Kind = "real", unit: str = "") -> Column:
    """Return a column whose public bounds are mapped to -1 and 1, as `ron_gauss` wants it.

    Args:
        name: of the column.
        lower: public; smaller values are moved to it.
        upper: public; larger values are moved to it.
        kind: "real", or "integer" where synthetic values shall be whole.
        unit: of the numbers, for people; "" for none.

    Raises:
        ValueError: bounds, kind and name do not fit together.

    >>> mapped_column("hours", 0, 10).center
    '5'
    """
    low, high = fraction(real(lower)), fraction(real(upper))
    return Column(
        name=name,
        lower=real(lower),
        upper=real(upper),
        center=_decimal((low + high) / 2),
        scale=_decimal((high - low) / 2) if high > low else "1",
        unit=unit,
        kind=kind,
    )


def category_column(name: str, levels: Sequence[str]) -> Column:
    """Return a category with public levels; in an array of rows it is the number of its level, from 0.

    Args:
        name: of the column.
        levels: at least two, public, in the order of their numbers.

    Raises:
        ValueError: fewer than two levels, or two alike.

    >>> category_column("passed", ["no", "yes"]).levels
    ('no', 'yes')
    """
    return Column(name=name, lower="0", upper=str(max(1, len(levels) - 1)), kind="category", levels=tuple(levels))


def release_ron_gauss(
    rows: FloatArray | Sequence[Row],
    columns: Sequence[Column],
    claim: Claim,
    random_bytes: RandomBytes,
    *,
    question: JointQuestion | None = None,
    frame_seed: bytes | None = None,
) -> ProjectedSums:
    """Release counts, sums, products and histograms with discrete Gaussian noise, in exact integers throughout.

    Args:
        rows: shape `(n, d)` with categories as level numbers, or rows by name; n >= 2 is public.
        columns: with public bounds and levels (see `mapped_column`, `category_column`).
        claim: of both neighbour notions; delta above 0.
        random_bytes: a cryptographic source.
        question: label, dimension, radius, bins and covariance; by default no label and all of it planned.
        frame_seed: 32 public bytes for the projection; drawn if not given.

    Returns:
        The noisy sums of projected rows, from which synthetic rows are drawn.

    Raises:
        InvalidRowError: a row does not fit the columns.
        InvalidTaskError: the columns or the question do not fit the mechanism.
        CalibrationError: fewer than two rows.

    >>> from lintra_curator import curator_claim
    >>> from lintra_protocol.crypto.randomness import bulk_system_randomness
    >>> generator = np.random.default_rng(0)
    >>> rows = np.column_stack([generator.uniform(0, 10, 2000), generator.integers(0, 2, 2000)])
    >>> columns = [mapped_column("hours", 0, 10), category_column("passed", ["no", "yes"])]
    >>> release = release_ron_gauss(rows, columns, curator_claim(1.0, 1e-6), bulk_system_randomness())
    >>> release.num_clients, release.promise.delta
    (2000, 1e-06)
    """
    return prepare_ron_gauss(rows, columns, claim, random_bytes, question=question, frame_seed=frame_seed).draw(
        random_bytes
    )


@dataclass(frozen=True, eq=False, repr=False)
class PreparedRonGauss:
    """A release that is planned and whose rows are checked, but of which nothing is drawn yet."""

    mechanism: RonGauss  #: calibrated
    columns: tuple[Column, ...]  #: with their public bounds and levels
    values: FloatArray  #: the checked rows, shape `(n, d)`
    statement: PrivacyStatement  #: what the release will spend

    def draw(self, random_bytes: RandomBytes) -> ProjectedSums:
        """Add the noise; once, since another draw is another release."""
        mechanism, statement, count = self.mechanism, self.statement, len(self.values)
        total = exact_sum(mechanism, self.columns, self.values)
        total = total + mechanism.noise_law.noise(mechanism.layout(len(self.columns), Setting()), 1, random_bytes)
        promise = replace(
            statement,
            mechanism="ron_gauss by a trusted curator",
            note=f"exact Gaussian differential privacy of {count} rows; added up by a curator who sees them",
        )
        return projected_sums(mechanism, self.columns, total, count, noise_law(mechanism, 1, Setting()), promise)


def prepare_ron_gauss(
    rows: FloatArray | Sequence[Row],
    columns: Sequence[Column],
    claim: Claim,
    random_bytes: RandomBytes,
    *,
    question: JointQuestion | None = None,
    frame_seed: bytes | None = None,
) -> PreparedRonGauss:
    """Check, plan and calibrate as `release_ron_gauss` does, so that its price is known before anything is drawn.

    Args, their shapes, and what is raised, as there; `random_bytes` gives the seed of the frame if none is given.
    """
    values = checked_values(rows, columns)
    planned_for = claim_of_rows(claim, len(values), 0)
    mechanism = planned_mechanism(len(values), columns, planned_for, question, frame_seed, random_bytes)
    # One party's noise is all there is: as if all others were corrupt and added none.
    alone = claim_of_rows(claim, len(values), len(values) - 1)
    mechanism.check_columns(columns)
    calibrated = Measurement(mechanism, len(columns), Setting(), alone).calibrated(len(values))
    mechanism, statement = cast("RonGauss", calibrated.mechanism), calibrated.privacy(len(values))
    statement.require(alone)
    return PreparedRonGauss(mechanism, tuple(columns), values, statement)


def exact_sum(mechanism: RonGauss, columns: Sequence[Column], values: FloatArray) -> IntArray:
    """Return the exact sum of the noiseless vectors of checked rows of shape `(n, d)`, shape `(1, w)`.

    The same integers as encoding row by row, without the memory of n vectors.
    """
    layout, schema = mechanism.layout(len(columns), Setting()), Schema(columns)
    total = np.zeros((1, layout.num_words), np.int64)
    for start in range(0, len(values), _BLOCK_ROWS):
        steps = mechanism.clip(schema.normalise(values[start : start + _BLOCK_ROWS]), Setting())
        total += layout.summed(mechanism.fill(steps, Setting()))
    return total


def planned_mechanism(
    num_rows: int,
    columns: Sequence[Column],
    claim: Claim,
    question: JointQuestion | None,
    frame_seed: bytes | None,
    random_bytes: RandomBytes,
) -> RonGauss:
    """Return the mechanism that answers a question, its public frame drawn if no seed is given.

    Raises ValueError if the seed has another length.
    """
    if frame_seed is not None and len(frame_seed) != SEED_BYTES:
        raise ValueError(f"a frame seed has {SEED_BYTES} bytes, got {len(frame_seed)}")
    return plan_ron_gauss(claim, columns, question or JointQuestion(), frame_seed or random_bytes(SEED_BYTES))


def claim_of_rows(claim: Claim, num_rows: int, silent: int) -> Claim:
    """Return a claim with as many clients as rows, `silent` rows whose holders add no noise.

    Raises CalibrationError if there are fewer than two rows.
    """
    if num_rows < 2:
        raise CalibrationError(f"a release needs at least 2 rows, got {num_rows}")
    return claim.model_copy(update={"min_clients": num_rows, "max_corrupt_clients": silent})


def checked_values(rows: FloatArray | Sequence[Row], columns: Sequence[Column]) -> FloatArray:
    """Return rows, an array or by name, as an array of shape `(n, d)`, categories by level number.

    Raises InvalidRowError if a row does not fit the columns.
    """
    schema = Schema(columns)
    if isinstance(rows, np.ndarray):
        return schema.rows(rows, strict=True)
    return np.array([schema.row(row, strict=True) for row in rows]).reshape(len(rows), len(columns))


def _decimal(value: Fraction) -> str:
    return real(float(value))
