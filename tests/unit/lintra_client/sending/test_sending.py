"""One report of a source in a task, whatever servers answer and however often the program calls or dies."""

import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest

from lintra_client import Client, Ledger
from lintra_client.ledger.outbox import Outbox
from lintra_client.sending import sealed_reports
from lintra_protocol.errors import BatchClosedError, LedgerRefusedError, OutdatedKeyError, UnavailableError
from lintra_protocol.fields.person_names import person_name
from lintra_protocol.report.report import Report
from lintra_protocol.report.upload import decode_upload
from lintra_protocol.task import Task
from support import make_task, sealing_key
from support.fake_servers import IMPATIENT, NOW, FakeServer, Network, problem

ROW = [0.5, -0.25, 0.125]


def client(network: Network, folder: Path, now: float = NOW) -> Client:
    ledger = Ledger(folder / "ledger.sqlite")
    return Client(
        network.task.task_id, network.urls, ledger=ledger, retries=IMPATIENT, now=lambda: now, transport=network
    )


def reports_at(server: FakeServer) -> set[bytes]:
    """Return the identifiers of everything that ever reached a server."""
    uploads = [decode_upload(body, server.task, server.index) for body in server.uploads]
    return {known for blocks in uploads for block in blocks for known in block.report_ids} | set(server.payloads)


def stores_but_answers_503(server: FakeServer) -> None:
    def around(request: httpx2.Request, answer: object) -> httpx2.Response:
        honest = answer()  # type: ignore[operator]
        return problem(UnavailableError()) if request.method == "POST" else honest

    server.around = around


async def test_a_server_that_stores_and_denies_it_gets_the_same_report_again(tmp_path: Path) -> None:
    network = Network(make_task())
    stores_but_answers_503(network.servers[1])
    for _ in range(3):
        async with client(network, tmp_path) as one:
            with pytest.raises(UnavailableError):
                await one.send(ROW)
    assert [len(reports_at(server)) for server in network.servers] == [1, 1, 1]
    network.servers[1].around = lambda request, answer: answer()
    async with client(network, tmp_path) as one:
        receipt = await one.send([0, 0, 0])
        assert receipt.repeated
        assert receipt.clipped is None
    assert [len(server.payloads) for server in network.servers] == [1, 1, 1]


async def test_attack_without_ledger_and_outbox_every_call_makes_another_report(tmp_path: Path) -> None:
    network = Network(make_task())
    stores_but_answers_503(network.servers[1])
    async with network.client() as one:
        for _ in range(3):
            with pytest.raises(UnavailableError):
                await one.send(ROW)
    assert [len(reports_at(server)) for server in network.servers] == [3, 3, 3]


async def test_a_client_has_its_users_ledger_unless_it_chooses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    network = Network(make_task())
    options = {"retries": IMPATIENT, "now": lambda: NOW, "transport": network}
    for repeated in (False, True):
        async with Client(network.task.task_id, network.urls, **options) as one:  # type: ignore[arg-type]
            assert (await one.send(ROW)).repeated is repeated
    with Ledger(tmp_path / "lintra" / "ledger.sqlite") as ledger:
        assert len(ledger.entries()) == 1


async def test_messages_are_on_disk_before_the_charge_and_the_charge_before_the_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(make_task())
    seen: list[str] = []
    keep, charge = Outbox.keep, Ledger.charge_task

    def kept(self: Outbox, *values: object) -> bool:
        seen.append(f"keep, {len(Ledger(tmp_path / 'ledger.sqlite').entries())} charges")
        return keep(self, *values)  # type: ignore[arg-type]

    def charged(self: Ledger, *values: object) -> object:
        rows = sqlite3.connect(self.outbox_path).execute("SELECT count(sealed) FROM messages").fetchone()
        seen.append(f"charge, {rows[0]} messages, {sum(len(server.uploads) for server in network.servers)} uploads")
        return charge(self, *values)  # type: ignore[arg-type]

    monkeypatch.setattr(Outbox, "keep", kept)
    monkeypatch.setattr(Ledger, "charge_task", charged)
    async with client(network, tmp_path) as one:
        await one.send(ROW)
    assert seen == ["keep, 0 charges", "charge, 3 messages, 0 uploads"]


