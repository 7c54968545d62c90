"""From rows to sealed blocks: encode, share and commit once; seal for each server, and again what has to go again.

Nothing here shows a row or a share in its `repr`.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lintra_client.ledger.entries import Source
from lintra_client.task_check import ServerKey
from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.crypto.tokens import Token
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.errors import TaskEndedError, TaskNotStartedError, TokenInvalidError
from lintra_protocol.messages.documents import BATCH
from lintra_protocol.report.report import Report, make_reports, seal_block
from lintra_protocol.report.upload import SealedBlock, block_capacity
from lintra_protocol.task import Task

_SEALS_AT_ONCE = 16
"""About a millisecond of work, after which other tasks of the event loop get their turn."""


@dataclass(frozen=True)
class Parcel:
    """Reports that travel together, and their sealed forms as far as they were made; `repr` shows the count only.

    Sending a parcel again sends the same reports, so a server that stored them already has nothing to do.

    Attributes:
        reports: 1 to `block_size`.
        clipped: for each, whether its row was moved inside the column bounds or the norm bound.
        incomplete: for each, whether a value of its row was missing, or outside the task's columns.
        sources: for each, whose facts it states, which the ledger charges.
        tokens: for each, its token, in a task that has tokens.
        apart: whether each has a block of its own, which can be kept, and sent again, without the others.
        batch: which of the task's batches their time belongs to.
    """

    reports: tuple[Report, ...] = field(repr=False)
    clipped: tuple[bool, ...] = field(repr=False)
    incomplete: tuple[bool, ...] = field(repr=False)
    _sealed: dict[int, dict[tuple[bytes, ...], SealedBlock]] = field(default_factory=dict, repr=False)
    sources: tuple[Source, ...] = field(default=(), repr=False)
    tokens: tuple[Token, ...] = field(default=(), repr=False)
    apart: bool = False
    batch: int = BATCH

    def __repr__(self) -> str:
        return f"Parcel({len(self.reports)} reports)"

    @property
    def report_ids(self) -> list[bytes]:
        """Return the identifiers in order."""
        return [report.report_id for report in self.reports]

    def single(self, position: int) -> "Parcel":
        """Return the parcel of one report only."""
        return self.part([position])

    def part(self, positions: Sequence[int]) -> "Parcel":
        """Return the parcel of some of the reports, with the blocks that were sealed of these alone."""
        reports = tuple(self.reports[position] for position in positions)
        kept = {report.report_id for report in reports}
        sealed = {
            server: {held: block for held, block in blocks.items() if kept.issuperset(held)}
            for server, blocks in self._sealed.items()
        }
        clipped = tuple(self.clipped[position] for position in positions)
        incomplete = tuple(self.incomplete[position] for position in positions)
        sources = tuple(self.sources[position] for position in positions) if self.sources else ()
        tokens = tuple(self.tokens[position] for position in positions) if self.tokens else ()
        return Parcel(reports, clipped, incomplete, sealed, sources, tokens, self.apart, self.batch)

    async def sealed(
        self, task: Task, server: int, key: ServerKey, wanted: Collection[bytes] | None = None
    ) -> list[SealedBlock]:
        """Return blocks for one server that hold some of the reports: as they were sealed before, or sealed now.

        Args:
            task: of the reports.
            server: its index in the task.
            key: what is sealed now is sealed to this; a block that was sealed to another is not used again.
            wanted: their identifiers; all reports, if not given.
        """
        lacking = set(self.report_ids if wanted is None else wanted)
        before = self._sealed.setdefault(server, {})
        blocks = []
        for held in sorted(before, key=len, reverse=True):
            if before[held].key_id == key.key_id and lacking.issuperset(held):
                blocks.append(before[held])
                lacking.difference_update(held)
        places = [place for place, known in enumerate(self.report_ids) if known in lacking]
        step = 1 if self.apart else block_capacity(task, server)
        for number, start in enumerate(range(0, len(places), step)):
            if number % _SEALS_AT_ONCE == _SEALS_AT_ONCE - 1:
                await asyncio.sleep(0)
            block = self._seal(task, server, key, places[start : start + step])
            before[block.report_ids] = block
            blocks.append(block)
        return blocks

    def sealed_before(self, server: int, report_id: bytes) -> SealedBlock:
        """Return the block of its own in which a report was last sealed to one server."""
        return self._sealed[server][report_id,]

    def _seal(self, task: Task, server: int, key: ServerKey, places: Sequence[int]) -> SealedBlock:
        reports = [self.reports[place] for place in places]
        passes = [self.tokens[place].pass_for(server) for place in places] if self.tokens else ()
        return seal_block(task, server, key.key_id, key.public_key, reports, passes)


def block_size(task: Task) -> int:
    """Return how many reports of a task travel together at most."""
    return min(block_capacity(task, server) for server in range(task.num_servers))


def report_time(task: Task, now: float) -> int:
    """Return the time that goes into a report, in the task's units, from seconds since the epoch.

    Raises TaskNotStartedError if the task's window lies ahead; TaskEndedError if the task's window is over.
    """
    time = int(now) // task.time_precision
    if time < task.not_before:
        raise TaskNotStartedError(
            f"the task takes reports in about {(task.not_before - time) * task.time_precision} s: send then"
        )
    if time >= task.not_after:
        raise TaskEndedError(
            f"the task ended about {(time - task.not_after) * task.time_precision} s ago and takes no more reports"
        )
    return time


def were_clipped(
    task: Task, normalised: FloatArray, outside: NDArray[np.bool_], missing: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Say for each of some rows whether a bound of a column or of the norm moves it, shape `(n,)`.

    A row that is left out since a value is missing is not moved. `normalised` is the rows as `Schema.normalise` returns
    them. `outside` says for each whether a bound of a column moves it, shape `(n,)`. `missing` says for each whether a
    value is missing, shape `(n,)`.
    """
    clipped: NDArray[np.bool_] = outside | task.measurement.is_clipped(normalised)
    return clipped & ~missing if task.measurement.leaves_out else clipped


def encode_together(task: Task, rows: FloatArray, time: int, random_bytes: RandomBytes) -> Parcel:
    """Turn checked rows of shape `(n, d)` into a parcel, all from one source of randomness; the fast way."""
    schema = task.schema_arrays
    normalised, outside = schema.normalise(rows), schema.outside(rows)
    noised = task.encode_normalised(normalised, outside, random_bytes)
    reports = tuple(make_reports(task, noised, time, random_bytes))
    missing: NDArray[np.bool_] = np.logical_or.reduce(np.isnan(rows), axis=1)
    clipped = were_clipped(task, normalised, outside, missing)
    return Parcel(reports, tuple(clipped.tolist()), tuple(missing.tolist()), batch=task.batch_of(time))


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
        batch=task.batch_of(time),
    )


def spelled(report_id: bytes) -> str:
    """Return a report identifier as it stands in messages and receipts."""
    return base64url(report_id)


def tokens_of(task: Task, texts: Sequence[str | None]) -> tuple[Token, ...]:
    """Read the tokens of some reports.

    Raises TokenInvalidError if the task asks for tokens, and there is none; nothing has left.
    """
    if not task.uses_tokens:
        return ()
    if None in texts:
        raise TokenInvalidError("the task asks for a token, and this client has none")
    return tuple(Token.parse(text or "", task.num_servers) for text in texts)
