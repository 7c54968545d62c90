"""`lintra client contribute`: look at what an organisation would send, and send it after a yes."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lintra_client.commands.ledger import AsJson, Ceiling, LedgerDelta, LedgerPath
from lintra_client.commands.mapping import As, MappingFile, Missing, OnlyColumns, Other, Rename, SamePersons, mapping_of
from lintra_client.commands.rehearse import refuse_cell_of
from lintra_client.commands.terminal import refusals, servers_of
from lintra_client.ledger.ledger import DELTA, MAX_EPSILON, Ledger, default_path
from lintra_client.organisations.contribution import Account, Contribution
from lintra_client.organisations.mapping import FileMapping
from lintra_client.organisations.sent_table import TableFile, read_table
from lintra_client.sending.sending import SendReceipt
from lintra_client.task_check import MAX_RETENTION, ClientPolicy
from lintra_client.upload.client import Client
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.fields.schema import OTHER
from lintra_protocol.mechanisms.collusion import in_words
from lintra_protocol.task import Task

File = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="All rows: a CSV or Parquet file.")
]
TaskId = Annotated[str, typer.Argument(metavar="TASK_ID", help="The identifier from whoever asks for the data.")]
ServerUrls = Annotated[
    list[str],
    typer.Option(
        "--server",
        metavar="URL",
        help="A server of the task, given once for each; URL=ADDRESS if it is reached elsewhere.",
    ),
]
Person = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The column that says whose row it is; it is not sent. Without it you vouch that nobody appears twice.",
    ),
]
Keep = Annotated[int | None, typer.Option(help="Keep this many rows of each person, the first in the file.")]
LeaveOut = Annotated[bool, typer.Option("--leave-out", help="Leave out the rows of persons who have no privacy left.")]
Yes = Annotated[bool, typer.Option("--yes", help="Send without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")]
OneToken = Annotated[str | None, typer.Option("--token", metavar="TEXT", help="This organisation's token.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse a file with a missing value.")]
NoLedger = Annotated[bool, typer.Option("--no-ledger", help="Keep no ledger: another program counts what is sent.")]
MaxEpsilon = Annotated[float | None, typer.Option(help="Refuse a task that promises less privacy than this.")]
TrustEnrolment = Annotated[
    bool,
    typer.Option(
        "--trust-enrolment",
        help="You trust whoever enrols the clients, so a task without a bound for invented clients is accepted.",
    ),
]
RequireVerified = Annotated[
    bool, typer.Option("--require-verified", help="Refuse a task whose reports carry no proof of their length.")
]
MaxEpsilonAlone = Annotated[
    float | None,
    typer.Option(help="Refuse a larger epsilon than this if all others are invented; by default 3 x --max-epsilon."),
]
MaxRetention = Annotated[
    int,
    typer.Option(
        metavar="SECONDS",
        help="Refuse a task that keeps shares for more seconds after its release; by default 30 days.",
    ),
]
MaxRetentionOfRows = Annotated[
    int,
    typer.Option(
        metavar="SECONDS",
        help="The same, in seconds, where only servers add noise and all shares together are the row; by default 0.",
    ),
]


def contribute(
    file: File,
    task_id: TaskId,
    server: ServerUrls,
    person: Person = None,
    keep: Keep = None,
    leave_out: LeaveOut = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    token: OneToken = None,
    max_epsilon: MaxEpsilon = None,
    max_epsilon_alone: MaxEpsilonAlone = None,
    trust_enrolment: TrustEnrolment = False,
    max_retention: MaxRetention = MAX_RETENTION,
    max_retention_of_rows: MaxRetentionOfRows = 0,
    ledger: LedgerPath = None,
    no_ledger: NoLedger = False,
    ceiling: Ceiling = MAX_EPSILON,
    ledger_delta: LedgerDelta = DELTA,
    strict: Strict = False,
    mapping: MappingFile = None,
    rename: Rename = None,
    columns: OnlyColumns = False,
    as_: As = None,
    missing: Missing = None,
    other: Other = None,
    same_persons: SamePersons = False,
    as_json: AsJson = False,
) -> None:
    """Send all rows of an organisation as one report, after showing what is in it.

    The servers see a random share, and the release only a sum with noise. Every person in the file is charged in this
    machine's ledger. `rehearse` shows before what becomes of the file. With --json nothing is asked: give --yes to
    send, or --dry-run.
    """
    if as_json and not (yes or dry_run):
        typer.echo("--json asks nothing: give --yes to send, or --dry-run", err=True)
        raise typer.Exit(1)
    with refusals():
        if no_ledger and ledger is not None:
            raise ValueError("give --ledger or --no-ledger, not both")
        answers = mapping_of(mapping, rename, columns, as_, missing, other, same_persons)
        table = read_table(file)
        if table.note:
            typer.echo(table.note, err=True)
        path = ledger or default_path()
        with nullcontext() if no_ledger else Ledger(path, max_epsilon=ceiling, delta=ledger_delta) as opened:
            policy = ClientPolicy(
                max_epsilon=max_epsilon,
                max_epsilon_alone=max_epsilon_alone,
                trust_enrolment=trust_enrolment,
                max_retention=max_retention,
                max_retention_of_rows=max_retention_of_rows,
            )
            client = Client(task_id, servers_of(server), policy=policy, ledger=opened, token=token, strict=strict)
            work = _contribute(
                client, table, person, keep, leave_out, answers, yes=yes, dry_run=dry_run, as_json=as_json
            )
            asyncio.run(work)


async def _contribute(
    client: Client,
    table: TableFile,
    person: str | None,
    keep: int | None,
    leave_out: bool,
    mapping: FileMapping,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    async with client:
        if not dry_run and (begun := await client.finish_contribution()) is not None:
            _tell(None, begun, as_json=as_json)
            return
        try:
            made = client.contribution(table, person=person, keep=keep, leave_out=leave_out, mapping=mapping)
        except InvalidRowError as error:
            refuse_cell_of(error, client.task, table, mapping, person)
            raise
        if not as_json:
            for line in lines_of(made.account, client.task):
                typer.echo(line)
        if dry_run:
            _tell(made, None, as_json=as_json)
            return
        if not yes and not typer.confirm("Send this as one report?", default=False):
            typer.echo("nothing was sent")
            raise typer.Exit(1)
        _tell(made, await client.send_contribution(made), as_json=as_json)


def _tell(made: Contribution | None, receipt: SendReceipt | None, *, as_json: bool) -> None:
    if as_json:
        sent = None if receipt is None else {"report_id": receipt.report_id, "repeated": receipt.repeated}
        typer.echo(
            json.dumps({"account": None if made is None else asdict(made.account), "sent": sent}, ensure_ascii=False)
        )
    elif receipt is None:
        typer.echo("nothing was sent")
    else:
        again = (
            "was begun before and is complete now: report" if receipt.repeated else "is stored at every server: report"
        )
        typer.echo(f"the contribution {again} {receipt.report_id}")


def lines_of(account: Account, task: Task) -> Iterator[str]:
    """Yield what an organisation should know before it agrees."""
    yield f"{account.rows:,} rows of {account.persons:,} persons; one person has {account.most_rows} at most"
    if account.joined:
        yield f"{account.joined:,} spellings of names were joined with others: they name the same persons"
    if account.dropped_rows:
        yield f"{account.dropped_rows:,} rows beyond those that are kept of each person are not sent"
    if account.left_out:
        yield f"{account.left_out:,} persons have no privacy left and are left out"
    for name in account.moved:
        changed = [f"{account.moved[name]:,} values beyond a bound are moved to it"] * (account.moved[name] > 0)
        changed += [f"{account.missing[name]:,} are missing"] * (account.missing[name] > 0)
        if others := account.others.get(name):
            changed.append(f"{others:,} count as {OTHER}")
        if changed:
            yield f"  {name}: {', '.join(changed)}"
    if account.left_out_rows:
        yield f"{account.left_out_rows:,} rows in which a value is missing are not counted"
    if account.shrunk:
        to = f", the longest to {account.shrunk_to:.3g} of its length" if account.shrunk_to else ""
        yield f"{account.shrunk:,} {'persons' if account.shrunk_to else 'rows'} are shrunk{to}"
    if account.count == "exact":
        yield "the number of rows of all organisations is released as it is; if all others collude, they know yours"
    else:
        yield "the number of rows is released with noise"
    yield f"promised: {account.promise}"
    most = 1 if task.contributors is None else task.contributors.organisations_per_person
    yield f"who has rows in more than {most} organisation{'s' * (most > 1)} has less privacy"
    yield f"if other organisations collude: {in_words(account.colluding, task.claim.min_clients)}"
    yield f"this report's own noise is {account.noise:.2g} of its sums in the median"
    yield "persons are protected; your organisation's own figures are not"