async def test_the_outbox_holds_sealed_messages_of_nobody_else_and_loses_them_at_the_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(make_task())
    network.servers[2].refuse = lambda known: UnavailableError()
    shares: list[bytes] = []
    original = sealed_reports.seal_block

    def watched(task: Task, server: int, key_id: bytes, key: bytes, reports: Sequence[Report], *rest: object) -> object:
        shares.extend(share for report in reports for share in report.shares)
        return original(task, server, key_id, key, reports, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(sealed_reports, "seal_block", watched)
    async with client(network, tmp_path) as one:
        with pytest.raises(UnavailableError):
            await one.send(ROW)
    path = tmp_path / "ledger.sqlite.outbox"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert shares
    assert not any(share[33:65] in found for share in shares)
    left = sqlite3.connect(path).execute("SELECT server FROM messages WHERE sealed IS NOT NULL").fetchall()
    assert left == [(2,)]
    ended = (network.task.not_after + 1) * network.task.time_precision
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        outbox = ledger.open_outbox()
        outbox.expire(ended - 1)
        assert sqlite3.connect(path).execute("SELECT count(*) FROM messages").fetchone() == (3,)
        outbox.expire(ended)
        outbox.close()
    assert sqlite3.connect(path).execute("SELECT count(*) FROM messages").fetchone() == (0,)


async def test_with_a_new_key_the_same_shares_are_sealed_once_and_after_a_restart_the_message_is_given_up(
    tmp_path: Path,
) -> None:
    network = Network(make_task())
    rotated = network.servers[1]

    def rotating(request: httpx2.Request, answer: object) -> httpx2.Response:
        if request.method == "POST" and len(rotated.keys) == 1 and rotated.keys[0].public_bytes == old:
            rotated.keys = [sealing_key("the next key", network.task.suite)]
        return answer()  # type: ignore[operator]

    old = rotated.keys[0].public_bytes
    rotated.around = rotating
    async with client(network, tmp_path) as one:
        assert not (await one.send(ROW)).repeated
    assert [len(server.payloads) for server in network.servers] == [1, 1, 1]

    second = Network(make_task(purpose="another"))
    second.servers[1].refuse = lambda known: UnavailableError()
    async with client(second, tmp_path) as one:
        with pytest.raises(UnavailableError):
            await one.send(ROW)
    second.servers[1].refuse = lambda known: None
    second.servers[1].keys = [sealing_key("the next key", second.task.suite)]
    async with client(second, tmp_path) as one:
        with pytest.raises(OutdatedKeyError):
            await one.send(ROW)
        with pytest.raises(LedgerRefusedError, match="given up"):
            await one.send(ROW)
    assert [len(server.payloads) for server in second.servers] == [1, 0, 1]


async def test_a_key_that_rotates_between_storing_and_a_lost_answer_costs_no_report(tmp_path: Path) -> None:
    network = Network(make_task())
    rotated = network.servers[1]
    stores_but_answers_503(rotated)
    async with client(network, tmp_path) as one:
        with pytest.raises(UnavailableError):
            await one.send(ROW)
    rotated.keys = [sealing_key("the next key", network.task.suite)]
    rotated.around = lambda request, answer: answer()
    async with client(network, tmp_path) as one:
        assert (await one.send(ROW)).repeated
    assert [len(server.payloads) for server in network.servers] == [1, 1, 1]


async def test_a_charge_without_a_message_sends_nothing_more(tmp_path: Path) -> None:
    network = Network(make_task())
    for server in network.servers:
        server.refuse = lambda known: BatchClosedError()
    async with client(network, tmp_path) as one:
        with pytest.raises(BatchClosedError):
            await one.send(ROW)
    for path in tmp_path.glob("*.outbox*"):
        path.unlink()
    before = [len(server.uploads) for server in network.servers]
    async with client(network, tmp_path) as one:
        with pytest.raises(LedgerRefusedError, match="a second one is never sent"):
            await one.send(ROW)
    assert [len(server.uploads) for server in network.servers] == before


async def test_an_outbox_that_breaks_lets_nothing_leave(tmp_path: Path) -> None:
    network = Network(make_task())
    (tmp_path / "ledger.sqlite.outbox").write_bytes(b"no outbox")
    with pytest.raises(LedgerRefusedError, match="outbox"):
        async with client(network, tmp_path) as one:
            await one.send(ROW)
    assert network.nothing_left()


@pytest.mark.parametrize("name", [" ann", "ann\n", "\tann "])
def test_one_source_has_one_name(name: str) -> None:
    assert person_name(name) == "ann"
    assert person_name("Zoe\u0308") == person_name("Zo\u00eb")


async def test_a_source_spelled_in_another_way_is_the_same_source(tmp_path: Path) -> None:
    network = Network(make_task())
    async with client(network, tmp_path) as one:
        assert not (await one.send(ROW, source="Zoe\u0308")).repeated
        assert (await one.send(ROW, source=" Zo\u00eb ")).repeated
    assert [len(server.payloads) for server in network.servers] == [1, 1, 1]
