"""What a task measures of each row, how it is encoded, and which privacy that gives."""

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from math import floor
from typing import Literal, Self

from pydantic import Field, model_validator

from lintra_protocol.encoding.documents import Frozen, Real, fraction, omitted
from lintra_protocol.errors import InvalidMessageError, InvalidTaskError
from lintra_protocol.fields.schema import Column, Schema
from lintra_protocol.fields.windows import Windows
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.mechanisms.measurement import Measurement
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.privacy.discrete import discrete_epsilon
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.shares_seen import SharesSeen
from lintra_protocol.privacy.statement import ALONE, MAX_SLACK, Claim, NoiseBy, PrivacyStatement
from lintra_protocol.privacy.stream_matrix import StreamMatrix
from lintra_protocol.privacy.study import Study
from lintra_protocol.privacy.windows import repeated
from lintra_protocol.transforms.base import PublicMatrix
from lintra_protocol.verification.parameters import Parameters, noised_bound


class BatchTerms(Frozen):
    """A task as far as it has times and batches.

    Times count units of `time_precision` seconds since the epoch; `not_before` is inclusive, `not_after` exclusive.
    """

    batches: Literal["single", "windowed"] = "single"
    windows: Windows | None = omitted(None)
    time_precision: int = Field(default=3600, ge=1, le=31_536_000)
    not_before: int = Field(ge=0, lt=2**53)
    not_after: int = Field(gt=0, lt=2**53)

    @model_validator(mode="after")
    def _times_fit(self) -> Self:
        if self.not_before >= self.not_after:
            raise ValueError(f"not_before {self.not_before} is not before not_after {self.not_after}")
        if (self.windows is None) != (self.batches == "single"):
            raise ValueError(f"windows belong to a task with batches 'windowed', and to no other; got {self.batches!r}")
        if self.windows is not None and self.not_before + self.windows.units != self.not_after:
            raise ValueError(
                f"{self.windows.max_windows} windows of {self.windows.window} units from {self.not_before} on end at "
                f"{self.not_before + self.windows.units}, not at {self.not_after}"
            )
        return self

    @property
    def num_batches(self) -> int:
        """Return how many batches the task may have: one, or one for each window."""
        return 1 if self.windows is None else self.windows.max_windows

    @property
    def reports_per_source(self) -> int:
        """Return how many reports one source may send, each to another batch."""
        return 1 if self.windows is None else self.windows.reports_per_source

    @property
    def max_merge(self) -> int:
        """Return how many windows in a row may be released together; 1 if each is released alone or not at all."""
        return 1 if self.windows is None else self.windows.max_merge

    @cached_property
    def stream(self) -> StreamMatrix | None:
        """Return how the noise of windows hangs together; None where it is independent."""
        return None if self.windows is None else self.windows.matrix

    @property
    def reports_per_claim(self) -> int:
        """Return how many reports of a source the claim is about: all of a stream's, else one."""
        return 1 if self.stream is None else self.reports_per_source

    def group(self, batch: int, first: int | None) -> range:
        """Return the batches that are released together as `batch`: from `first` to it, or it alone.

        Raises:
            InvalidMessageError: the task does not merge these.
        """
        if first is None:
            return range(batch, batch + 1)
        if not 0 <= first < batch or batch - first >= self.max_merge:
            raise InvalidMessageError(f"windows {first} to {batch}: this task merges at most {self.max_merge} in a row")
        return range(first, batch + 1)

    def batch_of(self, time: int) -> int:
        """Return the number of the batch that a report of this time belongs to. `time` is in the task's units.

        Raises:
            ValueError: the time lies outside the task.
        """
        if not self.not_before <= time < self.not_after:
            raise ValueError(f"time {time} lies outside [{self.not_before}, {self.not_after})")
        return 0 if self.windows is None else (time - self.not_before) // self.windows.window

    def span(self, batch: int) -> tuple[int, int]:
        """Return the first unit of time of a batch and the first one after it.

        Raises:
            ValueError: the task has no such batch.
        """
        if not 0 <= batch < self.num_batches:
            raise ValueError(f"the task has batches 0 to {self.num_batches - 1}, not {batch}")
        if self.windows is None:
            return self.not_before, self.not_after
        begins = self.not_before + batch * self.windows.window
        return begins, begins + self.windows.window


MAX_WORDS = 2**20


