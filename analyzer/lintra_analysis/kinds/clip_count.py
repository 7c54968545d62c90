"""The counts of a planned task: the clip counter's weight, and how exact both counts will be."""

import math
from collections.abc import Callable
from typing import TypeVar

from lintra_protocol.encoding.documents import Real, fraction, real
from lintra_protocol.errors import FalseClaimError, InvalidTaskError
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import CLIPPED
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.privacy.statement import Claim, Neighbours

USUAL_WEIGHT: Real = "0.2"
"""Of a new task where its mechanism can count: all noise grows by the root of 1 + 0.2^2, by 2 %."""

_FINE_BITS = 40

Counting = TypeVar("Counting", bound=Mechanism)


def with_clip_count(mechanism: Counting, neighbours: Neighbours, weight: Real | None) -> Counting:
    """Return a mechanism that counts clipped rows so that all its noise grows by sqrt(1 + weight^2).

    The weight in a task refers to the distance of replaced rows. Null rows are nearer, so that it is less there.
    `mechanism` is not yet calibrated. `weight` is "0" for no count; `USUAL_WEIGHT` if not given, or none where the
    mechanism cannot count. Raises InvalidTaskError if a weight was given for a mechanism that cannot count, or is out
    of range.
    """
    if weight is None:
        weight = USUAL_WEIGHT if "clip counter" in mechanism.allows else "0"
    if fraction(weight) == 0:
        return mechanism
    if "clip counter" not in mechanism.allows:
        raise InvalidTaskError(f"clip_count_weight: {mechanism.kind} cannot count clipped rows; leave it out or use 0")
    if not 0 < fraction(weight) <= 1:
        raise InvalidTaskError(f"clip_count_weight lies between 0 and 1, got {weight}")
    if neighbours == "zero-out" and fraction(mechanism.row_bound) > 0:
        fine = mechanism.model_copy(update={"fraction_bits": _FINE_BITS, "sigma": MAX_SIGMA})
        replaced = fine.squared_distance("replace-one", 1, Setting())
        nearer = fine.squared_distance(neighbours, 1, Setting()) / replaced
        weight = real(f"{float(fraction(weight)) * math.sqrt(nearer):.6g}")
    return mechanism.model_copy(update={"clip_count_weight": weight})


def calibrated_counting(
    mechanism: Counting, claim: Claim, weight: Real | None, calibrate: Callable[[Counting], Measurement]
) -> Measurement:
    """Return a calibrated mechanism that counts clipped rows although its noise cannot grow: it is published.

    If no weight is given, and the published noise keeps the claim without a count only, nothing is counted. `mechanism`
    is not yet calibrated, its row bound known.
    """
    try:
        return calibrate(with_clip_count(mechanism, claim.neighbours, weight))
    except FalseClaimError:
        if weight is not None:
            raise
        return calibrate(mechanism)


def clip_count_deviation(measurement: Measurement, num_clients: int, num_servers: int = 0) -> dict[str, float]:
    """Return the deviation of the count of so many rows, under its name among an option's; nothing without a count.

    Where servers add smoothing noise, that of `num_servers` counts as well.
    """
    layout, draws = measurement.layout, measurement.setting.draws(num_clients)
    if CLIPPED not in layout:
        return {}
    return {"clipped rows": float(layout.deviation(CLIPPED, draws, num_servers * measurement.smoothing**2))}


def row_count_deviation(measurement: Measurement, num_clients: int) -> dict[str, float]:
    """Return the deviation of the number of rows that are not left out; nothing where every report is a row."""
    if "count" not in measurement.layout:
        return {}
    return {"rows": measurement.layout.count_deviation(measurement.setting.draws(num_clients))}
