"""What a task measures of each row, how it is encoded, and which privacy that gives."""

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from math import floor
from typing import Literal, Self

from pydantic import Field, model_validator

from lintra_protocol.batched import Batched
from lintra_protocol.documents import Real, fraction
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.mechanisms import AnyMechanism
from lintra_protocol.privacy.discrete import discrete_epsilon
from lintra_protocol.privacy.gaussian import gaussian_mu
from lintra_protocol.privacy.repeated import repeated
from lintra_protocol.privacy.shares_seen import SharesSeen
from lintra_protocol.privacy.statement import MAX_SLACK, Claim, NoiseBy, PrivacyStatement
from lintra_protocol.privacy.study import Study
from lintra_protocol.schema import Column, Schema
from lintra_protocol.transforms.base import PublicMatrix
from lintra_protocol.verification.parameters import Parameters, noised_bound

MAX_WORDS = 2**20


class Measured(Batched):
    """A task as far as it says what is measured of each row, and how privately."""

    columns: tuple[Column, ...] = Field(min_length=1, max_length=MAX_WORDS)
    mechanism: AnyMechanism
    claim: Claim
    max_clients: int = Field(ge=2, le=2**32)
    verification: Literal["none", "norm"] = Field(default="none", exclude_if=lambda asked: asked == "none")
    max_rejected: Real | None = Field(default=None, exclude_if=lambda part: part is None)
    noise: NoiseBy = Field(default="clients", exclude_if=lambda adds: adds == "clients")
    study: Study | None = Field(default=None, exclude_if=lambda study: study is None)

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
        return self.mechanism.report_words(self.num_columns)

    @property
    def sketch_words(self) -> int:
        """Return the ring words in a row of the sketch: w, or w/c where a report holds c copies."""
        return self.mechanism.sketch_words(self.num_columns)

    @cached_property
    def schema_arrays(self) -> Schema:
        """Return the columns as arrays."""
        return Schema(self.columns, indicators=not self.mechanism.takes_levels)

    # --- verified reports --------------------------------------------------------------------------------------

    @cached_property
    def verified(self) -> Parameters | None:
        """Return the sizes of reports that prove how long their rows are, and the bound R^2; None without proofs.

        Raises:
            InvalidTaskError: nothing bounds the mechanism's reports, or they are too long.
        """
        if self.verification == "none":
            return None
        longest = self.mechanism.squared_report_bound()
        if longest is None:
            raise InvalidTaskError(
                f"verification: nothing bounds a report of {self.mechanism.kind} like this; use none"
            )
        variances = [int(sigma) ** 2 for sigma in self.mechanism.report_sigmas(self.num_columns)]
        try:
            return Parameters(self.num_words, self.num_servers, noised_bound(longest, variances))
        except ValueError as error:
            raise InvalidTaskError(f"verification: {error}") from None

    @cached_property
    def shares_seen(self) -> SharesSeen | None:
        """Return what shares of verified reports show; None without proofs, where shares say nothing at all."""
        if self.verified is None:
            return None
        return SharesSeen.of(
            self.verified.padded,
            self.verified.squared_bound,
            self.verified.word_bits,
            self.max_clients,
            clients_noise=self.noise == "clients",
        )

    @cached_property
    def noise_claim(self) -> Claim:
        """Return what the noise has to keep: the claim, or a little more where reports are verified.

        Raises:
            InvalidTaskError: shares would cost too much of delta.
        """
        return self.claim if self.shares_seen is None else self.shares_seen.left_of(self.claim)

    def least_accepted(self, count: int) -> int:
        """Return how many of so many reports are left if as many are rejected as the task allows: all, without proofs.

        Whether a batch is closed or frozen is decided by this number, so that a few bad reports cost no batch.
        """
        return count if self.max_rejected is None else count - floor(fraction(self.max_rejected) * count)

    # --- privacy -----------------------------------------------------------------------------------------------

    def privacy(self, num_clients: int) -> PrivacyStatement:
        """Return the exact privacy of a release of `num_clients` reports."""
        return self._stated(self.mechanism.privacy(self.noise_claim, self.num_columns, num_clients))

    def release_privacy(self, matrix: PublicMatrix) -> PrivacyStatement:
        """Return the exact privacy of a release under the matrix that was really drawn.

        Raises:
            RowUnderfilledError: a row has no honest client beyond the tolerated coalition.
        """
        return self._stated(self.mechanism.release_privacy(self.noise_claim, self.num_columns, matrix))

    def _stated(self, of_noise: PrivacyStatement) -> PrivacyStatement:
        """Return what the task promises by noise that keeps `noise_claim`: shares of verified reports show more."""
        if self.shares_seen is None:
            return of_noise
        statement = self.shares_seen.beside(of_noise, self.claim.float_delta)
        if self.noise == "servers":
            return statement
        return replace(statement, max_corrupt_clients=self.claim.max_corrupt_clients)

    def worst_privacy(self) -> PrivacyStatement:
        """Return the privacy of the worst release that the gate lets pass (docs/reference/protocol.md#rules, R9).

        It is that of the smallest cohort: exact where all matrices are equally good. Where rows overlap, a matrix may
        be worse than planned and is used all the same, if only it keeps the promise; then it is all that is allowed.
        """
        statement = self.privacy(self.claim.min_clients)
        if not self.mechanism.smoothing:
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
        return repeated(self.worst_privacy(), self.reports_per_source, self.max_merge)

    def worst_charge(self) -> PrivacyStatement:
        """Return what one report of a source costs it: as many of them as it may send cost `worst_together`."""
        return repeated(self.worst_privacy(), 1, self.max_merge)

    def promises(self) -> list[tuple[Claim, PrivacyStatement]]:
        """Return all that a judge has to accept: the claim and its worst release, and those of the study, if any.

        Of a task with windows it is everything that one source may send which has to be accepted.
        """
        own = [(self.claim, self.worst_together())]
        if self.study is None:
            return own
        return [*own, (self.study.claim(self.claim), self.study.statement(self.worst_privacy()))]