class TaskTerms(BatchTerms):
    """A task as far as it says what is measured of each row, and how privately."""

    columns: tuple[Column, ...] = Field(min_length=1, max_length=MAX_WORDS)
    mechanism: AnyMechanism
    claim: Claim
    max_clients: int = Field(ge=2, le=2**32)
    verification: Literal["none", "norm"] = omitted("none")
    max_rejected: Real | None = omitted(None)
    noise: NoiseBy = omitted("clients")
    study: Study | None = omitted(None)

    @model_validator(mode="after")
    def _claim_fits(self) -> Self:
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            raise ValueError("two columns have the same name")
        if self.max_clients < self.claim.min_clients:
            raise ValueError(f"max_clients {self.max_clients} is below min_clients {self.claim.min_clients}")
        if (self.max_rejected is None) != (self.verification == "none"):
            raise ValueError("max_rejected belongs to a task with verification 'norm', and to no other")
        if self.max_rejected is not None and not 0 <= fraction(self.max_rejected) < 1:
            raise ValueError(f"max_rejected lies in [0, 1), got {self.max_rejected}")
        return self

    @property
    @abstractmethod
    def num_servers(self) -> int:
        """Return N."""

    @property
    @abstractmethod
    def setting(self) -> Setting:
        """Return what the task decides for its mechanism."""

    @cached_property
    def measurement(self) -> Measurement:
        """Return the mechanism in this task's setting: what encodes, decodes and states the privacy of noise."""
        return replace(self._as_claimed, claim=self.noise_claim)

    @cached_property
    def _as_claimed(self) -> Measurement:
        """Return the same for the claim itself; sizes do not depend on it."""
        return Measurement(self.mechanism, self.num_columns, self.setting, self.claim)

    # --- sizes -------------------------------------------------------------------------------------------------

    @property
    def num_columns(self) -> int:
        """Return d, the columns of an encoded row: a category may be several (`encoded_columns`)."""
        return len(self.encoded_columns)

    @property
    def encoded_columns(self) -> tuple[Column, ...]:
        """Return what the mechanism counts: `columns`, categories as indicators unless it takes levels itself."""
        return self.schema_arrays.encoded

    @cached_property
    def num_words(self) -> int:
        """Return the ring words in a report's input share."""
        return self._as_claimed.layout.num_words

    @property
    def sketch_words(self) -> int:
        """Return the ring words in a row of the sketch: w, or w/c where a report holds c copies."""
        return self._as_claimed.layout.num_released

    @cached_property
    def schema_arrays(self) -> Schema:
        """Return the columns as arrays."""
        return Schema(self.columns, indicators="levels" not in self.mechanism.allows)

    # --- verified reports --------------------------------------------------------------------------------------

    @cached_property
    def verified(self) -> Parameters | None:
        """Return the sizes of reports that prove how long their rows are, and the bound R^2; None without proofs.

        Raises:
            InvalidTaskError: nothing bounds the mechanism's reports, or they are too long.
        """
        if self.verification == "none":
            return None
        longest = self._as_claimed.squared_length
        if longest is None:
            raise InvalidTaskError(
                f"verification: reports of {self.mechanism.kind} with these options have no proven bound; use 'none'"
            )
        if self.num_words > MAX_WORDS:  # before their noise is spelled out, word by word
            raise InvalidTaskError(f"a report of {self.num_words} words exceeds {MAX_WORDS}; use a sketch")
        noised = self.noise != "servers"
        variances = [int(sigma) ** 2 * noised for sigma in self._as_claimed.layout.sigmas]
        try:
            return Parameters(self.num_words, self.num_servers, noised_bound(longest, variances))
        except ValueError as error:
            raise InvalidTaskError(f"verification: {error}") from None

    @cached_property
    def shares_seen(self) -> SharesSeen | None:
        """Return what shares of verified reports show; None without proofs, where shares say nothing at all."""
        if self.verified is None:
            return None
        verified, clients_noise = self.verified, self.noise != "servers"
        seen = SharesSeen.of(
            verified.padded, verified.squared_bound, verified.word_bits, self.max_clients, clients_noise=clients_noise
        )
        return seen.of_reports(self.reports_per_claim)

    @cached_property
    def noise_claim(self) -> Claim:
        """Return what the noise has to keep: the claim, or a little more where reports are verified."""
        return self.claim if self.shares_seen is None else self.shares_seen.left_of(self.claim)

    def least_accepted(self, count: int) -> int:
        """Return how many of so many reports are left if as many are rejected as the task allows: all, without proofs.

        Whether a batch is closed or frozen is decided by this number, so that a few bad reports cost no batch.
        """
        return count if self.max_rejected is None else count - floor(fraction(self.max_rejected) * count)

    # --- privacy -----------------------------------------------------------------------------------------------

    def privacy(self, num_clients: int) -> PrivacyStatement:
        """Return the exact privacy of a release of `num_clients` reports."""
        return self._stated(self.measurement.privacy(num_clients))

    def release_privacy(self, matrix: PublicMatrix) -> PrivacyStatement:
        """Return the exact privacy of a release under the matrix that was really drawn."""
        return self._stated(self.measurement.release_privacy(matrix))

    def alone_privacy(self) -> PrivacyStatement | None:
        """Return the privacy of one release if all other clients are invented or corrupt; None where nothing bounds it.

        It depends on no cohort and on no matrix (docs/proofs/servers.md#two-layers).
        """
        alone = self._as_claimed.alone()
        if alone is None or self.shares_seen is None or self.noise == "servers":
            return alone if self.noise != "servers" else self.privacy(self.claim.min_clients)
        return self.shares_seen.of_nobody_else.beside(alone, self.claim.float_delta)

    def _stated(self, of_noise: PrivacyStatement) -> PrivacyStatement:
        """Return what the task promises by noise that keeps `noise_claim`: shares of verified reports show more."""
        if self.claim.epsilon_alone is not None and (alone := self.alone_privacy()) is not None:
            of_noise = replace(of_noise, epsilon_alone=alone.epsilon)
        if self.shares_seen is None:
            return of_noise
        statement = self.shares_seen.beside(of_noise, self.claim.float_delta)
        if self.noise == "servers":
            return statement
        return replace(statement, max_corrupt_clients=self.claim.max_corrupt_clients)

    def worst_privacy(self) -> PrivacyStatement:
        """Return the privacy of the worst release that the gate lets pass (docs/reference/protocol-rules.md#rules, R9).

        It is that of the smallest cohort: exact where all matrices are equally good. Where rows overlap, a matrix may
        be worse than planned and is used all the same, if only it keeps the promise; then it is all that is allowed.
        """
        statement = self.privacy(self.claim.min_clients)
        if not self.measurement.noise_law.matrices_differ(self.setting):
            return statement
        epsilon = self.claim.float_epsilon
        noise_delta = self.noise_claim.noise_delta
        mu = max(statement.mu, gaussian_mu(epsilon, noise_delta * (1 + 1e-14)) * (1 + 1e-12))
        worst = replace(statement, mu=mu, slack=MAX_SLACK)
        if self.shares_seen is None:
            return replace(worst, epsilon=discrete_epsilon(mu, noise_delta, MAX_SLACK))
        return replace(worst, epsilon=worst.epsilon_at(worst.delta))

    def worst_together(self) -> PrivacyStatement:
        """Return the privacy of everything that one source may send, merged as unluckily as may be."""
        return self._worst_of(self.reports_per_source)

    def worst_charge(self) -> PrivacyStatement:
        """Return what one report of a source costs it: as many of them as it may send cost `worst_together`.

        Of a stream it is what all of them cost together: the first is charged that, and no later one anything.
        """
        return self._worst_of(1)

    def _claims_in(self, reports: int) -> int:
        """Return how many times what is claimed so many reports cost: a stream's claim is about all of them."""
        return reports if self.stream is None else 1

    def worst_alone(self, reports: int | None = None) -> PrivacyStatement | None:
        """Return `alone_privacy` of so many reports of a source, of all that it may send if not given."""
        alone = self.alone_privacy()
        return (
            None
            if alone is None
            else repeated(alone, self._claims_in(reports or self.reports_per_source), self.max_merge)
        )

    def _worst_of(self, reports: int) -> PrivacyStatement:
        worst = repeated(self.worst_privacy(), self._claims_in(reports), self.max_merge)
        alone = None if self.claim.epsilon_alone is None else self.worst_alone(reports)
        return worst if alone is None else replace(worst, epsilon_alone=alone.epsilon)

    def bound_alone(self, reports: int | None = None) -> PrivacyStatement | None:
        """Return `worst_alone` if it is a promise, or at most `ALONE` times epsilon all the same; else None.

        It is a promise with `epsilon_alone`, and where the claim itself is against all others. Else it rests on who
        enrols whom.
        """
        claim, alone = self.claim, self.worst_alone(reports)
        if alone is None or (self.study is not None and self.study.epsilon_alone is None):
            return None
        promised = claim.epsilon_alone is not None or self.noise == "servers"
        if promised or claim.max_corrupt_clients >= claim.min_clients - 1:
            return alone
        own = self.alone_privacy()
        return None if own is None or own.epsilon > ALONE * claim.float_epsilon else alone

    def judged_alone(self) -> PrivacyStatement | None:
        """Return what a judge has to accept if all others are invented: `bound_alone`, or that of the whole study."""
        alone = self.bound_alone()
        return alone if alone is None or self.study is None else self.study.alone(alone)

    def promises(self) -> list[tuple[Claim, PrivacyStatement]]:
        """Return all that a judge has to accept: the claim and its worst release, and those of the study, if any.

        Of a task with windows it is everything that one source may send which has to be accepted.
        """
        own = [(self.claim, self.worst_together())]
        if self.study is None:
            return own
        return [*own, (self.study.claim(self.claim), self.study.statement(self.worst_privacy()))]
