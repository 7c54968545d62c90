"""The commands of `lintra` that concern a task and belong to no role."""

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from lintra_protocol.crypto.sealing import CLASSICAL
from lintra_protocol.errors import InvalidTaskError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms.collusion import epsilons_if_colluding, in_words
from lintra_protocol.privacy.statement import PrivacyStatement
from lintra_protocol.task import Task
from lintra_protocol.trust import trust_in_words

task = typer.Typer(no_args_is_help=True, help="Read and check task definitions.")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
TaskFile = Annotated[str, typer.Argument(metavar="FILE", help="A canonical task definition; '-' reads standard input.")]


@task.command()
def show(file: TaskFile, as_json: AsJson = False) -> None:
    """Explain a task: its parties, its columns, and its privacy, computed anew from its parameters."""
    definition = read_task(file)
    if as_json:
        definition.check()
        typer.echo(
            json.dumps({"task_id": definition.task_id, "lines": [printable(one) for one in describe(definition)]})
        )
        return
    for line in describe(definition):
        typer.echo(printable(line))
    definition.check()
    typer.echo("The promise holds: it was recomputed from the parameters above.")


@task.command()
def verify(
    file: TaskFile,
    task_id: Annotated[str, typer.Option("--id", metavar="ID", help="The identifier that the task must have.")],
    as_json: AsJson = False,
) -> None:
    """Check that a definition is the task with this identifier, and that its promise holds."""
    definition = read_task(file)
    if definition.task_id != task_id:
        raise InvalidTaskError(f"the definition's identifier is {definition.task_id}, not {task_id}")
    definition.check()
    if as_json:
        typer.echo(json.dumps({"task_id": task_id, "holds": True}))
        return
    typer.echo(f"{task_id}: the definition has this identifier, and its promise holds.")


def read_task(file: str) -> Task:
    """Read a canonical definition from a file, or from standard input for "-"; one final newline is not counted.

    Raises InvalidTaskError if the file cannot be read.
    """
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InvalidTaskError(f"{file}: {error.strerror}") from None
    return Task.from_canonical(data.removesuffix(b"\n"))


def printable(line: str) -> str:
    """Escape what could steer a terminal: a definition is a stranger's text."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)


def describe(definition: Task) -> Iterable[str]:
    """Yield the lines that explain a task to a person."""
    claim, mechanism = definition.claim, definition.mechanism
    yield f"Task {definition.task_id}"
    yield f"  {definition.purpose}"
    yield f"  open from {_moment(definition, definition.not_before)} until {_moment(definition, definition.not_after)}"
    yield from _windows(definition)
    yield "Servers, all of which must agree before anything is released:"
    yield from (f"  {index}  {entry.url}  {entry.identity_key}" for index, entry in enumerate(definition.servers))
    yield f"Columns ({definition.num_columns}); a value x enters as (x - center) / scale:"
    yield from (_described(column) for column in definition.columns)
    who = _senders(definition)
    adds = {"servers": "server", "both": f"{who[:-1]} and every server"}.get(definition.noise, who[:-1])
    yield f"Mechanism {mechanism.kind}: {definition.measurement.clipping_rule()}, then every {adds} adds noise"
    yield f"  sigma {mechanism.sigma} in steps of 2^-{mechanism.sigma_bits}; {definition.num_words} words a report"
    yield f"Promised: epsilon {claim.epsilon} at delta {claim.delta}, neighbours {claim.neighbours},"
    if definition.contributors is not None:
        yield f"  to {definition.contributors.persons}; the number of rows is {_counted(definition.contributors)}"
    corrupt = f"{claim.max_corrupt_clients} of them corrupt ({claim.threat})"
    if definition.noise == "servers":
        corrupt = "any number of others corrupt; if all servers collude they see rows without noise"
    yield f"  from {claim.min_clients} {who} on, {corrupt}"
    organisations = None if definition.contributors is None else claim.min_clients
    colluding = epsilons_if_colluding(definition.measurement, definition.claim, definition.shares_seen)
    yield f"  {in_words(colluding, organisations)}"
    yield from (f"  {sentence}" for sentence in trust_in_words(definition))
    for clients in sorted({claim.min_clients, definition.max_clients}):
        statement = definition.privacy(clients)
        yield _recomputed(statement, who)
        if remark := mechanism.remark(statement):
            yield f"  {remark}"
    if definition.windows is not None:
        together = definition.worst_together()
        yield f"All that one source may send, {definition.reports_per_source} windows together: {_bound(together)}"
    if definition.suite == CLASSICAL:
        yield "Warning: the suite x25519 does not protect recorded traffic from a future quantum computer."


def _windows(definition: Task) -> Iterable[str]:
    windows = definition.windows
    if windows is None:
        return
    seconds = definition.time_precision
    yield f"  in {windows.max_windows} windows of {windows.window * seconds} s, each released by itself"
    yield f"  a window is closed {windows.grace * seconds} s after its end; one source answers in at most "
    yield f"  {windows.reports_per_source} of them, once in each"
    if windows.max_merge > 1:
        yield f"  up to {windows.max_merge} in a row are released together where the first ones have too few reports;"
        yield f"  corrupt clients are counted in reports, {windows.max_merge} of each"


def _described(column: Column) -> str:
    if column.kind == "category":
        return f"  {column.name}  one of {', '.join(column.levels)}"
    kind = "" if column.kind == "real" else f"  {column.kind}"
    bounds = f"[{column.lower}, {column.upper}] {column.unit}"
    return f"  {column.name}  {bounds}  center {column.center}  scale {column.scale}{kind}"


def _senders(definition: Task) -> str:
    return "clients" if definition.contributors is None else "organisations"


def _counted(contributors: Contributors) -> str:
    return "released as it is" if contributors.count == "exact" else "released with noise"


def _recomputed(statement: PrivacyStatement, who: str) -> str:
    behind = statement.behind.replace("clients", who)
    return (
        f"Recomputed for {statement.num_clients} {who}: epsilon {statement.epsilon:.6g} at delta {statement.delta:g} "
        f"(mu {statement.mu:.6g}, {behind} behind every released number)"
    )


def _bound(statement: PrivacyStatement) -> str:
    return f"epsilon {statement.epsilon:.6g} at delta {statement.delta:g} (mu {statement.mu:.6g})"


def _moment(definition: Task, time: int) -> str:
    try:
        return datetime.fromtimestamp(time * definition.time_precision, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return f"{time} units of {definition.time_precision} s"
