"""A measurement: a mechanism in the setting of a task. It encodes rows, adds noise, decodes, and states the privacy."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray, RingArray
from lintra_protocol.mechanisms.base import Mechanism
from lintra_protocol.mechanisms.layout import CLIPPED, ROWS, Block, Layout
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.statement import Claim, PrivacyStatement
from lintra_protocol.transforms.base import PublicMatrix


@dataclass(frozen=True)
class Measurement:
    """A mechanism of d encoded columns in the setting of a task, whose noise has to keep a claim.

    Attributes:
        mechanism: the document.
        num_columns: d.
        setting: who sends reports, and who adds noise.
        claim: what the noise has to keep (`Task.noise_claim`).
    """

    mechanism: Mechanism
    num_columns: int
    setting: Setting
    claim: Claim

    @cached_property
    def _told(self) -> Mechanism:
        return self.mechanism.of_contributors(self.setting.contributors).noised_by(self.setting.noising_servers)

    @cached_property
    def layout(self) -> Layout:
        """Return the blocks of a report."""
        told = self._told
        declared = told.blocks(self.num_columns, self.setting)
        is_total = "rows" in type(told).model_fields
        clipped = Block(
            CLIPPED, told.clip_words, told.sigma, told.clip_steps, per=max(told.clip_steps, 1), is_total=is_total
        )
        if self.setting.count != "exact":
            return replace(declared, blocks=(*declared.blocks, clipped))
        return Layout((*declared.blocks, clipped, Block(ROWS, 1, 0, 1)), ROWS)

    # --- the client's part -------------------------------------------------------------------------------------

    def encode(self, rows: FloatArray, random_bytes: RandomBytes, outside: NDArray[np.bool_] | None = None) -> IntArray:
        """Clip, round and noise normalised rows of shape `(n, d)` into reports of shape `(n, w)`; on the client.

        Where servers add the noise a report has none.

        Args:
            rows: of any norm.
            random_bytes: the clients' own.
            outside: see `exact_reports`.
        """
        return self._told.encode(rows, random_bytes, outside)

    def exact_reports(self, rows: FloatArray, outside: NDArray[np.bool_] | None = None) -> IntArray:
        """Turn normalised rows of shape `(n, d)` into noiseless reports of shape `(n, w)`.

        What is missing, that is not finite, stands at its column's centre, or makes the whole report 0
        (`leaves_out`).

        Args:
            rows: of any norm.
            outside: for each row whether a bound of a column moved a value of it before, shape `(n,)`; none if not
                given. Only the clip counter looks at it.
        """
        return self._told.exact_reports(rows, outside)

    @property
    def leaves_out(self) -> bool:
        """Whether a row in which a number is missing is sent as zeros, and counts nowhere."""
        return self._told.leaves_out

    def is_clipped(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each normalised row of shape `(n, d)` whether it is too large to be encoded as it is."""
        return self._told.shrinks(rows)

    def clipping_rule(self) -> str:
        """Return in words what a client does to a row that is too large, or to all rows of a person together."""
        return self._told.clipping_rule()

    @property
    def person_norm(self) -> float | None:
        """Return the largest norm of all rows of a person together, in normalised units; None if clipped one by one."""
        return self._told.person_norm

    def contribution(self, rows: FloatArray, persons: IntArray, random_bytes: RandomBytes) -> IntArray:
        """Encode all rows of an organisation as one report with one draw of noise, shape `(w,)`.

        Args:
            rows: normalised, of shape `(n, d)` and any norm; what is missing is no finite number.
            persons: whose row each is, shape `(n,)`, numbered from 0.
            random_bytes: the organisation's own.

        Raises:
            InvalidRowError: more rows than the task allows, of all persons or of one.
        """
        return self._told.contribution(rows, persons, random_bytes)

    def exact_contribution(self, rows: FloatArray, persons: IntArray) -> IntArray:
        """Return the same without noise, shape `(w,)` (see `contribution` for the arguments)."""
        return self._told.exact_contribution(rows, persons)

    # --- noise -------------------------------------------------------------------------------------------------

    def noise(self, count: int, random_bytes: RandomBytes) -> IntArray:
        """Draw the noise of so many reports, shape `(count, w)`; an exact count has none."""
        noise = self._told.noise(count, self.num_columns, random_bytes)
        return np.pad(noise, ((0, 0), (0, self._told.exact_count_words)))

    def noised(self, exact: IntArray, random_bytes: RandomBytes) -> IntArray:
        """Add a draw of noise to each of some noiseless reports, shape `(w,)` or `(k, w)`."""
        return self._told.noised(exact, self.num_columns, random_bytes)

    @property
    def smoothing(self) -> int:
        """Return the parameter of the noise that every server adds to its share where rows overlap; 0 for none."""
        return self._told.smoothing

    @property
    def servers_add_noise(self) -> bool:
        """Whether a sketch share must not leave its server without noise: smoothing, or all that there is."""
        return self._told.servers_add_noise

    def add_server_noise(self, sketch_share: RingArray, random_bytes: RandomBytes) -> None:
        """Add a server's noise to its sketch share of shape `(m, num_released)`, in place; once for each release.

        It is all noise of the release, or smoothing noise where rows overlap, or none. A server that did this twice
        for the same reports and gave out both results would show their difference, so it stores what it got in the
        step that computes it (docs/explanation/privacy.md#smoothing, #noise-by-servers).
        """
        self._told.add_server_noise(sketch_share, self.num_columns, random_bytes)

    # --- the analyst's part ------------------------------------------------------------------------------------

    def decode(self, sketch: IntArray) -> FloatArray:
        """Return released integers, shape `(m, num_released)`, in normalised units and the mechanism's own shape."""
        return self._told.decode(sketch, self.num_columns)

    def clipped_rows(self, sketch: IntArray) -> float:
        """Return how many rows were clipped, noise included, from released integers of shape `(m, num_released)`.

        Raises:
            ValueError: nothing counts clipped rows.
        """
        return self._told.clipped_rows(sketch)

    def counted_rows(self, sketch: IntArray) -> float:
        """Return how many rows there are, from released integers of shape `(m, layout.num_released)`.

        Raises:
            ValueError: nothing counts rows; every report is one.
        """
        if not self.layout.counter:
            raise ValueError(f"{self.mechanism.kind} counts no rows here; their number is that of the reports")
        return self.layout.counted(sketch)

    # --- privacy -----------------------------------------------------------------------------------------------

    @property
    def squared_distance(self) -> Fraction:
        """Return the largest squared distance of two neighbouring noiseless reports, in multiples of their noise.

        The unit of every word is the deviation of its noise, times `sigma`. A clip counter is included.
        """
        return self._told.squared_distance(self.claim, self.num_columns)

    @property
    def squared_shift(self) -> Fraction:
        """Return the squared distance of two releases of neighbouring inputs that one draw of noise has to hide.

        It is that of their reports, unless servers noise a sketch in which a report stands more than once.
        """
        return self._told.squared_shift(self.claim, self.num_columns)

    @property
    def squared_length(self) -> int | None:
        """Return B2, the largest squared norm of a noiseless report of one row in ring units; None if unknown.

        Verified reports prove that they are not longer, noise aside (docs/explanation/verified.md).
        """
        return self._told.squared_report_bound()

    @property
    def quota(self) -> int:
        """Return how many corrupt clients one row must be assumed to hold (docs/explanation/privacy.md#coalitions)."""
        return self._told.quota(self.claim)

    def fullest_row(self, num_clients: int) -> int:
        """Return how many reports enter the fullest row of a balanced matrix."""
        return self._told.largest_row(num_clients)

    def emptiest_row(self, num_clients: int) -> int:
        """Return how many honest clients stand behind the emptiest row of a balanced matrix."""
        return self._told.smallest_row(num_clients, self.claim)

    def privacy(self, num_clients: int) -> PrivacyStatement:
        """Return what is promised, to whom, and why, when `num_clients` reports are released; before S is drawn.

        Raises:
            RowUnderfilledError: the emptiest row has no honest client beyond the tolerated coalition.
        """
        return self._told.privacy(self.claim, self.num_columns, num_clients)

    def release_privacy(self, matrix: PublicMatrix, *, as_planned: bool = True) -> PrivacyStatement:
        """Return the privacy of a release under the matrix as drawn (Theorem 1, docs/explanation/privacy.md#sketch).

        Args:
            matrix: as drawn.
            as_planned: whether a matrix that is worse than planned is refused.

        Raises:
            RowUnderfilledError: a row has no honest client beyond the tolerated coalition, or the plan is exceeded.
        """
        told = self._told if as_planned else self._told.without_plan()
        return told.release_privacy(self.claim, self.num_columns, matrix)

    def failure_of_two_steps(self, privacy: PrivacyStatement) -> float:
        """Return the failure between two rows of which each is one step, to the null row, from the other's release."""
        return self._told.failure_of_two_steps(privacy)

    def log_wrap_probability(self, max_clients: int) -> float:
        """Return the natural logarithm of a bound on the chance that any released entry leaves the ring."""
        return self._told.log_wrap_probability(self.num_columns, max_clients)

    def check(self, max_clients: int) -> None:
        """Refuse parameters that break the claim or may overflow the ring.

        Raises:
            InvalidTaskError: options, bounds or headroom do not fit.
            RowUnderfilledError: the minimum cohort leaves a row without honest clients.
            FalseClaimError: the promise is better than the mathematics.
        """
        self._told.check(self.claim, self.num_columns, max_clients)

    def calibrated(self, max_clients: int) -> Self:
        """Return this measurement with the finest grid that fits, and the smallest sigma that keeps the claim.

        Raises:
            InvalidTaskError: no grid fits the ring, or the claim needs more noise than the sampler draws.
            RowUnderfilledError: the minimum cohort leaves a row without honest clients.
        """
        calibrated = self._told.calibrated(self.claim, self.num_columns, max_clients)
        return replace(self, mechanism=calibrated.of_contributors(None).noised_by(0))

    def smallest_sigma(self) -> int:
        """Return the smallest integer sigma that keeps the claim (docs/explanation/privacy.md#calibration).

        Raises:
            RowUnderfilledError: the minimum cohort leaves a row without honest clients.
        """
        return self._told.smallest_sigma(self.claim, self.num_columns)

    def planned(self) -> Self:
        """Return this measurement, with the same noise, as it would be planned against the claim's coalition."""
        return replace(self, mechanism=self._told.planned_for(self.claim))
