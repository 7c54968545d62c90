"""Ledger and outbox hold pseudonyms in place of names; the key is a file of its own, without which nothing leaves."""

import base64
import hashlib
import hmac
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from lintra_client import Client, Ledger
from lintra_client.ledger.pseudonyms import make_key
from lintra_protocol.errors import LedgerRefusedError
from lintra_protocol.privacy.composition import Spending
from support import make_task
from support.fake_servers import IMPATIENT, NOW, Network

TASKS = [letter * 43 for letter in "ABCD"]
PRICE = Spending(mu_squared="0.04", slack="0", delta_coalition="0")
SEVENTEEN = ("17", "17.0", "017", "\uff11\uff17")


def everything_beside(path: Path) -> bytes:
    """Return all bytes of a ledger, its outbox and what belongs to them, but the key."""
    return b"".join(each.read_bytes() for each in sorted(path.parent.iterdir()) if each.suffix != ".key")


def rows_of(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


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


def test_a_key_that_is_taken_away_under_our_hands_lets_nothing_leave_after_the_next_opening(tmp_path: Path) -> None:
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
