"""From rows to sealed reports: encode, share and commit once; seal once for each server.

Nothing here shows a row or a share in its `repr`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lintra_client.check import ServerKey
from lintra_client.ledger_book import Source
from lintra_protocol.canonical import base64url
from lintra_protocol.errors import TaskEndedError, TaskNotStartedError
from lintra_protocol.randomness import RandomBytes
from lintra_protocol.report import Report, make_report
from lintra_protocol.ring import FloatArray
from lintra_protocol.task import Task
from lintra_protocol.tokens import Token
from lintra_protocol.wire import MAX_REPORTS, SealedReport, message_bytes

MAX_UPLOAD_BYTES = 4 << 20
"""A block has fewer than `MAX_REPORTS` reports where its upload to one server would be longer than this."""

_SEALS_AT_ONCE = 16
"""About a millisecond of work, after which other tasks of the event loop get their turn."""


@dataclass(frozen=True)
class Parcel:
    """Reports that travel together, and their sealed forms as far as they were made; `repr` shows the count only.

    Sending a parcel again sends the same bytes, so a server that stored it already has nothing to do.

    Attributes:
        reports: 1 to `MAX_REPORTS`.
        clipped: for each, whether its row was moved inside the column bounds or the norm bound.
        incomplete: for each, whether a value of its row was missing, or outside the task's columns.
        sources: for each, whose facts it states, which the ledger charges.
        tokens: for each, its token, in a task that has tokens.
    """

    reports: tuple[Report, ...] = field(repr=False)
    clipped: tuple[bool, ...] = field(repr=False)
    incomplete: tuple[bool, ...] = field(repr=False)
    _sealed: dict[int, dict[bytes, SealedReport]] = field(default_factory=dict, repr=False)
    sources: tuple[Source, ...] = field(default=(), repr=False)
    tokens: tuple[Token, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        return f"Parcel({len(self.reports)} reports)"

    @property
    def report_ids(self) -> list[bytes]:
        """Return the identifiers in order."""
        return [report.report_id for report in self.reports]

    def single(self, position: int) -> "Parcel":
        """Return the parcel of one report only, with the same sealed bytes."""
        return self.part([position])

    def part(self, positions: Sequence[int]) -> "Parcel":
        """Return the parcel of some of the reports, with the same sealed bytes."""
        reports = tuple(self.reports[position] for position in positions)
        sealed = {
            server: {report.report_id: forms[report.report_id] for report in reports}
            for server, forms in self._sealed.items()
        }
        clipped = tuple(self.clipped[position] for position in positions)
        incomplete = tuple(self.incomplete[position] for position in positions)
        sources = tuple(self.sources[position] for position in positions) if self.sources else ()
        tokens = tuple(self.tokens[position] for position in positions) if self.tokens else ()
        return Parcel(reports, clipped, incomplete, sealed, sources, tokens)

    async def sealed(self, task: Task, server: int, key: ServerKey) -> list[SealedReport]:
        """Return the reports sealed to one server: sealed with `key` the first time, the same bytes ever after."""
        if server not in self._sealed:
            await self.seal(task, server, key, self.reports)
        return list(self._sealed[server].values())

    def sealed_before(self, server: int) -> list[SealedReport]:
        """Return what was last sealed to one server."""
        return list(self._sealed[server].values())

    async def seal(self, task: Task, server: int, key: ServerKey, reports: Sequence[Report]) -> list[SealedReport]:
        """Seal some of the reports to one server's key, in place of what was sealed for it before."""
        sealed = []
        tokens = zip(self.reports, self.tokens, strict=True) if self.tokens else ()
        passes = {report.report_id: token.pass_for(server) for report, token in tokens}
        for position, report in enumerate(reports):
            if position % _SEALS_AT_ONCE == _SEALS_AT_ONCE - 1:
                await asyncio.sleep(0)
            made = report.sealed_to(server, task.suite, key.key_id, key.public_key, task.id_bytes)
            sealed.append(replace(made, admission=passes[report.report_id]) if passes else made)
        forms = zip((report.report_id for report in reports), sealed, strict=True)
        self._sealed.setdefault(server, {}).update(forms)
        return sealed


def block_size(task: Task) -> int:
    """Return how many reports of a task travel together at most."""
    largest = max(message_bytes(task, server) for server in range(task.num_servers))
    return max(1, min(MAX_REPORTS, MAX_UPLOAD_BYTES // largest))


def report_time(task: Task, now: float) -> int:
    """Return the time that goes into a report, in the task's units, from seconds since the epoch.

    Raises:
        TaskNotStartedError: the task's window lies ahead.
        TaskEndedError: the task's window is over.
    """
    time = int(now) // task.time_precision
    if time < task.not_before:
        raise TaskNotStartedError(f"it starts in about {(task.not_before - time) * task.time_precision} s")
    if time >= task.not_after:
        raise TaskEndedError(f"it ended about {(time - task.not_after) * task.time_precision} s ago")
    return time


def were_clipped(task: Task, rows: FloatArray) -> NDArray[np.bool_]:
    """Say for each of the checked rows, shape `(n, d)`, whether a bound of a column or of the norm moves it.

    A row that is left out since a value is missing is not moved.
    """
    schema = task.schema_arrays
    clipped: NDArray[np.bool_] = schema.outside(rows) | task.mechanism.shrinks(schema.normalise(rows))
    return clipped & ~(task.mechanism.leaves_out & np.isnan(rows).any(axis=1))


def encode_together(task: Task, rows: FloatArray, time: int, random_bytes: RandomBytes) -> Parcel:
    """Turn checked rows of shape `(n, d)` into a parcel, all from one source of randomness; the fast way."""
    noised = task.encode(rows, random_bytes)
    reports = tuple(make_report(task, row, time, random_bytes) for row in noised)
    missing = np.logical_or.reduce(np.isnan(rows), axis=1)
    return Parcel(reports, tuple(were_clipped(task, rows).tolist()), tuple(missing.tolist()))


def encode_apart(task: Task, rows: FloatArray, time: int, sources: Sequence[RandomBytes]) -> Parcel:
    """Turn checked rows of shape `(n, d)` into a parcel, each row with its own source of randomness.

    Each report is bit for bit that of `lintra_protocol.ideal.client_report`.
    """
    parcels = [
        encode_together(task, row[np.newaxis], time, random_bytes)
        for row, random_bytes in zip(rows, sources, strict=True)
    ]
    return Parcel(
        tuple(parcel.reports[0] for parcel in parcels),
        tuple(parcel.clipped[0] for parcel in parcels),
        tuple(parcel.incomplete[0] for parcel in parcels),
    )


def spelled(report_id: bytes) -> str:
    """Return a report identifier as it stands in messages and receipts."""
    return base64url(report_id)
