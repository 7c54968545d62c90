"""The audits of one mechanism: its worst neighbours, small tasks, faults to plant, and its exact audit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from lintra_analysis.kinds.by_kind import ByKind
from lintra_audit.exact.gaussian_release import audit_gaussian_release
from lintra_audit.exact.task_audit import TaskAudit
from lintra_audit.trials.audit_case import Case
from lintra_audit.trials.likelihood_test import OptimalTest, joined, likelihood_ratio
from lintra_audit.trials.neighbours import Pair, hostile_rows, one_step, opposite
from lintra_audit.trials.scaled_task import twin_with_mu
from lintra_audit.trials.simulated_release import Scene, Seams
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.encoding.documents import Real
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.task import Task
from lintra_protocol.transforms.base import PublicMatrix

Reports = tuple[IntArray, IntArray]
"""All clients' noiseless reports in world 0 and world 1, each of shape `(clients, w)`."""


@dataclass(frozen=True)
class Planted:
    """A mistake that somebody could really make."""

    about: str  #: what is wrong, in a few words
    seams: Seams  #: the pipeline with the mistake in it
    case: str  #: the case of the mechanism that shows it
    caught_by: frozenset[str]  #: the checks that must fail


def gaussian_test(scene: Scene, reports: Reports) -> OptimalTest:
    """Form the adversary's optimal test for independent Gaussian words, from the rows that it knows."""
    means = [scene.applied(scene.honest, world[scene.honest]).astype(np.float64) for world in reports]
    midpoint: FloatArray = (means[0] + means[1]) / 2
    sigmas = scene.task.measurement.layout.sigmas
    return joined(
        [
            likelihood_ratio(
                scene.noise_columns(part),
                part.columns[..., scene.victim],
                (reports[0][scene.victim][part.sent], reports[1][scene.victim][part.sent]),
                midpoint[:, part.released],
                sigmas[part.sent],
                scene.floors(part) if scene.task.measurement.layout.floor.deviation else None,
            )
            for part in scene.parts
        ]
    )


def stated_variances(measurement: Measurement) -> FloatArray:
    """Return the variance of one client's noise in every word, as the layout's deviations say; shape `(w,)`."""
    result: FloatArray = measurement.layout.sigmas.astype(np.float64) ** 2
    return result


@dataclass(frozen=True)
class OrganisationAudit:
    """The audits of a mechanism that takes contributions of organisations: cases, and faults to plant, by name."""

    cases: Callable[[], list[Case]]
    faults: Mapping[str, Planted]


@dataclass(frozen=True)
class KindAudit:
    """The audits of one mechanism; the defaults are those of a sum of rows with independent Gaussian words."""

    cases: Callable[[], list[Case]]  #: what `lintra audit release` runs by default
    faults: Mapping[str, Planted]  #: mistakes to plant, by name; at least one
    #: the victim's rows in two worlds that lie as far apart as the promise allows
    farthest: Callable[[Task], Pair] = opposite
    #: rows of the victim that differ so little that no test may tell them apart
    nearest: Callable[[Task], Pair] = one_step
    #: rows that try to leave the encoder's bounds, shape `(k, d)`
    hostile: Callable[[AnyMechanism, int], FloatArray] = hostile_rows
    twin: Callable[[Task], Task] = twin_with_mu  #: a small task that stands for a large one
    #: which part of the task its twin keeps: mu or the claim
    kept: Callable[[Task], str] = field(default=lambda task: "mu")
    test: Callable[[Scene, Reports], OptimalTest] = gaussian_test  #: the adversary's optimal test
    #: of one client's noise in every word, shape `(w,)`
    variances: Callable[[Measurement], FloatArray] = stated_variances
    excess: float = 0.0  #: largest excess kurtosis of one client's noise; 0 for Gaussian noise
    #: the epsilon that a publication claims for this noise, which no verdict rests on; mostly None
    claimed_elsewhere: Callable[[AnyMechanism], Real | None] = field(default=lambda mechanism: None)
    #: recomputes a release's privacy from its public matrix by a route of its own
    of_task: Callable[[Task, PublicMatrix], TaskAudit] = audit_gaussian_release
    organisations: OrganisationAudit | None = None  #: of a mechanism that organisations may contribute to; else None


AUDITS = ByKind("lintra_audit.kinds", "AUDIT", KindAudit)
"""By kind: the module of that name in `lintra_audit.kinds`."""
