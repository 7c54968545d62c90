"""An operator's decision about lost reports: go on without them, or give their batch up.

Reports of an open batch can only be gone from its end: the marks of the rows show where it is cut. Before the loss is
accepted, the number of lost reports is made durable, so that the inventory states it and the release counts them as
missing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Connection

from lintra_protocol.crypto.randomness import RandomBytes
from lintra_protocol.encoding.canonical import JsonValue, base64url, parse_base64url
from lintra_protocol.errors import InvalidMessageError, UnavailableError
from lintra_server.durability.journal import BatchId
from lintra_server.durability.notes import CHAIN_BYTES
from lintra_server.operations.start import begin
from lintra_server.settings import Settings
from lintra_server.storage.batch_states import FINAL_STATES, BatchRow, abandoning, destroy_batch
from lintra_server.storage.chains import raw_rows
from lintra_server.storage.database import SPAN, segments
from lintra_server.storage.history import BatchHistory
from lintra_server.storage.key_folder import KeyFolder
from lintra_server.storage.marks import BEGIN, End, Marks
from lintra_server.storage.server_resources import NotStartedError, ServerResources, open_parts
from lintra_server.storage.transition_log import Stepper


@dataclass(frozen=True)
class Loss:
    """What is gone of an open batch, or what stands behind the reports of a batch of which nothing is gone."""

    batch: BatchId
    place: int  #: its place in the database
    noted: int  #: reports that it held
    chain: bytes = field(repr=False)  #: chain value that was noted with them
    end: End  #: where the rows end that are what was stored
    #: reports up to there that surely were acknowledged: all but those of the last row, unless rows were joined into
    #: it. The last row may be that of a commit that failed, put in the place of those that are gone.
    known: int
    lost: int  #: reports that count as lost: as many as can be gone, and one at least; 0 if all that was noted is there

    @property
    def words(self) -> str:
        """Return what is gone, and what it costs to go on."""
        if not self.lost:
            return (
                f"{self.batch}: its {self.noted} acknowledged reports are there. Rows behind them, which this server "
                "did not write, are deleted. Nothing is lost."
            )
        return (
            f"{self.batch}: up to {self.lost} of {self.noted} acknowledged reports are lost. It goes on with "
            f"{self.end.total}. Its inventory and the certificate will say how many are lost. They count as missing, "
            "so the batch can be released only if max_missing allows it. A lost report that is sent again is stored."
        )


@dataclass(frozen=True)
class Begun:
    """A server that compared its folders and finished what was begun, as at a start, and takes no request."""

    parts: ServerResources
    stepper: Stepper

    def loss(self, batch: BatchId) -> Loss:
        """Return what is gone of an open batch, or what stands behind the reports of any batch.

        Raises NotStartedError if nothing is wrong, or it is not open and reports are gone, or its note is gone.
        """
        history = self._known(batch)
        give_up = f"`lintra server abandon {batch.words}` gives it up"
        signed = f"{batch} is {history.state}: its inventory is signed, and says that every report is there; {give_up}"
        if history.is_final:
            raise NotStartedError(signed)
        note = self.parts.notes.get(batch.name)
        if note is None:
            raise NotStartedError(f"the note of {batch} is gone, so nobody knows how many reports it held; {give_up}")
        if _is_whole(self.parts, history.place):
            raise NotStartedError(f"nothing of {batch} is missing")
        with self.parts.database.reading() as connection:
            end, known = _prefix(connection, history.place, self.parts.store.chains.marks(history.place))
        if (end.total, end.chain) == (note.total, note.chain):
            return Loss(batch, history.place, note.total, note.chain, end, known, 0)
        if history.state != "open":
            raise NotStartedError(signed)
        return Loss(batch, history.place, note.total, note.chain, end, known, max(1, note.total - known))

    def accept(self, loss: Loss) -> None:
        """Write down that reports are lost, durably, and go on behind those that are there.

        Raises NotStartedError if more is wrong with the batch than its missing end.
        """
        parts = self.parts
        # In this order: after a crash before the note the batch is still cut, and the loss is accepted once more. Its
        # line names the note that it replaces, so it is not written again. After the note what is left is only deleted.
        if loss.lost:
            facts: dict[str, JsonValue] = {
                "from": loss.known + 1,
                "to": loss.known + loss.lost,
                "chain": base64url(loss.end.chain),
                "noted": base64url(loss.chain),
            }
            written = [line.facts for line in parts.journal.lines if line.state == "lost" and line.of == loss.batch]
            if facts not in written:
                parts.history.record("lost", loss.batch, facts)
            parts.notes.put(loss.batch.name, loss.end.total, loss.end.chain)
            parts.notes.sync()
        first, last = loss.place * SPAN + loss.end.number + 1, loss.place * SPAN + SPAN - 1
        with parts.database.writing() as connection:
            connection.execute(segments.delete().where(segments.c.key.between(first, last)))
        parts.store.chains.forget(loss.place)
        if not _is_whole(parts, loss.place):
            raise NotStartedError(f"{loss.batch} is still damaged: `lintra server abandon {loss.batch.words}`")

    def given_up(self, batch: BatchId) -> BatchRow:
        """Return the batch that is given up with another one, which may have been merged into it.

        Raises NotStartedError if it was released, or given up before.
        """
        self._known(batch)
        rows = {BatchId(row.task_id, row.number): row for row in self.parts.states.rows()}
        row = rows[batch].fate
        if row.state in FINAL_STATES:
            raise NotStartedError(f"{batch} is {row.state}, and that is final")
        return row

    def abandon(self, row: BatchRow) -> None:
        """Give a batch up for good: destroy its keys and its shares, and those of what was merged into it.

        Raises NotStartedError if another process changed the batch meanwhile.
        """
        parts = self.parts
        if not self.stepper.perform(abandoning(self.stepper.start, row)):
            raise NotStartedError("another process changed the batch")
        for each in parts.states.rows():
            if each.fate.batch == row.batch:
                destroy_batch(parts.store, parts.states, each)
        parts.database.forget_log()

    def _known(self, batch: BatchId) -> BatchHistory:
        place = self.parts.history.place(batch)
        if place is None:
            raise NotStartedError(f"{batch} was never opened here; `lintra server doctor` names those that are damaged")
        return self.parts.history.batches[place]


@contextmanager
def begun(settings: Settings, random_bytes: RandomBytes, folder: KeyFolder) -> Iterator[Begun]:
    """Open a server that is stopped, compare its folders, and finish what was begun."""
    parts = open_parts(settings, random_bytes, folder)
    try:
        yield Begun(parts, begin(parts, _refuse))
    finally:
        parts.close_but_folder()


def batch_named(task: str, number: int) -> BatchId:
    """Return the batch that a command names; raise NotStartedError if it is no identifier of a task."""
    try:
        return BatchId(parse_base64url(task, 32), number)
    except InvalidMessageError:
        raise NotStartedError(f"{task!r} is not the identifier of a task, which has 43 characters") from None


def abandoned_in_words(row: BatchRow) -> str:
    """Return what it costs to give a batch up."""
    merged = "" if row.first is None else f" with windows {row.first} to {row.number}"
    return (
        f"{BatchId(row.task_id, row.number)} ({row.state}{merged}) is given up for good: its keys are destroyed, its "
        "reports are in no release, and no other server can release it either."
    )


def _prefix(connection: Connection, place: int, marks: Marks) -> tuple[End, int]:
    """Return where the longest run of rows ends that are what was stored, and how many reports surely belong to it."""
    at, known = BEGIN, 0
    for row in raw_rows(connection, place):
        if not marks.follows(at, row):
            break
        # Who joins rows checks where they end, so that a joined one never holds a commit that failed.
        known = at.total if len(row.mark) == CHAIN_BYTES else row.total
        at = End(row.number, row.total, row.mark)
    return at, known


def _is_whole(parts: ServerResources, place: int) -> bool:
    try:
        parts.store.chains.end(place)
        parts.store.held(place)
    except UnavailableError:
        return False
    return True


def _refuse(reason: str) -> None:
    raise NotStartedError(f"{reason}: `lintra server doctor`")
