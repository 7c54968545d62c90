"""What a mechanism is calibrated for, by a task and by a plan alike: claim, columns, bounds, and who adds the noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Generic, Self, TypeVar

from lintra_analysis.kinds.clip_count import with_clip_count
from lintra_analysis.kinds.options import Count, MechanismSpecification
from lintra_analysis.kinds.verified import proof_of
from lintra_analysis.releases.release import Release
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.encoding.documents import Real, fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.schema import Column, Schema
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.shares_seen import claim_for_noise
from lintra_protocol.privacy.statement import Claim, NoiseBy
from lintra_protocol.privacy.stream_matrix import StreamMatrix
from lintra_protocol.task import Task
from lintra_protocol.task_terms import MAX_WORDS

M = TypeVar("M", bound=Mechanism)
S = TypeVar("S", bound=MechanismSpecification, covariant=True)

MAX_SKETCH_WORDS = 2**26
"""Words of a released sketch: half a gibibyte, in every server and in the analyzer."""

NO_TASK = base64url(bytes(32))
"""Stands for the identifier of a first round that is only planned."""


@dataclass(frozen=True)
class FirstRound:
    """The first of two rounds, as the kind that follows it needs it."""

    claim: Claim
    mechanism: Any
    mu: float  #: what it has spent of both rounds' promise
    mu_alone: float  #: the same if all other clients are invented; 0 where nothing is promised of that
    task_id: str = NO_TASK
    release: Release | None = None  #: of its task; None while it is planned
    row_bound: Fraction | None = None  #: norm that rows of the second are clipped to, if one was given

    @classmethod
    def of_task(cls, task: Task, release: Release | None, row_bound: Fraction | None = None) -> Self:
        """Return a first round that has been released."""
        mu, alone = task.privacy(task.claim.min_clients).mu, task.bound_alone()
        spent = 0.0 if alone is None or task.claim.epsilon_alone is None else alone.mu
        return cls(task.claim, task.mechanism, mu, spent, task.task_id, release, row_bound)


@dataclass(frozen=True)
class CalibrationContext(Generic[S]):
    """What a mechanism is calibrated for."""

    options: S  #: of the mechanism; of two rounds those of the first
    claim: Claim  #: what is promised, of two rounds together if there are two
    columns: Sequence[Column]
    row_bound: Real | None  #: norm that rows are clipped to, in normalised units, if one was given
    max_clients: int  #: largest cohort
    random_bytes: RandomBytes
    num_servers: int = 3
    noise: NoiseBy = "clients"  #: who adds it
    merges: bool = False  #: whether a release may hold several reports of a source
    stream: StreamMatrix | None = None  #: how the noise of windows hangs together
    missing: Sequence[str] = ()  #: the names of columns whose numbers are expected to be missing in some rows
    #: organisations that send one report each; None where every report is one row
    contributors: Contributors | None = None
    #: whether a public frame is computed, which may take ten seconds; a plan leaves its digest open
    makes_frame: bool = True
    proven: Claim | None = None  #: the task's claim where reports are verified: `claim` is less, shares cost the rest
    first: FirstRound | None = None  #: of two rounds, if this is the second
    row_norm: float = 1.0  #: r, the root mean square norm of a clipped row that errors are predicted for
    features: int = 1  #: columns of the regression that errors are predicted for
    rank: int = 1  #: directions of the low-rank approximation that errors are predicted for

    @property
    def noising_servers(self) -> int:
        """Return N where every server adds all noise, else 0."""
        return self.num_servers if self.noise == "servers" else 0

    @property
    def expected_trace(self) -> float:
        """Return the expected trace of the Gram matrix, n r^2."""
        return self.claim.min_clients * self.row_norm**2

    def num_columns(self, *, takes_levels: bool = False) -> int:
        """Return d, the numbers that a row becomes; a category enters as indicators unless `takes_levels`."""
        return len(Schema(tuple(self.columns), indicators=not takes_levels).encoded)

    def count(self, given: Count | None) -> Count:
        """Return how rows are counted: as given, or noisily where numbers are expected to be missing.

        The rows of organisations are counted as their own field says, and the mechanism's says nothing. Raises
        InvalidTaskError if a count was given here, and there are contributors.
        """
        if self.contributors is not None:
            if given is not None:
                raise InvalidTaskError("mechanism.count: with contributors it stands among their fields; leave it out")
            return "exact"
        return given or ("noisy" if self.missing else "exact")

    @property
    def clip_weight(self) -> Real | None:
        """Return the weight of the clip counter: as given, and none where organisations contribute."""
        given = self.options.clip_count_weight
        return "0" if given is None and self.contributors is not None else given

    def uncalibrated(self, kind: str) -> dict[str, object]:
        """Return the fields of a mechanism that needs a row bound; calibration replaces grid and sigma.

        Raises InvalidTaskError if the bound is missing or not positive.
        """
        if self.row_bound is None:
            raise InvalidTaskError(f"row_bound: needed for {kind}, the norm that rows are clipped to")
        if fraction(self.row_bound) <= 0:
            raise InvalidTaskError(f"row_bound: must be positive, got {self.row_bound}")
        return {"row_bound": self.row_bound, "fraction_bits": 0, "sigma": MIN_SIGMA}

    def verified(self) -> Self:
        """Return the context of a task whose reports are verified.

        Raises InvalidTaskError if too few clients are left beside the one whose noise is not counted then.
        """
        kept = claim_for_noise(self.claim, clients_noise=not self.noising_servers)
        return replace(self, claim=kept, proven=self.claim)

    @property
    def setting(self) -> Setting:
        """Return who contributes, and who adds the noise."""
        floor_servers = self.num_servers if self.noise == "both" else 0
        return Setting(self.contributors, self.noising_servers, floor_servers, self.merges, self.stream)

    def measured(self, mechanism: Mechanism, claim: Claim | None = None) -> Measurement:
        """Return a mechanism in this setting, whose noise has to keep a claim: that of the context if not given."""
        num_columns = self.num_columns(takes_levels="levels" in mechanism.allows)
        return Measurement(mechanism, num_columns, self.setting, claim or self.claim)

    def rounded(self, mechanism: M) -> M:
        """Return a mechanism that rounds as the options say; if they say nothing it dithers, if it can."""
        usual = "dithered" if "dither" in mechanism.allows else "nearest"
        return mechanism.model_copy(update={"rounding": self.options.rounding or usual})

    def counting(self, mechanism: M) -> M:
        """Return a mechanism that counts clipped rows, if it can and the options do not forbid it."""
        return with_clip_count(mechanism, self.claim.neighbours, self.clip_weight)

    def calibrated(self, mechanism: Mechanism, claim: Claim | None = None) -> Measurement:
        """Return a mechanism with the smallest noise that keeps a claim (see `Measurement.calibrated`).

        Where reports are verified the grid is one on which they can be. If no dithered one does, and the options do not
        say how to round, it is one of the coarser grids of rounding to the nearest.

        Raises InvalidTaskError if a report or a release would be too large.
        """
        measured = self.measured(self.rounded(mechanism), claim)
        require_size(measured)
        require = None if self.proven is None else self._require_proof
        try:
            return measured.calibrated(self.max_clients, require)
        except InvalidTaskError:
            if self.options.rounding is not None or measured.mechanism.rounding == "nearest":
                raise
            return measured.changed(rounding="nearest").calibrated(self.max_clients, require)

    def _require_proof(self, measured: Measurement) -> None:
        """Refuse a grid on which reports cannot be verified."""
        proof_of(replace(measured, claim=self.proven or self.claim), self.num_servers, self.max_clients)

    def measurement(self, mechanism: Mechanism, claim: Claim | None = None) -> Measurement:
        """Return a mechanism that counts clipped rows, with the smallest noise that keeps a claim."""
        return self.calibrated(self.counting(mechanism), claim)


def require_size(measurement: Measurement) -> None:
    """Check the sizes of a report and of a release, without making either.

    Raises:
        InvalidTaskError: too large; the detail has both numbers.
    """
    words = measurement.layout.num_words
    if words > MAX_WORDS:
        raise InvalidTaskError(f"a report of {words} words exceeds {MAX_WORDS}; use a sketch, or fewer dimensions")
    released = measurement.num_rows * measurement.layout.num_released
    if released > MAX_SKETCH_WORDS:
        raise InvalidTaskError(f"a sketch of {released} words exceeds {MAX_SKETCH_WORDS}; ask for fewer rows")
