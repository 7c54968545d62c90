"""Names what somebody edited in a server's database and the server does not use: addresses, and rows of nobody.

Where a task or a batch lies says the journal. So such an edit changes nothing; but somebody made it, and whoever reads
the tables is misled.
"""

from collections.abc import Iterator, Mapping

from sqlalchemy import Column, Connection, Table, func, select

from lintra_server.storage.database import SPAN, batches, looks, segments, tasks
from lintra_server.storage.history import BatchHistory, History
from lintra_server.storage.schema import MOST_SMALL_BYTES, as_read, bounded
from lintra_service.findings import HealthFinding

_COST = "nothing: the server does not use it; but somebody can write to the database, so find out who"

_TYPED = "stop the server, and in sqlite3 or psql:"

_MOST_SAID = 20


def edited_addresses(connection: Connection, history: History) -> Iterator[HealthFinding]:
    """Yield a finding for each row whose addresses are not those of the journal, and for rows that it does not know."""
    prefix = "x'" if connection.dialect.name == "sqlite" else "'\\x"  # of bytes, as they are typed
    own = {task.place: task_id for task_id, task in history.tasks.items()}
    identifiers = select(tasks.c.task, bounded(tasks.c.task_id, MOST_SMALL_BYTES))
    for place, found in connection.execute(identifiers).all():
        if place in own and found != own[place]:
            yield _wrong(tasks, tasks.c.task, place, {"task_id": own[place]}, prefix)
    names = ("batch", "task", "number", "num_reports", "state")
    for place, *found in connection.execute(as_read(batches, *names)).all():
        if (batch := history.batches.get(place)) is not None:
            expected = _expected(history, batch)
            wrong = {name: expected[name] for name, value in zip(names[1:], found, strict=True) if name in expected
                     and value != expected[name]}  # fmt: skip
            if wrong and not (found[-1] == "released" and wrong == {"state": "scrubbed"}):  # it is scrubbed just now
                yield _wrong(batches, batches.c.batch, place, wrong)
    places = history.batches.keys()
    for column, known in ((tasks.c.task, own.keys()), (batches.c.batch, places), (looks.c.batch, places)):
        keys = set(connection.execute(select(column)).scalars()) - known
        listed = ", ".join(map(str, sorted(keys)[:_MOST_SAID]))
        yield from _of_nobody(column.table, f"{column.name} IN ({listed})", len(keys))
    for first, last in _spans_of_nobody(connection, history.batches):
        count = connection.execute(select(func.count()).where(segments.c.key.between(first, last))).scalar_one()
        yield from _of_nobody(segments, f"key BETWEEN {first} AND {last}", count)


def _expected(history: History, batch: BatchHistory) -> dict[str, object]:
    """Return what columns of a batch hold that nothing else compares; of an open one the state is told elsewhere."""
    known: dict[str, object] = {"task": history.tasks[batch.batch.task_id].place, "number": batch.batch.number}
    if batch.task is not None and not batch.task.is_cut:
        known["num_reports"] = 0
    return known if batch.line is None else known | {"state": batch.state}


def _spans_of_nobody(connection: Connection, known: Mapping[int, BatchHistory]) -> Iterator[tuple[int, int]]:
    """Yield the spans of keys that lie between those of known batches and in which there are rows."""
    first = -(1 << 63)
    for place in [*sorted(known), 1 << 31]:
        last = place * SPAN - 1
        there = select(segments.c.key).where(segments.c.key >= first, segments.c.key <= last).limit(1)
        if first <= last and connection.execute(there).first() is not None:
            yield first, last
        first = last + SPAN + 1


def _wrong(
    table: Table, column: "Column[int]", place: int, values: Mapping[str, object], prefix: str = ""
) -> HealthFinding:
    wanted = ", ".join(f"{name} = {_literal(value, prefix)}" for name, value in values.items())
    names = " or ".join(values)
    return HealthFinding(
        "advice",
        f"table {table.name}, row {place}, column {names} was edited: the journal says {wanted}",
        " ".join((_TYPED, "UPDATE", table.name, "SET", wanted, "WHERE", column.name, "=", str(place))),
        _COST,
    )


def _literal(value: object, prefix: str) -> str:
    if isinstance(value, bytes):
        return f"{prefix}{value.hex()}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


def _of_nobody(table: Table, where: str, count: int) -> Iterator[HealthFinding]:
    if count:
        yield HealthFinding(
            "advice", f"table {table.name} has {count} rows that the journal does not know",
            " ".join((_TYPED, "DELETE FROM", table.name, "WHERE", where)), _COST,
        )  # fmt: skip
