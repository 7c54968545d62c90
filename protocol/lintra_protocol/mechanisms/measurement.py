"""A measurement: a mechanism in the setting of a task. It encodes rows, adds noise, decodes, and states the privacy."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lintra_protocol.crypto.randomness import RandomBytes, no_randomness
from lintra_protocol.crypto.ring import RING_BITS, FloatArray, IntArray, RingArray, to_ring
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms.base import LOG_MAX_WRAP, Mechanism
from lintra_protocol.mechanisms.grid import FINE_SIGMA, grids, no_grid
from lintra_protocol.mechanisms.layout import CLIPPED, ROWS, Layout, Products, Words
from lintra_protocol.mechanisms.noise_law import GaussianLaw, drawn_together, upper_root
from lintra_protocol.mechanisms.persons import check_rows, clipped_together
from lintra_protocol.mechanisms.row_quota import block_quota
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.mechanisms.setting_check import check_setting
from lintra_protocol.noise.clipping import MAX_SQUARED_BOUND
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA, discrete_gaussian
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
    def layout(self) -> Layout:
        """Return the blocks of a report."""
        return self.mechanism.layout(self.num_columns, self.setting)

    @cached_property
    def noise_law(self) -> GaussianLaw:
        """Return how the noise hides a row or person."""
        return self.mechanism.noise_law

    # --- the client's part -------------------------------------------------------------------------------------

    def encode(self, rows: FloatArray, random_bytes: RandomBytes, outside: NDArray[np.bool_] | None = None) -> IntArray:
        """Clip, round and noise normalised rows of shape `(n, d)` into reports of shape `(n, w)`; on the client.

        Where servers add the noise a report has none. `outside` is that of `exact_reports`.
        """
        exact = self.exact_reports(rows, outside, random_bytes)
        return exact if self.setting.noising_servers else exact + self.noise(len(exact), random_bytes)

    def exact_reports(
        self,
        rows: FloatArray,
        outside: NDArray[np.bool_] | None = None,
        random_bytes: RandomBytes = no_randomness,
    ) -> IntArray:
        """Turn normalised rows of shape `(n, d)` into noiseless reports of shape `(n, w)`.

        What is missing, that is not finite, stands at its column's centre, or makes the whole report 0
        (`leaves_out`). `outside` says for each row whether a bound of a column moved a value of it before, shape
        `(n,)`; none if not given. Only the clip counter looks at it. Only dithered rounding reads `random_bytes`.
        """
        mechanism, layout = self.mechanism, self.layout
        words = self._filled(mechanism.clip(mechanism.with_centre_for_missing(rows), self.setting, random_bytes))
        if CLIPPED in layout:
            clipped = mechanism.is_clipped(rows) if outside is None else outside | mechanism.is_clipped(rows)
            words[CLIPPED] = layout[CLIPPED].bound * clipped[:, np.newaxis].astype(np.int64)
        exact = layout.reports(words)
        if self.leaves_out:
            exact[~np.isfinite(rows).all(axis=1)] = 0
        return exact

    def _filled(self, steps: IntArray) -> dict[str, Words]:
        """Return what fills each block for clipped integer rows; each row is one in an exact count."""
        words = dict(self.mechanism.fill(steps, self.setting))
        if ROWS in self.layout:
            words[ROWS] = np.ones((len(steps), 1), np.int64)
        return words

    @cached_property
    def leaves_out(self) -> bool:
        """Whether a row in which a number is missing is sent as zeros, and counts nowhere."""
        return self.mechanism.leaves_out(self.setting)

    def is_clipped(self, rows: FloatArray) -> NDArray[np.bool_]:
        """Say for each normalised row of shape `(n, d)` whether it is too large to be encoded as it is."""
        return self.mechanism.is_clipped(rows)

    def average_weight(self, rows: FloatArray) -> float | None:
        """Return how much each of some normalised rows, shape `(n, d)`, counts on average; None without row weights."""
        return self.mechanism.average_weight(rows, self.setting)

    def clipping_rule(self) -> str:
        """Return in words what a client does to a row that is too large, or to all rows of a person together."""
        return self.mechanism.clipping_rule(self.setting)

    @property
    def person_norm(self) -> float | None:
        """Return the largest norm of all rows of a person together, in normalised units; None if clipped one by one."""
        if "persons" not in self.mechanism.allows:
            return None
        return sqrt(self.mechanism.person_bound(self.setting)) * 2.0**-self.mechanism.fraction_bits

    def contribution(self, rows: FloatArray, persons: IntArray, random_bytes: RandomBytes) -> IntArray:
        """Encode all rows of an organisation as one report with one draw of noise, shape `(w,)`.

        Args:
            rows: normalised, of shape `(n, d)` and any norm; what is missing is no finite number.
            persons: whose row each is, shape `(n,)`, numbered from 0.
            random_bytes: the organisation's own.

        Raises:
            InvalidRowError: more rows than the task allows, of all persons or of one.
        """
        return self.noised(self.exact_contribution(rows, persons, random_bytes), random_bytes)

    def exact_contribution(
        self, rows: FloatArray, persons: IntArray, random_bytes: RandomBytes = no_randomness
    ) -> IntArray:
        """Return the same without noise, shape `(w,)` (see `contribution` for the arguments)."""
        check_rows(rows, persons, self.setting)
        if self.leaves_out:
            whole = np.flatnonzero(np.isfinite(rows).all(axis=1))
            rows, persons = rows[whole], persons[whole]
        known, total = self.mechanism.with_centre_for_missing(rows), np.zeros(self.layout.num_words, np.int64)
        together = persons if "persons" in self.mechanism.allows else None
        for some in clipped_together(known, together, self._widest):
            total += self.layout.summed(self._filled(self.mechanism.clip(some, self.setting, random_bytes)))
        return total

    @cached_property
    def _widest(self) -> int:
        """Return how many numbers of a row are held at once: its own, or the words that are spelled out."""
        one = self.mechanism.clip(np.zeros((1, self.num_columns)), self.setting, bytes)
        parts = [part for part in self._filled(one).values() if not isinstance(part, Products)]
        spelled = sum(int(part.shape[1]) for part in parts)
        return max(self.num_columns, spelled)

    # --- noise -------------------------------------------------------------------------------------------------

    def noise(self, count: int, random_bytes: RandomBytes) -> IntArray:
        """Draw the noise of so many reports, shape `(count, w)`; an exact count has none."""
        return self.noise_law.noise(self.layout, count, random_bytes)

    def noised(self, exact: IntArray, random_bytes: RandomBytes) -> IntArray:
        """Add a draw of noise to each of some noiseless reports, shape `(w,)` or `(k, w)`."""
        noised: IntArray = exact + self.noise(len(np.atleast_2d(exact)), random_bytes).reshape(exact.shape)
        return noised

    @property
    def smoothing(self) -> int:
        """Return the parameter of the noise that every server adds to its share where rows overlap; 0 for none."""
        return self.noise_law.smoothing(self.setting)

    @property
    def servers_deviation(self) -> int:
        """Return the deviation of what every server adds to clients' noise in a word of deviation sigma; 0 for none."""
        return self.layout.floor.deviation or self.smoothing

    @property
    def servers_add_noise(self) -> bool:
        """Whether a sketch share must not leave its server without noise."""
        return self.setting.noising_servers > 0 or self.servers_deviation > 0

    def add_server_noise(self, sketch_share: RingArray, random_bytes: RandomBytes) -> None:
        """Add a server's noise to its sketch share of shape `(m, num_released)`, in place; once for each release.

        It is all noise of the release, a floor, smoothing noise where rows overlap, or none. A server that did this
        twice for the same reports and gave out both results would show their difference, so it stores what it got in
        the step that computes it (docs/proofs/integers.md#smoothing, docs/proofs/servers.md).
        """
        if self.setting.noising_servers:
            sketch_share += to_ring(self.noise(len(sketch_share), random_bytes))
        elif self.layout.floor.deviation:
            sketch_share += to_ring(drawn_together(self.layout.words_by_floor, sketch_share.shape, random_bytes))
        elif self.smoothing:
            sketch_share += to_ring(discrete_gaussian(sketch_share.shape, self.smoothing, random_bytes))

    # --- the analyst's part ------------------------------------------------------------------------------------

    def decode(self, sketch: IntArray) -> FloatArray:
        """Return released integers, shape `(m, num_released)`, in normalised units and the mechanism's own shape."""
        return self.mechanism.decode(self.layout, sketch)

    def clipped_rows(self, sketch: IntArray) -> float:
        """Return how many rows were clipped, noise included, from released integers of shape `(m, num_released)`.

        Raises:
            ValueError: nothing counts clipped rows.
        """
        if CLIPPED not in self.layout:
            raise ValueError("this mechanism has no clip counter")
        return float(self.layout.values(sketch, CLIPPED)[0, 0])

    def counted_rows(self, sketch: IntArray) -> float:
        """Return how many rows there are, from released integers of shape `(m, layout.num_released)`.

        Raises:
            ValueError: nothing counts rows; every report is one.
        """
        if not self.layout.counter:
            raise ValueError(f"{self.mechanism.kind} counts no rows here; their number is that of the reports")
        return self.layout.counted(sketch)

    # --- what a row or a person can move -----------------------------------------------------------------------

    @cached_property
    def squared_distance(self) -> Fraction:
        """Return the largest squared distance of two neighbouring noiseless reports, in multiples of their noise.

        The unit of every word is the deviation of its noise over `sigma`. All copies and the clip counter are included.
        """
        one = self._one_change
        if self.setting.contributors is not None:
            return self.setting.squared_places * one
        return max(block.copies for block in self.layout.blocks) * one + self._squared_counter

    @property
    def squared_shift(self) -> Fraction:
        """Return the squared distance of two releases of neighbouring inputs that one draw of noise has to hide.

        It is that of their reports, unless servers noise a sketch, in which a report stands in s rows. It is the same
        for every matrix (docs/proofs/servers.md#noise-by-servers).
        """
        if self.setting.stream is not None:
            return Fraction(self.setting.stream.distance(upper_root(self.squared_distance), self.shifted_words)) ** 2
        if not (self.setting.noising_servers and self.mechanism.row_blocks):
            return self.squared_distance
        return self.mechanism.row_blocks * self._one_change + self._squared_counter

    @property
    def _one_change(self) -> Fraction:
        return self.mechanism.squared_distance(self.claim.neighbours, self.num_columns, self.setting)

    @property
    def _squared_counter(self) -> int:
        return self.layout[CLIPPED].bound ** 2 if CLIPPED in self.layout else 0

    @property
    def shifted_words(self) -> int:
        """Return how many released words one report moves: in a sketch those of s rows, and of a total once.

        A stream's later windows move, too: it is the words of all of them.
        """
        times = max(self.mechanism.row_blocks, 1)
        sizes = (block.size * (1 if block.is_total else times) for block in self.layout.blocks if block.name != ROWS)
        return sum(sizes) * self.setting.rows_of_stream

    @property
    def squared_length(self) -> int | None:
        """Return B2, the largest squared norm of a noiseless report of one row in ring units; None if unknown."""
        own = self.mechanism.squared_length(self.num_columns, self.setting)
        return None if own is None else own + self._squared_counter

    # --- privacy -----------------------------------------------------------------------------------------------

    @property
    def num_rows(self) -> int:
        """Return m, the rows of the public matrix."""
        return self.mechanism.num_rows

    @property
    def quota(self) -> int:
        """Return how many corrupt clients one row must be assumed to hold (docs/proofs/sketch.md#coalitions)."""
        if self.setting.noising_servers:
            return self.claim.max_corrupt_clients
        return block_quota(self.claim, self.num_rows, max(self.mechanism.row_blocks, 1), self.noise_law.matrices)

    def fullest_row(self, num_clients: int) -> int:
        """Return how many reports enter the fullest row of a balanced matrix: one of the smallest block of rows."""
        return -(-num_clients // max(1, self.num_rows // max(self.mechanism.row_blocks, 1)))

    def emptiest_row(self, num_clients: int) -> int:
        """Return how many honest clients stand behind the emptiest row, one of the largest block of rows."""
        return num_clients // -(-self.num_rows // max(self.mechanism.row_blocks, 1)) - self.quota

    def privacy(self, num_clients: int) -> PrivacyStatement:
        """Return what is promised, to whom, and why, when `num_clients` reports are released; before S is drawn.

        Raises:
            RowUnderfilledError: the emptiest row has no honest client beyond the tolerated coalition.
        """
        return self.noise_law.privacy(self, num_clients)

    def alone(self) -> PrivacyStatement | None:
        """Return what is promised of one release if all other clients are corrupt; None where no theorem says it."""
        others = self.claim.min_clients - 1
        if self.setting.noising_servers or (self.num_rows == 1 and self.claim.max_corrupt_clients >= others):
            return self.privacy(self.claim.min_clients)
        if "floor" not in self.mechanism.allows:
            return None
        return self.noise_law.alone(self)

    def release_privacy(self, matrix: PublicMatrix, *, as_planned: bool = True) -> PrivacyStatement:
        """Return the privacy of a release under the matrix as drawn (Theorem 1, docs/proofs/sketch.md#sketch).

        Raises:
            RowUnderfilledError: a row has no honest client beyond the tolerated coalition, or, `as_planned`, the matrix
                is worse than planned.
        """
        return self.noise_law.release_privacy(self, matrix, as_planned=as_planned)

    def log_wrap_probability(self, max_clients: int) -> float:
        """Return the natural logarithm of a bound on the chance that any released entry leaves the ring."""
        return self.noise_law.log_wrap_probability(self, max_clients)

    # --- what a task may say -----------------------------------------------------------------------------------

    def check(self, max_clients: int) -> None:
        """Refuse parameters that break the claim or may overflow the ring: InvalidTaskError (see `Task.check`)."""
        mechanism, bits = self.mechanism, self.mechanism.fraction_bits
        mechanism.check_options(self.claim, self.num_columns, self.setting)
        mechanism.check_grid(self.num_columns, self.setting)
        if "persons" in mechanism.allows and not 0 < mechanism.person_bound(self.setting) <= MAX_SQUARED_BOUND:
            raise InvalidTaskError(
                f"what a person's rows are clipped to does not fit 30 bits with {bits} fraction bits"
            )
        self.noise_law.check(self)
        check_setting(mechanism, self.claim, self.setting)
        if not 0 < mechanism.squared_bound <= MAX_SQUARED_BOUND:
            raise InvalidTaskError(f"row_bound {mechanism.row_bound} with {bits} fraction bits does not fit 30 bits")
        if mechanism.squared_bound < 4 * mechanism.dithered_entries(self.num_columns):
            raise InvalidTaskError(
                f"row_bound {mechanism.row_bound} with {bits} fraction bits is too coarse to dither "
                f"{self.num_columns} columns; use more fraction bits"
            )
        layout = self.layout
        if CLIPPED in layout and not layout[CLIPPED].bound:
            weight = mechanism.clip_count_weight
            raise InvalidTaskError(f"clip_count_weight {weight} is less than one step of the grid")
        if layout.largest_sigma > MAX_SIGMA:
            raise InvalidTaskError(f"sigma {layout.largest_sigma} exceeds {MAX_SIGMA}")
        largest = self.setting.rows_per_report * layout.bound
        if largest >= 2**62 or self.log_wrap_probability(max_clients) > LOG_MAX_WRAP:
            raise InvalidTaskError(
                f"{max_clients} {self.setting.senders} may overflow the ring of {RING_BITS} bits; use fewer fraction "
                "bits"
            )
        self.privacy(self.claim.min_clients).require(self.claim)
        if not layout.rows_per_count:
            raise InvalidTaskError("count 'noisy': what a row counts is less than one step of the grid")

    def calibrated(self, max_clients: int, require: Callable[[Self], None] | None = None) -> Self:
        """Return this measurement with the grid of its rounding, and the smallest sigma that keeps the claim.

        `require` raises InvalidTaskError on a grid that does not do for some other reason; the next one is tried then.

        Raises:
            InvalidTaskError: no grid fits the ring, or the claim needs more noise than the sampler draws.
            RowUnderfilledError: the minimum cohort leaves a row without honest clients.
        """
        self.mechanism.check_options(self.claim, self.num_columns, self.setting)
        planned, refusal = self.planned(), ""
        check_setting(planned.mechanism, self.claim, self.setting)
        about = planned.mechanism, self.num_columns, self.setting, self.claim, max_clients
        for fraction_bits in grids(*about):
            candidate = planned.changed(fraction_bits=fraction_bits)
            if not candidate.noise_law.grid_fits(candidate):
                continue
            sigma, floor = candidate.noise_law.smallest_noise(candidate)
            if sigma < FINE_SIGMA and candidate.mechanism.rounding == "dithered":
                continue
            candidate = candidate.changed(sigma=sigma, floor=floor)
            try:
                candidate.check(max_clients)
                if require is not None:
                    require(candidate)
            except InvalidTaskError as error:
                refusal = refusal or error.detail
                continue
            return candidate
        raise no_grid(*about, refusal)

    def changed(self, **update: int | str) -> Self:
        """Return this measurement with some of the mechanism's fields changed."""
        return replace(self, mechanism=self.mechanism.model_copy(update=update))

    def smallest_sigma(self) -> int:
        """Return the smallest integer sigma that keeps the claim (see `GaussianLaw.smallest_sigma`)."""
        return self.noise_law.smallest_sigma(self)

    def planned(self) -> Self:
        """Return this measurement as planned against the coalition, or raise RowUnderfilledError if no plan holds."""
        return replace(self, mechanism=self.mechanism.planned_for(self.claim, self.num_columns, self.setting))
