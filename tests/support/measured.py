"""A mechanism outside a task: in a setting of its own, for as many columns as are asked about."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import CLIPPED, ROWS, Layout
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task

COLUMNS = 4
"""How many columns a mechanism is asked about where their number does not matter."""

ANY_CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=8)
"""For what does not depend on a claim."""


@dataclass(frozen=True)
class InSetting:
    """A mechanism, and what a task would decide for it."""

    mechanism: Mechanism
    setting: Setting = field(default_factory=Setting)

    @property
    def contributors(self) -> Contributors | None:
        """Return who contributes."""
        return self.setting.contributors

    def __getattr__(self, name: str) -> Any:
        """Return a field of the document."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.mechanism, name)

    def model_copy(self, update: dict[str, object]) -> "InSetting":
        """Return the same setting with a changed document."""
        return InSetting(self.mechanism.model_copy(update=update), self.setting)


Measurable = Mechanism | InSetting | Task


def with_contributors(asked: Measurable, contributors: Contributors | None) -> InSetting:
    """Return a mechanism as that of a task with these contributors."""
    return InSetting(document_of(asked), Setting(contributors))


def with_server_noise(asked: Measurable, noising_servers: int) -> InSetting:
    """Return a mechanism as that of a task whose servers, so many, add the noise; 0 for its clients."""
    return InSetting(document_of(asked), Setting(setting_of(asked).contributors, noising_servers))


def document_of(asked: Measurable) -> Mechanism:
    """Return the document alone."""
    return asked if isinstance(asked, Mechanism) else asked.mechanism


def setting_of(asked: Measurable) -> Setting:
    """Return its setting."""
    return Setting() if isinstance(asked, Mechanism) else asked.setting


def measurement_of(asked: Measurable, num_columns: int | None = None, claim: Claim | None = None) -> Measurement:
    """Return a mechanism's measurement of so many columns, for a claim."""
    if num_columns is None:
        num_columns = asked.num_columns if isinstance(asked, Task) else columns_of(document_of(asked))
    if claim is None:
        claim = asked.noise_claim if isinstance(asked, Task) else ANY_CLAIM
    return Measurement(document_of(asked), num_columns, setting_of(asked), claim)


def calibrated_for(asked: Measurable, num_columns: int, claim: Claim, max_clients: int) -> Any:
    """Return what was asked, a document or one in a setting, with the finest grid and the least noise."""
    mechanism = measurement_of(asked, num_columns, claim).calibrated(max_clients).mechanism
    return InSetting(mechanism, asked.setting) if isinstance(asked, InSetting) else mechanism


def columns_of(mechanism: Mechanism) -> int:
    """Return how many columns a document names; any number where it names none."""
    return len(getattr(mechanism, "levels", ())) or COLUMNS


def layout_of(asked: Measurable, num_columns: int | None = None) -> Layout:
    """Return the blocks of its reports."""
    return measurement_of(asked, num_columns).layout


def noise_sigmas(asked: Measurable, num_columns: int) -> IntArray:
    """Return the deviation of each word that has noise."""
    layout = layout_of(asked, num_columns)
    return layout.sigmas[: layout.num_noised]


def reports_without_noise(asked: Measurable, rows: FloatArray, outside: NDArray[np.bool_] | None = None) -> IntArray:
    """Return noiseless reports of rows, shape `(n, d)`; those that are dithered are rounded up."""
    return measurement_of(asked, rows.shape[1]).exact_reports(rows, outside, bytes)


def encode_rows(
    asked: Measurable, rows: FloatArray, random_bytes: RandomBytes, outside: NDArray[np.bool_] | None = None
) -> IntArray:
    """Return reports of rows, shape `(n, d)`."""
    return measurement_of(asked, rows.shape[1]).encode(rows, random_bytes, outside)


def words_of_steps(asked: Measurable, steps: IntArray) -> IntArray:
    """Return what clipped integer rows become, without a clip counter and an exact count."""
    mechanism, setting = document_of(asked), setting_of(asked)
    return mechanism.blocks(columns_of(mechanism), setting).reports(mechanism.fill(steps, setting))


def sum_of_steps(asked: Measurable, steps: IntArray) -> IntArray:
    """Return the sum of the same, by matrix products."""
    mechanism, setting = document_of(asked), setting_of(asked)
    return mechanism.blocks(columns_of(mechanism), setting).summed(mechanism.fill(steps, setting))


def row_distance(asked: Measurable, neighbours: str) -> object:
    """Return the squared distance of one row, or of one person's rows in one organisation."""
    mechanism = document_of(asked)
    return mechanism.squared_distance(neighbours, columns_of(mechanism), setting_of(asked))


def clip_steps(asked: Measurable) -> int:
    """Return what a clipped row adds to the clip counter; 0 without one."""
    layout = layout_of(asked)
    return layout[CLIPPED].bound if CLIPPED in layout else 0


def clip_words(asked: Measurable) -> int:
    """Return how many words count clipped rows."""
    return int(CLIPPED in layout_of(asked))


def exact_count_words(asked: Measurable) -> int:
    """Return how many words count rows exactly."""
    return int(ROWS in layout_of(asked))


def measurement_of_sketch(asked: Measurable, sketch: IntArray) -> Measurement:
    """Return the measurement of as many columns as a sketch has words for."""
    counts = range(1, 2000)
    return next(
        found for found in (measurement_of(asked, d) for d in counts) if found.layout.num_released == sketch.shape[1]
    )


def exact_sum(asked: Measurable, rows: FloatArray, persons: IntArray) -> IntArray:
    """Return the sum of the noiseless reports of rows of persons, without an exact count."""
    measurement = measurement_of(asked, rows.shape[1])
    if measurement.setting.contributors is None:
        most = int(np.bincount(persons).max(initial=1)) if len(persons) else 1
        everybody = Contributors(rows_per_person=most, organisations_per_person=1, max_rows=2**40, count="exact")
        measurement = replace(measurement, setting=Setting(everybody))
    return measurement.exact_contribution(rows, persons, bytes)[: measurement.layout.num_noised]
