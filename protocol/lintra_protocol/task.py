"""The one document that every party holds: immutable, and named by its own hash.

Whoever reads a task checks it: the promise is recomputed from the parameters, never believed. What this version
does not do is refused here, in words, and not skipped.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StringConstraints, model_validator

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray, IntArray
from lintra_protocol.crypto.sealing import HYBRID, PUBLIC_KEY_BYTES, SuiteName
from lintra_protocol.crypto.signing import parse_public_key
from lintra_protocol.encoding.canonical import base64url, domain_hash, parse_base64url
from lintra_protocol.encoding.documents import Frozen, Key, Printable, Real, fraction, omitted
from lintra_protocol.errors import (
    FalseClaimError,
    InvalidMessageError,
    InvalidRowError,
    InvalidTaskError,
    UnsupportedFeatureError,
)
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.missing_reports import MOST_MAX_MISSING
from lintra_protocol.mechanisms.floor import MAX_SERVERS
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.task_terms import MAX_WORDS, TaskTerms
from lintra_protocol.verification.padding import too_long

Url = Annotated[str, StringConstraints(pattern=r'^https?://[!"$->@-~]{1,250}[!"$-.0->@-~]$')]
"""Of visible ASCII, without query and fragment, and without a slash at its end."""


class ServerEntry(Frozen):
    """One server: where it listens, and the Ed25519 key it signs with."""

    url: Url
    identity_key: Key


class AnalyzerEntry(Frozen):
    """The analyzer: the Ed25519 key it signs with, and the HPKE key that sketch shares are sealed to."""

    identity_key: Key
    sealing_key: Key


class Task(TaskTerms):
    """The public parameters of one collection; `Batched` holds its times, `TaskTerms` what it asks for and promises."""

    version: Literal["lintra/1"] = "lintra/1"
    salt: Key
    purpose: Annotated[Printable, StringConstraints(min_length=1, max_length=2000)]
    author_key: Key
    servers: tuple[ServerEntry, ...] = Field(min_length=2, max_length=MAX_SERVERS)
    analyzer: AnalyzerEntry
    contributors: Contributors | None = omitted(None)
    max_missing: Real = "0.25"
    share_form: Literal["uniform", "seeded", "spread"] = "uniform"
    suite: SuiteName = HYBRID
    client_auth: Literal["none", "token", "mtls"] = "none"
    token_keys: tuple[Key, ...] = Field(default=(), max_length=MAX_SERVERS)
    retention: int = Field(default=0, ge=0, lt=2**31)
    extensions: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> "Task":
        if len({entry.identity_key for entry in self.servers}) < len(self.servers):
            raise ValueError("two servers have the same identity key")
        if not 0 <= fraction(self.max_missing) < 1:
            raise ValueError(f"max_missing lies in [0, 1), got {self.max_missing}")
        return self

    def __repr__(self) -> str:
        return f"Task({self.task_id[:8]}.., {self.mechanism.kind}, epsilon={self.claim.epsilon})"

    __str__ = __repr__

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """Return a changed copy, which has an identifier of its own."""
        copy = super().model_copy(update=update, deep=deep)
        for derived in copy.__dict__.keys() - type(self).model_fields.keys():
            del copy.__dict__[derived]
        return copy

    # --- identity ----------------------------------------------------------------------------------------------

    @cached_property
    def id_bytes(self) -> bytes:
        """Return the 32-byte identifier H("task", canonical definition)."""
        return domain_hash("task", self.canonical())

    @cached_property
    def task_id(self) -> str:
        """Return the identifier in base64url."""
        return base64url(self.id_bytes)

    # --- sizes -------------------------------------------------------------------------------------------------

    @property
    def num_servers(self) -> int:
        """Return N."""
        return len(self.servers)

    @cached_property
    def setting(self) -> Setting:
        """Return what this task decides for its mechanism: who contributes, and who adds noise."""
        servers = {self.noise: self.num_servers}
        merges = self.max_merge > 1
        return Setting(self.contributors, servers.get("servers", 0), servers.get("both", 0), merges, self.stream)

    def read_with(self, draws: float) -> Self:
        """Return this task for the reading of numbers that carry so many draws of a report's noise."""
        copy = self.model_copy()
        copy.__dict__["setting"] = replace(self.setting, released_draws=draws)
        return copy

    # --- what the roles do with it -----------------------------------------------------------------------------

    def encode(self, rows: FloatArray, random_bytes: RandomBytes) -> IntArray:
        """Normalise, clip, round and noise checked rows of shape `(n, d)`; the result has shape `(n, w)`.

        Where reports are verified, a row that became too long, one in 2^80, gets all its noise anew.

        Raises:
            InvalidRowError: the task takes contributions of organisations, and not single rows.
        """
        schema = self.schema_arrays
        return self.encode_normalised(schema.normalise(rows), schema.outside(rows), random_bytes)

    def encode_normalised(
        self, normalised: FloatArray, outside: NDArray[np.bool_], random_bytes: RandomBytes
    ) -> IntArray:
        """Return what `encode` returns of rows whose normalised form, shape `(n, k)`, is known already.

        Args:
            normalised: see `Schema.normalise`.
            outside: see `Schema.outside`, shape `(n,)`.
            random_bytes: a cryptographic source.

        Raises:
            InvalidRowError: see `encode`.
        """
        if self.contributors is not None:
            raise InvalidRowError("this task takes one report of each organisation: contribute all rows together")
        noised = self.measurement.encode(normalised, random_bytes, outside)
        if self.verified is not None:
            while (long := np.flatnonzero(too_long(noised, self.verified.squared_bound))).size:
                noised[long] = self.measurement.encode(normalised[long], random_bytes, outside[long])
        return noised

    def encode_contribution(self, rows: FloatArray, persons: IntArray, random_bytes: RandomBytes) -> IntArray:
        """Turn all checked rows of an organisation into one noised report of shape `(w,)`.

        Args:
            rows: in the user's units, shape `(n, d)`.
            persons: whose row each is, shape `(n,)`, numbered from 0.
            random_bytes: the organisation's own.

        Raises:
            InvalidRowError: more rows than the task allows, of all persons or of one.
            ValueError: the task takes single rows.
        """
        return self.measurement.contribution(self.schema_arrays.normalise(rows), persons, random_bytes)

    def check(self) -> None:
        """Check everything that needs no other party: supported features, keys, ring headroom and the promise.

        Raises:
            UnsupportedFeatureError: a feature that this version leaves for later.
            InvalidTaskError: bounds, keys or sizes do not fit.
            RowUnderfilledError: the minimum cohort leaves a row of the sketch without honest clients.
            FalseClaimError: the promise is better than the mathematics; the detail has both numbers.
        """
        self._require_supported()
        self._require_contributors()
        names = [column.name for column in self.encoded_columns]
        if len(set(names)) < len(names):
            raise InvalidTaskError("a column has the name that the indicator of a level would have; choose another")
        self._require_tokens()
        for name, key, length in self._keys():
            try:
                if name.endswith(("author_key", "identity_key")):
                    parse_public_key(key)
                else:
                    parse_base64url(key, length)
            except InvalidMessageError as error:
                raise InvalidTaskError(f"{name}: {error.detail}") from None
        if self.num_words > MAX_WORDS:
            raise InvalidTaskError(f"a report of {self.num_words} words exceeds {MAX_WORDS}; use a sketch")
        self.measurement.check(self.max_clients)
        self.mechanism.check_columns(self.columns)
        if self.verified is not None and (self.contributors is not None or self.study is not None):
            raise UnsupportedFeatureError("verification: organisations and studies are not verified so far; use 'none'")
        if self.study is not None:
            if self.batches != "single":
                raise InvalidTaskError("study: pilot and main task are charged once, so each has a single batch")
            self.study.require(self.worst_privacy())
        self._require_mergeable()
        self._require_alone()
        if self.windows is not None and self.worst_together().epsilon == inf:
            raise InvalidTaskError(
                f"what is no noise in delta adds up over {self.reports_per_source} windows to more than delta "
                f"{self.claim.delta}: nothing is promised for all that a source may send"
            )

    def _require_mergeable(self) -> None:
        """Refuse windows that are merged where the claim does not count reports, or noise is not Gaussian."""
        if self.max_merge == 1:
            return
        if self.noise != "servers" and self.claim.max_corrupt_clients % self.max_merge:
            raise InvalidTaskError(
                f"max_corrupt_clients {self.claim.max_corrupt_clients} counts reports: with max_merge {self.max_merge} "
                f"it must be a multiple of {self.max_merge}"
            )
        if self.worst_privacy().mu == inf:
            raise InvalidTaskError("windows are merged only where noise has a Gaussian curve")

    def _require_alone(self) -> None:
        """Refuse noise of clients and servers without a promise alone, such a promise without it, and a false one."""
        if (self.claim.epsilon_alone is None) != (self.noise != "both"):
            raise InvalidTaskError(
                "claim.epsilon_alone: it says what is promised if all others are invented, and belongs to a task with "
                "noise 'both', and to no other"
            )
        promised = None if self.study is None else self.study.epsilon_alone
        if self.noise != "both":
            if promised is not None:
                raise InvalidTaskError(
                    "study.epsilon_alone: it says the same of both tasks together, and belongs to those with noise "
                    "'both', and to no other"
                )
            return
        if "floor" not in self.mechanism.allows or (self.study is not None and promised is None):
            what = self.mechanism.kind if self.study is None else "a study without epsilon_alone"
            raise UnsupportedFeatureError(f"noise 'both': {what} has no bound alone; use 'clients'")
        try:
            if (alone := self.alone_privacy()) is not None:
                alone.require(self.claim.alone)
                if self.study is not None:
                    self.study.require_alone(alone)
        except FalseClaimError as error:
            raise FalseClaimError(f"with all other clients invented: {error.detail}") from None

    def _require_supported(self) -> None:
        if self.client_auth == "mtls":
            raise UnsupportedFeatureError("client_auth 'mtls' is not available; use 'token' or 'none'")
        if self.extensions:
            raise UnsupportedFeatureError(f"unknown extension {self.extensions[0]!r}")
        if self.share_form == "spread" and self.verified is not None:
            raise UnsupportedFeatureError("share_form 'spread' is not available for verified reports; use 'seeded'")
        if self.stream is not None and (self.noise != "servers" or "stream" not in self.mechanism.allows):
            raise UnsupportedFeatureError(
                f"windows.stream: servers remember only noise of their own in sums, not that of {self.mechanism.kind} "
                f"with noise {self.noise!r}; use noise 'servers' with sum, second_moment or histogram"
            )
        if self.noise == "servers":
            self._require_noise_of_servers()

    def _require_noise_of_servers(self) -> None:
        """Refuse a task whose servers cannot add the noise, or that keeps delta for what cannot happen then."""
        if "server noise" not in self.mechanism.allows:
            raise UnsupportedFeatureError(f"noise: servers cannot add that of {self.mechanism.kind}; use 'clients'")
        if self.contributors is not None or self.study is not None:
            raise UnsupportedFeatureError("noise: that of organisations and studies is their own so far; use 'clients'")
        if fraction(self.claim.delta_coalition):
            raise InvalidTaskError("delta_coalition: no coalition of clients weakens the noise of servers; use 0")

    def _require_contributors(self) -> None:
        """Refuse a task of organisations whose counts, coalition or batches do not fit."""
        if self.contributors is None:
            return
        if self.batches != "single" or self.study is not None:
            raise UnsupportedFeatureError("contributors: windows and studies are for tasks of single rows so far")
        if self.contributors.organisations_per_person > self.max_clients:
            raise InvalidTaskError(
                f"organisations_per_person {self.contributors.organisations_per_person} is more than the "
                f"{self.max_clients} organisations that may take part"
            )
        others = self.claim.min_clients - 1
        if self.claim.max_corrupt_clients < others and not self.uses_tokens:
            raise InvalidTaskError(
                f"max_corrupt_clients {self.claim.max_corrupt_clients} is below {others}, all organisations but one: "
                "whoever can send reports can be many of them. Use client_auth 'token', one for each organisation, or "
                f"max_corrupt_clients {others}"
            )

    def _require_tokens(self) -> None:
        """Refuse a task whose token keys or tolerance of missing reports do not fit its admission."""
        if len(self.token_keys) != (self.num_servers if self.uses_tokens else 0):
            raise InvalidTaskError(f"{len(self.token_keys)} token_keys with client_auth {self.client_auth!r}")
        if self.contributors is not None:
            return
        least = min(2 * Fraction(self.claim.max_corrupt_clients, self.claim.min_clients), MOST_MAX_MISSING)
        if self.uses_tokens and fraction(self.max_missing) < least:
            raise InvalidTaskError(
                f"max_missing {self.max_missing} is below {float(least):g}, twice the part of corrupt clients: they "
                "could stop the release"
            )

    @property
    def uses_tokens(self) -> bool:
        """Return whether a report needs a token; without, anybody may send any number of reports."""
        return self.client_auth == "token"

    def _keys(self) -> list[tuple[str, str, int]]:
        return [
            ("salt", self.salt, 32),
            ("author_key", self.author_key, 32),
            ("analyzer.identity_key", self.analyzer.identity_key, 32),
            ("analyzer.sealing_key", self.analyzer.sealing_key, PUBLIC_KEY_BYTES[self.suite]),
            *((f"servers.{index}.identity_key", entry.identity_key, 32) for index, entry in enumerate(self.servers)),
            *((f"token_keys.{index}", key, 32) for index, key in enumerate(self.token_keys)),
            *(() if self.study is None or self.study.pilot is None else [("study.pilot", self.study.pilot, 32)]),
        ]
