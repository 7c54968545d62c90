"""The client and its ledger: nothing leaves before its charge is on disk, and a refused row never leaves."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx2
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from lintra_client import DISTINCT_SOURCES, BlockingClient, Client, Ledger
from lintra_client.commands import client as cli
from lintra_protocol.errors import (
    BatchClosedError,
    InvalidRowError,
    LedgerRefusedError,
    OutdatedKeyError,
    UnavailableError,
)
from lintra_protocol.report.upload import decode_upload
from support import make_task, sealing_key
from support.fake_servers import IMPATIENT, NOW, Network, problem

ROW = [0.5, -0.25, 0.125]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger(path) as ledger:
        yield ledger


def charging(network: Network, ledger: Ledger | None) -> Client:
    return Client(
        network.task.task_id, network.urls, ledger=ledger, retries=IMPATIENT, now=lambda: NOW, transport=network
    )


def watched(network: Network, path: Path) -> list[int]:
    """Let every server look into the ledger file when an upload arrives; return the sizes of the uploads seen."""
    seen: list[int] = []

    def around(request: httpx2.Request, answer: Callable[[], httpx2.Response], index: int) -> httpx2.Response:
        if request.method == "POST":
            # A second ledger at the same path sees what is committed, and nothing else.
            with Ledger(path) as other, other._file.transaction() as db:
                charged = {known for (known,) in db.execute("SELECT report_id FROM reports")}
            blocks = decode_upload(request.content, network.task, index)
            arrived = {known for block in blocks for known in block.report_ids}
            assert arrived <= charged, "a report left before it was charged"
            seen.append(len(arrived))
        return answer()

    for index, server in enumerate(network.servers):
        server.around = partial(around, index=index)
    return seen


def other_task(network: Network, epsilon: float = 1) -> Network:
    return Network(make_task(purpose=f"another {network.task.purpose}", epsilon=epsilon))


def stored(network: Network) -> int:
    (count,) = {len(server.payloads) for server in network.servers}
    return count


# --- one row --------------------------------------------------------------------------------------------------


async def test_nothing_leaves_before_its_charge_is_on_disk(path: Path, ledger: Ledger) -> None:
    network = Network(make_task())
    seen = watched(network, path)
    async with charging(network, ledger) as client:
        assert ledger.entries() == []
        await client.send(ROW)
    assert seen == [1, 1, 1]


async def test_a_second_row_of_the_same_source_never_leaves(ledger: Ledger) -> None:
    network = Network(make_task())
    async with charging(network, ledger) as client:
        first = await client.send(ROW)
        for _ in range(2):
            again = await client.send([0, 0, 0])
            assert again.repeated
            assert (again.report_id, again.signed) == (first.report_id, first.signed)
            # What is prepared by hand is a report of its own, and is refused.
            with pytest.raises(LedgerRefusedError, match="a second one is never sent"):
                await client.deliver(client.prepare(ROW))
        await client.send(ROW, source="somebody else")
    assert stored(network) == 2


async def test_a_source_without_privacy_left_does_not_answer_another_task(path: Path) -> None:
    network = Network(make_task(epsilon=1))
    with Ledger(path, max_epsilon=1.2) as ledger:
        async with charging(network, ledger) as client:
            await client.send(ROW)
        second = other_task(network)
        async with charging(second, ledger) as client:
            with pytest.raises(LedgerRefusedError, match=r"is 1 already and would be 1\.4\d+; the ceiling is 1\.2"):
                await client.send(ROW)
        assert second.nothing_left()
        third = other_task(network, epsilon=0.3)
        async with charging(third, ledger) as client:
            await client.send(ROW)
        assert 1 < ledger.spent().epsilon < 1.2


async def test_without_a_ledger_the_caller_keeps_count() -> None:
    network = Network(make_task())
    async with charging(network, None) as client:
        await client.send(ROW)
        await client.send(ROW)
    assert stored(network) == 2


async def test_a_report_that_failed_is_delivered_again_without_a_second_charge(ledger: Ledger) -> None:
    network = Network(make_task())
    async with charging(network, ledger) as client:
        parcel = client.prepare(ROW)
        assert ledger.entries() == []
        network.servers[1].refuse = lambda known: UnavailableError()
        with pytest.raises(UnavailableError):
            await client.deliver(parcel)
        # A new report of the same row would be a second one, wherever the first one came.
        with pytest.raises(LedgerRefusedError):
            await client.send(ROW)
        network.servers[1].refuse = lambda known: None
        await client.deliver(parcel)
    assert stored(network) == len(ledger.entries()) == 1


async def test_a_refused_report_is_not_refunded(ledger: Ledger) -> None:
    network = Network(make_task())
    for server in network.servers:
        server.refuse = lambda known: BatchClosedError()
    async with charging(network, ledger) as client:
        with pytest.raises(BatchClosedError):
            await client.send(ROW)
    assert ledger.spent().epsilon > 0


async def test_a_row_that_does_not_fit_costs_nothing(ledger: Ledger) -> None:
    async with charging(Network(make_task()), ledger) as client:
        with pytest.raises(InvalidRowError):
            await client.send([0.5])
    assert ledger.entries() == []


async def test_a_ledger_that_breaks_lets_nothing_leave(path: Path, ledger: Ledger) -> None:
    network = Network(make_task())
    async with charging(network, ledger) as client:
        path.unlink()
        with pytest.raises(LedgerRefusedError, match="cannot be used"):
            await client.send(ROW)
        summary = await client.send_many(np.zeros((600, 3)), source_for=str)
    assert isinstance(summary.stopped, LedgerRefusedError)
    assert (summary.sent, network.nothing_left()) == (0, True)


def test_the_blocking_client_charges_alike(path: Path, ledger: Ledger) -> None:
    network = Network(make_task())
    options = {"ledger": ledger, "retries": IMPATIENT, "now": lambda: NOW, "transport": network}
    with BlockingClient(network.task.task_id, network.urls, **options) as client:  # type: ignore[arg-type]
        client.send(ROW, source="ann")
        client.deliver(client.prepare(ROW, source="bob"))
        summary = client.send_many([ROW] * 3, source_for=["ann", "cem", "bob"].__getitem__)
    # What `deliver` sent was not kept, so that it cannot be sent again; nothing else is made in its place.
    assert (summary.sent, summary.repeated, [failed.index for failed in summary.failed]) == (2, 1, [2])
    assert [entry.source for entry in ledger.entries()] == [ledger.pseudonym(name) for name in ("ann", "bob", "cem")]


# --- many rows ------------------------------------------------------------------------------------------------


async def test_in_bulk_every_row_is_charged_to_its_source_before_its_block_leaves(path: Path, ledger: Ledger) -> None:
    network = Network(make_task())
    seen = watched(network, path)
    async with charging(network, ledger) as client:
        summary = await client.send_many(np.zeros((600, 3)), source_for=lambda index: f"person {index % 500}")
    assert summary.sent == stored(network) == sum(seen) / 3 == len(ledger.entries()) == 500
    assert [failed.index for failed in summary.failed] == list(range(500, 600))
    assert {type(failed.error) for failed in summary.failed} == {LedgerRefusedError}
    assert summary.stopped is None


@pytest.mark.slow
async def test_a_call_that_was_cut_off_goes_on_where_it_was(ledger: Ledger) -> None:
    network = Network(make_task())
    rows = np.zeros((600, 3))
    async with charging(network, ledger) as client:
        await client.send_many(rows[:300], source_for=str)
        summary = await client.send_many(rows, source_for=str)
    assert (summary.sent, summary.repeated, summary.failed, summary.stopped) == (600, 300, (), None)
    assert stored(network) == 600


async def test_a_server_that_stores_blocks_and_denies_it_gets_the_same_reports_again(ledger: Ledger) -> None:
    network = Network(make_task())
    rows = np.zeros((300, 3))

    def denying(request: httpx2.Request, answer: object) -> httpx2.Response:
        honest = answer()  # type: ignore[operator]
        return problem(UnavailableError()) if request.method == "POST" else honest

    network.servers[1].around = denying
    for _ in range(2):
        async with charging(network, ledger) as client:
            summary = await client.send_many(rows, source_for=str)
            assert (summary.sent, summary.repeated) == (0, 0)
    network.servers[1].around = lambda request, answer: answer()
    async with charging(network, ledger) as client:
        summary = await client.send_many(rows, source_for=str)
    assert (summary.sent, summary.repeated, summary.failed) == (300, 300, ())
    assert stored(network) == len(ledger.entries()) == 300


async def test_a_charge_of_a_block_without_its_messages_sends_nothing_more(ledger: Ledger) -> None:
    network = Network(make_task())
    async with charging(network, ledger) as client:
        await client.send_many(np.zeros((20, 3)), source_for=str)
    for each in ledger.outbox_path.parent.glob(f"{ledger.outbox_path.name}*"):
        each.unlink()
    async with charging(network, ledger) as client:
        summary = await client.send_many(np.zeros((20, 3)), source_for=str)
    assert (summary.sent, {type(failed.error) for failed in summary.failed}) == (0, {LedgerRefusedError})
    assert stored(network) == 20


async def test_with_a_new_key_blocks_are_sealed_anew_once_and_after_a_restart_given_up(ledger: Ledger) -> None:
    network = Network(make_task())
    network.servers[1].refuse = lambda known: UnavailableError()
    async with charging(network, ledger) as client:
        await client.send_many(np.zeros((5, 3)), source_for=str)
    network.servers[1].refuse = lambda known: None
    network.servers[1].keys = [sealing_key("the next key", network.task.suite)]
    async with charging(network, ledger) as client:
        for kind in (OutdatedKeyError, LedgerRefusedError):
            summary = await client.send_many(np.zeros((5, 3)), source_for=str)
            assert (summary.sent, {type(failed.error) for failed in summary.failed}) == (0, {kind})
    assert [len(server.payloads) for server in network.servers] == [5, 0, 5]


async def test_rows_that_are_vouched_for_are_one_charge_in_one_call(path: Path, ledger: Ledger) -> None:
    network = Network(make_task())
    watched(network, path)
    async with charging(network, ledger) as client:
        summary = await client.send_many(np.zeros((1500, 3)), source_for=DISTINCT_SOURCES)
        assert (summary.sent, summary.failed) == (1500, ())
        again = await client.send_many(np.zeros((1500, 3)), source_for=DISTINCT_SOURCES)
    assert isinstance(again.stopped, LedgerRefusedError)
    assert (again.sent, stored(network)) == (0, 1500)
    (entry,) = ledger.entries()
    assert (entry.source, entry.num_reports) == (None, 1500)


async def test_a_vouched_row_that_failed_can_be_delivered_after_its_call(ledger: Ledger) -> None:
    network = Network(make_task())
    network.servers[2].refuse = lambda known: UnavailableError() if known[0] < 128 else None
    async with charging(network, ledger) as client:
        summary = await client.send_many(np.zeros((40, 3)), source_for=DISTINCT_SOURCES)
        network.servers[2].refuse = lambda known: None
        assert summary.failed
        for failed in summary.failed:
            assert failed.parcel is not None
            await client.deliver(failed.parcel)
    assert stored(network) == 40
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("nobody", [None, "self"])
async def test_with_a_ledger_somebody_must_say_whose_facts_the_rows_state(ledger: Ledger, nobody: object) -> None:
    network = Network(make_task())
    async with charging(network, ledger) as client:
        with pytest.raises(ValueError, match="source_for"):
            await client.send_many([ROW], source_for=nobody)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="nobody is named"):
            await client.send_many([ROW], source_for=lambda index: "")
        with pytest.raises(ValueError, match="nobody is named"):
            await client.send(ROW, source="")
    assert network.nothing_left()


# --- on the command line --------------------------------------------------------------------------------------


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    network = Network(make_task())

    def client(*args: object, **options: object) -> Client:
        return Client(*args, **options, retries=IMPATIENT, now=lambda: NOW, transport=network)  # type: ignore[arg-type]

    monkeypatch.setattr(cli, "Client", client)
    return network


def send(network: Network, folder: Path, lines: list[str], *options: str) -> Result:
    file = folder / "rows.csv"
    file.write_text("\n".join(lines), encoding="utf-8")
    servers = [word for url in network.urls for word in ("--server", url)]
    return CliRunner().invoke(cli.app, ["send", network.task.task_id, str(file), *servers, *options])


def show(*options: str) -> Result:
    return CliRunner().invoke(cli.app, ["ledger", "show", *options])


LINES = ["a,who,b,c", "0.5,ann,0,0", "0,bob,0,0", "0,ann,1,0"]


def test_send_charges_the_source_that_a_column_names_and_does_not_send_the_column(
    network: Network, tmp_path: Path, path: Path
) -> None:
    result = send(network, tmp_path, LINES, "--ledger", str(path), "--source-column", "who", "--json")
    account = json.loads(result.stdout)
    assert (result.exit_code, account["sent"]) == (1, 2)
    assert [(failed["row"], failed["error"]) for failed in account["failed"]] == [(2, "ledger_refused")]
    document = json.loads(show("--ledger", str(path), "--source", "bob", "--json").stdout)
    assert [(entry["task_id"], entry["reports"]) for entry in document["entries"]] == [(network.task.task_id, 1)]
    assert 0.9 < document["epsilon"] <= 1
    assert "ann" not in json.dumps(document)


def test_the_same_file_sent_twice_is_refused_by_the_ledger_of_the_user(network: Network, tmp_path: Path) -> None:
    lines = ["a,b,c", "0.5,0,0", "0,0,0"]
    assert send(network, tmp_path, lines).exit_code == 0
    again = send(network, tmp_path, lines)
    assert again.exit_code == 1
    assert "may be in them" in again.stderr
    assert stored(network) == 2
    shown = show()
    assert shown.exit_code == 0
    assert "self: epsilon 1 of 3 at delta 1e-06" in shown.stdout
    assert "for every source (2 rows)" in shown.stdout
    assert send(network, tmp_path, lines, "--no-ledger").exit_code == 0
    assert stored(network) == 4


def test_a_ceiling_below_the_task_sends_nothing(network: Network, tmp_path: Path) -> None:
    result = send(network, tmp_path, ["a,b,c", "0,0,0"], "--ceiling", "0.5")
    assert result.exit_code == 1
    assert "would be 1; the ceiling is 0.5" in result.stderr
    assert network.nothing_left()


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        (LINES, ["--source-column", "name"], "sources stand in 'name'"),
        (["a,who,who,b,c", "0,ann,ann,0,0"], ["--source-column", "who"], "two columns of the same name"),
        ([*LINES, "0,,0,0"], ["--source-column", "who"], "row 4, column 'who'"),
        (["a,b,c", "0,0,0"], ["--source-column", "c"], "belongs to the task"),
        (LINES, ["--no-ledger", "--ledger", "x"], "not both"),
    ],
)
def test_a_source_that_is_not_clear_is_refused_before_anything_leaves(
    network: Network, tmp_path: Path, lines: list[str], options: list[str], said: str
) -> None:
    result = send(network, tmp_path, lines, *options)
    assert result.exit_code == 1
    assert said in result.stderr
    assert network.nothing_left()


def test_showing_a_ledger_does_not_create_one(tmp_path: Path) -> None:
    result = show()
    assert result.exit_code == 1
    assert "nothing was charged" in result.stderr
    assert not list(tmp_path.iterdir())
