"""Ledgers of earlier versions: opened, they are of this one, and hold everything that they held."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lintra_client import Ledger
from lintra_client.ledger import file as module
from lintra_client.ledger.ledger import SELF
from lintra_client.ledger.prices import price_of, set_aside_by
from lintra_protocol.errors import LedgerRefusedError
from lintra_protocol.privacy.composition import Spent
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.privacy.study import Study
from support import make_task
from support.old_ledgers import OLD_TASKS as TASKS
from support.old_ledgers import old_ledger

TABLES = ("charges", "reports", "set_aside", "covered", "sqlite_sequence")


def contents(path: Path) -> tuple[int, dict[str, list[tuple[object, ...]]]]:
    """Return the version of a file and all that is in it, prices apart from what shares show."""
    with closing(sqlite3.connect(path)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        there = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        held = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in TABLES if name in there}
        # Without names, which are pseudonyms afterwards.
        held["charges"] = db.execute("SELECT charge, task_id, batch, call, price FROM charges").fetchall()
        prices = db.execute("SELECT price, mu_squared, slack, delta_coalition FROM prices").fetchall()
        return version, {name: rows for name, rows in held.items() if rows} | {"prices": prices}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_ledger_of_an_earlier_version_is_upgraded_and_loses_nothing(tmp_path: Path, version: int) -> None:
    path = old_ledger(tmp_path / "ledger", version)
    found, before = contents(path)
    assert found == version
    with Ledger(path) as ledger:
        assert ledger.spent("ann").spent.mu_squared == ("0.05" if version == 1 else "0.06")
        assert ledger.spent("bob").spent == Spent(mu_squared="0.02", slack="0", delta_coalition="0")
        assert [entry.num_reports for entry in ledger.entries()][:3] == [1, 2, 1]
        # What was charged is not charged again, and nobody answers a task twice.
        assert ledger.charge(TASKS[0], Spent.zero(), {b"\x01" * 32: "ann"}) == {}
        assert ledger.charge(TASKS[0], Spent.zero(), {b"\x07" * 32: "ann"})
    assert contents(path) == (4, before)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT DISTINCT delta_shares FROM prices").fetchall() == [("0",)]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_upgraded_ledger_has_the_tables_of_a_new_one_and_minds_what_refers_to_what(
    tmp_path: Path, version: int
) -> None:
    with Ledger(old_ledger(tmp_path / "old", version)) as old, Ledger(tmp_path / "new") as new:
        tables = []
        for ledger in (old, new):
            with ledger._file.transaction() as db:
                tables.append(set(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")))
                assert db.execute("PRAGMA foreign_keys").fetchone() == (1,)
        assert tables[0] == tables[1]
        with pytest.raises(LedgerRefusedError, match="FOREIGN KEY"), old._file.transaction() as db:
            db.execute(f"INSERT INTO charges VALUES (9, '{TASKS[3]}', 1, 'ann', '', 77, 0)")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_upgrade_that_is_cut_off_at_any_statement_leaves_the_old_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    path = old_ledger(tmp_path / "ledger", version)
    before, copies = contents(path), []
    plain = module.open_database

    def watched(path: Path) -> sqlite3.Connection:
        db = plain(path)
        db.execute("PRAGMA cache_size = 1")  # so that the transaction reaches the disk by and by

        def copy(statement: str) -> None:
            # What a process that is killed at this moment leaves behind.
            copies.append((statement, tmp_path / f"copy {len(copies)}"))
            for end in ("", "-wal", ".key"):
                if Path(f"{path}{end}").exists():
                    shutil.copy(f"{path}{end}", f"{copies[-1][1]}{end}")

        db.set_trace_callback(copy)
        return db

    monkeypatch.setattr(module, "open_database", watched)
    Ledger(path).close()
    monkeypatch.undo()
    statements = [statement for statement, _ in copies]
    under_way = statements[statements.index("BEGIN IMMEDIATE") : statements.index("COMMIT") + 1]
    assert sum(statement.startswith(("CREATE", "DROP", "INSERT")) for statement in under_way) >= 4
    for _, cut_off in copies[: statements.index("COMMIT") + 1]:
        assert contents(cut_off) == before
    _, last = copies[statements.index("COMMIT")]
    with Ledger(last) as ledger:
        assert ledger.spent("bob").spent.mu_squared == "0.02"
    assert contents(last) == contents(path) == (4, before[1])


@pytest.mark.parametrize("damage", ["DROP INDEX charges_by_source", "UPDATE charges SET price = 77"])
def test_a_damaged_ledger_of_an_earlier_version_is_refused_and_stays_as_it_is(tmp_path: Path, damage: str) -> None:
    path = old_ledger(tmp_path / "ledger", 2)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(damage)
    before = contents(path)
    with pytest.raises(LedgerRefusedError, match="cannot be used"):
        Ledger(path)
    assert contents(path) == before


def test_a_study_is_charged_in_a_ledger_that_knew_none(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "ledger", 1, rows=False)
    study = Study(epsilon="1", delta="0.000001", share="0.1")
    claim = Claim(epsilon="0.27", delta="0.000001", min_clients=100)
    pilot = make_task(claim=claim, study=study)
    main = make_task(
        claim=claim.model_copy(update={"epsilon": "0.94"}), study=study.model_copy(update={"pilot": pilot.task_id})
    )
    with Ledger(path, max_epsilon=3.0) as ledger, Ledger(path, max_epsilon=3.0) as other:
        assert not ledger.charge_task(pilot, {bytes(32): SELF}, 0)
        assert not other.charge_task(main, {bytes([1] * 32): SELF}, 0)
        held = set_aside_by(pilot)
        assert held is not None
        assert [entry.spent for entry in ledger.entries()] == [price_of(pilot) + held, Spent.zero()]


def test_two_prices_that_differ_only_in_what_shares_show_are_two(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    prices = [Spent(mu_squared="0.04", slack="0", delta_coalition="0", delta_shares=seen) for seen in ("0", "0.0001")]
    with Ledger(path, max_epsilon=10.0, delta=0.01) as ledger:
        for number, price in enumerate(prices * 2):
            assert ledger.charge(TASKS[number], price, {bytes([number] * 32): SELF}) == {}
    with Ledger(path, max_epsilon=10.0, delta=0.01) as ledger:
        assert [entry.spent for entry in ledger.entries()] == prices * 2
        balance = ledger.spent()
    assert balance.spent == Spent(mu_squared="0.16", slack="0", delta_coalition="0", delta_shares="0.0002")
    assert balance.epsilon == balance.spent.epsilon_at(0.01)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT delta_shares FROM prices ORDER BY price").fetchall() == [("0",), ("0.0001",)]


def test_a_report_that_leaves_no_epsilon_for_what_shares_show_does_not_fit(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger", max_epsilon=1000.0, delta=1e-6) as ledger:
        big = Spent(mu_squared="4", slack="0", delta_coalition="0", delta_shares="0.0000000000001")
        assert ledger.charge(TASKS[0], big, {bytes(32): SELF}) == {}
        refused = ledger.charge(TASKS[1], big, {bytes([1] * 32): SELF})
        assert "would be inf" in refused[bytes([1] * 32)].detail
        assert len(ledger.entries()) == 1
