"""Ledger and outbox hold pseudonyms in place of names; the key is a file of its own, without which nothing leaves."""

import base64
import hashlib
import hmac
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from lintra_client import Client, Ledger
from lintra_client.ledger.entries import Vouched
from lintra_client.ledger.ledger import SELF
from lintra_client.ledger.outbox import Outbox
from lintra_client.ledger.pseudonyms import Pseudonyms, make_key
from lintra_client.ledger.upgrade import UNWIPED
from lintra_protocol.errors import LedgerRefusedError
from lintra_protocol.privacy.composition import Spent
from support import make_task
from support.fake_servers import IMPATIENT, NOW, Network
from support.old_ledgers import OLD_TASKS as TASKS
from support.old_ledgers import old_ledger, old_outbox

PRICE = Spent(mu_squared="0.04", slack="0", delta_coalition="0")
SEVENTEEN = ("17", "17.0", "017", "\uff11\uff17")


def everything_beside(path: Path) -> bytes:
    """Return all bytes of a ledger, its outbox and what belongs to them, but the key."""
    return b"".join(each.read_bytes() for each in sorted(path.parent.iterdir()) if each.suffix != ".key")


def rows_of(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def with_charges(path: Path, charges: list[tuple[str, str, int]]) -> Path:
    """Return a ledger of version 3 with a charge of 0.04 and a report for each (task, name in clear, batch)."""
    old_ledger(path, 3, rows=False)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO prices VALUES (1, '0.04', '0', '0', '0')")
        for number, (task, name, batch) in enumerate(charges, 1):
            db.execute("INSERT INTO charges VALUES (?, ?, ?, ?, '', 1)", (number, task, batch, name))
            db.execute("INSERT INTO reports VALUES (?, ?)", (bytes([number]) * 32, number))
    return path


# --- what stands in the files -----------------------------------------------------------------------------------


async def test_no_name_stands_in_the_ledger_or_the_outbox(tmp_path: Path) -> None:
    network = Network(make_task())
    network.servers[1].refuse = lambda known: LedgerRefusedError("so that the outbox keeps it")
    path = tmp_path / "home" / "ledger"
    with Ledger(path) as ledger:
        client = Client(
            network.task.task_id, network.urls, ledger=ledger, retries=IMPATIENT, now=lambda: NOW, transport=network
        )
        async with client:
            await client.send_many([[0.5, 0.5, 0.5]], source_for=lambda _: "Bartholomew")
        ledger.charge(TASKS[1], PRICE, {bytes([9]) * 32: "Annabella"})
        assert len(rows_of(ledger.outbox_path, "SELECT * FROM parcels")) == 1
        held = everything_beside(path).lower()
        expected = {ledger.pseudonym("bartholomew"), ledger.pseudonym("ANNABELLA")}
        assert {entry.source for entry in ledger.entries()} == expected
    for name in (b"bartholomew", b"annabella"):
        assert name not in held
    assert rows_of(ledger.outbox_path, "SELECT source FROM parcels") == [(ledger.pseudonym("bartholomew"),)]


def test_a_pseudonym_is_hmac_sha256_of_the_name_under_the_key_beside_the_ledger(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        key = (tmp_path / "ledger.key").read_bytes()
        mac = hmac.new(key, b"ann lee", hashlib.sha256).digest()
        assert ledger.pseudonym(" Ann  LEE") == base64.urlsafe_b64encode(mac).decode().rstrip("=")
    assert (len(key), stat.S_IMODE((tmp_path / "ledger.key").stat().st_mode)) == (32, 0o600)
    with Ledger(tmp_path / "another") as other:
        assert other.pseudonym("ann lee") != base64.urlsafe_b64encode(mac).decode().rstrip("=")


def test_all_spellings_of_a_name_are_one_account(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        for number, spelled in enumerate(SEVENTEEN):
            assert ledger.charge(TASKS[number], PRICE, {bytes([number]) * 32: spelled}) == {}
            assert ledger.charge(TASKS[number], PRICE, {bytes([99]) * 32: 17})  # type: ignore[dict-item]
        assert {ledger.spent(spelled).spent.mu_squared for spelled in SEVENTEEN} == {"0.16"}
        assert len(ledger.entries("+17")) == 4
        assert ledger.unaffordable(make_task(), ["18"]) == []


# --- without the key --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["missing", "empty", "another", "a folder", "a link to nothing"])
def test_a_ledger_whose_key_is_not_its_own_is_refused_and_charges_nobody_anew(tmp_path: Path, what: str) -> None:
    path, key = tmp_path / "ledger", tmp_path / "ledger.key"
    with Ledger(path) as ledger:
        assert ledger.charge(TASKS[0], PRICE, {bytes(32): "ann"}) == {}
    before = key.read_bytes()
    key.unlink()
    if what == "empty":
        key.touch()
    elif what == "another":
        make_key(key)
    elif what == "a folder":
        key.mkdir()
    elif what == "a link to nothing":
        key.symlink_to(tmp_path / "nowhere")
    with pytest.raises(LedgerRefusedError, match=r"its key .*ledger\.key .*put (the file|the one|that one) back"):
        Ledger(path)
    assert key.exists() == (what not in ("missing", "a link to nothing"))
    if key.is_dir():
        key.rmdir()
    key.unlink(missing_ok=True)
    key.write_bytes(before)
    with Ledger(path) as ledger:
        assert ledger.charge(TASKS[0], PRICE, {bytes([1]) * 32: "Ann"})


def test_a_key_that_is_taken_away_under_our_hands_lets_nothing_leave_after_the_next_opening(
    tmp_path: Path,
) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        assert ledger.charge(TASKS[0], PRICE, {bytes(32): "ann"}) == {}
        (tmp_path / "ledger.key").unlink()
        assert ledger.charge(TASKS[0], PRICE, {bytes([1]) * 32: "ANN"})
        ledger.close()
        with pytest.raises(LedgerRefusedError, match="is missing"):
            ledger.charge(TASKS[1], PRICE, {bytes([2]) * 32: "ann"})
        with pytest.raises(LedgerRefusedError, match="is missing"):
            ledger.spent("ann")


def test_a_ledger_that_was_deleted_begins_anew_with_the_key_that_is_there(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        before = ledger.pseudonym("ann")
    (tmp_path / "ledger").unlink()
    with Ledger(tmp_path / "ledger") as ledger:
        assert ledger.pseudonym("ann") == before


# --- files of earlier versions ----------------------------------------------------------------------------------


def test_charges_under_several_spellings_are_added_and_none_is_lost(tmp_path: Path) -> None:
    charges = [(TASKS[0], spelled, 0) for spelled in SEVENTEEN] + [(TASKS[1], "17", 0), (TASKS[1], "Ann", 0)]
    charges += [(TASKS[2], "\ufdfa" * 180, 0), (TASKS[0], "17", 1)]
    path = with_charges(tmp_path / "ledger", charges)
    with Ledger(path) as ledger:
        assert len(ledger.entries()) == len(charges)
        assert [entry.num_reports for entry in ledger.entries()] == [1] * len(charges)
        for spelled in (*SEVENTEEN, 17):
            # Four spellings in one task, and two more charges: together 6 of 0.04.
            assert ledger.spent(spelled).spent.mu_squared == "0.24"  # type: ignore[arg-type]
            assert ledger.charge(TASKS[0], PRICE, {bytes([99]) * 32: spelled})  # type: ignore[dict-item]
        assert ledger.spent("ANN").spent.mu_squared == "0.04"
        # What was charged is not charged again, whichever of the spellings it was.
        again = {bytes([number]) * 32: "17" for number in range(1, 5)}
        assert ledger.charge(TASKS[0], PRICE, again) == {}
        assert len(ledger.reports(TASKS[0], "17")) == 5
    with Ledger(path, max_epsilon=2) as tight:
        # Seven of 0.04 are epsilon 2.27; with the three of the spelling 17 alone it would be 1.66.
        refused = tight.charge(TASKS[3], PRICE, {bytes([98]) * 32: "17"})
        assert "the ceiling is 2" in refused[bytes([98]) * 32].detail


def test_a_row_that_somebody_vouches_for_may_be_of_whoever_was_joined(tmp_path: Path) -> None:
    path = with_charges(tmp_path / "ledger", [(TASKS[0], spelled, 0) for spelled in SEVENTEEN])
    with Ledger(path, max_epsilon=1.7) as ledger:
        # 0.4 is epsilon 1.66; with one more charge of 0.04 above the ceiling, which one spelling alone would not be.
        with pytest.raises(LedgerRefusedError, match=r"the ceiling is 1\.7"):
            ledger.charge(TASKS[1], PRICE, {bytes([98]) * 32: Vouched()})
        assert ledger.charge(TASKS[1], PRICE, {bytes([97]) * 32: "18"}) == {}


def test_no_name_is_left_in_a_file_that_was_upgraded(tmp_path: Path) -> None:
    path = with_charges(tmp_path / "ledger", [(TASKS[0], f"Bartholomew {number}", 0) for number in range(250)])
    # So that what is deleted stays in free pages, which some builds of SQLite overwrite by themselves.
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA secure_delete = OFF")
        others = [(number, TASKS[0], f"Bartholomew {number}") for number in range(1000, 5000)]
        db.executemany("INSERT INTO charges VALUES (?, ?, 0, ?, '', 1)", others)
        db.execute("DELETE FROM charges WHERE charge >= 1000")
    old_outbox(tmp_path / "ledger.outbox", {f"Bartholomew {number}": bytes([number]) * 32 for number in range(1, 90)})
    with closing(sqlite3.connect(tmp_path / "ledger.outbox")) as db, db:
        db.execute("PRAGMA secure_delete = OFF")
        db.execute("DELETE FROM parcels WHERE source LIKE '%7'")
    assert b"Bartholomew" in everything_beside(path)
    with Ledger(path) as ledger, closing(ledger.open_outbox()):
        assert b"Bartholomew" not in everything_beside(path)
        assert ledger.spent("bartholomew 7").spent.mu_squared == "0.04"
    assert rows_of(path, "PRAGMA user_version") == [(4,)]


def test_an_upgrade_that_was_cut_off_before_the_names_were_wiped_is_completed(tmp_path: Path) -> None:
    path = with_charges(tmp_path / "ledger", [(TASKS[0], "17.0", 0), (TASKS[1], "Ann", 0)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lintra_client.ledger.file.wipe", stop)
        with pytest.raises(KeyboardInterrupt):
            Ledger(path)
    assert rows_of(path, "PRAGMA user_version") == [(UNWIPED + 4,)]
    key = (tmp_path / "ledger.key").read_bytes()
    (tmp_path / "ledger.key").unlink()
    with pytest.raises(LedgerRefusedError, match="is missing"):
        Ledger(path)
    (tmp_path / "ledger.key").write_bytes(key)
    with Ledger(path) as ledger:
        assert ledger.spent("17").spent.mu_squared == "0.04"
    assert rows_of(path, "PRAGMA user_version") == [(4,)]


def test_an_earlier_program_that_has_the_file_open_during_the_upgrade_charges_nobody_in_clear(tmp_path: Path) -> None:
    path = with_charges(tmp_path / "ledger", [(TASKS[0], "17.0", 0)])
    with closing(sqlite3.connect(path, isolation_level=None)) as earlier:
        assert earlier.execute("SELECT count(*) FROM charges").fetchone() == (1,)
        with Ledger(path) as ledger:
            columns = "INSERT INTO charges (task_id, batch, source, call, price)"
            for rows in (
                f"VALUES ('{TASKS[1]}', 0, 'Ann', '', 1)",
                f"SELECT '{TASKS[1]}', 0, value, '', 1 FROM json_each('[\"Ann\"]') ORDER BY key",
            ):
                with pytest.raises(sqlite3.IntegrityError, match="spelling"):
                    earlier.execute(f"{columns} {rows}")
            assert len(ledger.entries()) == 1


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_outbox_of_an_earlier_version_keeps_one_report_of_each_person(tmp_path: Path) -> None:
    kept = {"17": b"1" * 32, "17.0": b"2" * 32, "Ann": b"3" * 32}
    outbox = Outbox(old_outbox(tmp_path / "outbox", kept), Pseudonyms(bytes(32)))
    with closing(outbox):
        found = outbox.find_many(TASKS[0], 0, ["017", "ANN", "bob"])
        assert found["017"].report_id in (b"1" * 32, b"2" * 32)
        assert (found["ANN"].report_id, found["ANN"].sealed, "bob" in found) == (b"3" * 32, {0: b"\xaa"}, False)
    assert rows_of(tmp_path / "outbox", "SELECT count(*) FROM messages") == [(2,)]


def test_the_old_name_of_this_device_is_its_name(tmp_path: Path) -> None:
    with Ledger(with_charges(tmp_path / "ledger", [(TASKS[0], SELF, 0)])) as ledger:
        assert ledger.charge(TASKS[0], PRICE, {os.urandom(32): SELF})
        assert ledger.spent().spent.mu_squared == "0.04"
