"""`lintra client rehearse`: it shows, asks and writes the answers; nothing is sent and nothing is charged."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lintra_client import Client
from lintra_client.commands import client as cli
from lintra_client.commands import rehearse
from lintra_client.ledger.ledger import Ledger
from lintra_protocol.fields.code_book import CodeBook, LevelSpellings
from lintra_protocol.fields.schema import OTHER, Column
from support import make_task
from support.fake_servers import IMPATIENT, NOW, Network

COLUMNS = (
    Column(name="age", lower="0", upper="100", center="50", scale="50"),
    Column(
        name="sex",
        lower="0",
        upper="2",
        kind="category",
        levels=("M", "F", OTHER),
        code_book=CodeBook(levels=(LevelSpellings(level="M", label="male"),)),
    ),
)
TEXT = "Alter;sex;town\n41,5;male;Bern\n37;F;Genf\n-99;F;Bern\n30;divers;Bern\n"


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Network:
    network = Network(make_task("sum", columns=COLUMNS))

    def reaching(*given: Any, **options: Any) -> Client:
        return Client(*given, **options, retries=IMPATIENT, now=lambda: NOW, transport=network)

    monkeypatch.setattr(rehearse, "Client", reaching)
    monkeypatch.setattr(cli, "Client", reaching)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return network


def run(*words: str) -> Result:
    return CliRunner().invoke(cli.app, list(words))


def test_a_file_is_mapped_asked_about_shown_and_its_answers_are_used_when_it_is_sent(
    network: Network, tmp_path: Path
) -> None:
    file, mapping = tmp_path / "rows.csv", tmp_path / "mapping.json"
    file.write_text(TEXT, "utf-8")
    servers = [word for url in network.urls for word in ("--server", url)]
    base = ["rehearse", str(file), network.task.task_id, *servers]
    assert "the task has age, sex; rename columns" in run(*base).stderr
    words = [*base, "--rename", "Alter=age", "--columns"]
    asked = run(*words)
    assert asked.exit_code == 2
    assert "--missing 'age=-99'" in asked.stderr
    assert "--other 'sex=divers:1'" in asked.stderr
    answered = [*words, "--missing", "age=-99", "--other", "sex=divers:1", "--write", str(mapping)]
    shown = run(*answered)
    assert shown.exit_code == 0, shown.output
    assert "sex: category; M 1, F 2, (other) 1; 'male' is read as M; 1 'divers' count as (other)" in shown.stdout
    assert "age: real; 1 are missing" in shown.stdout
    assert "nothing was sent, and nothing was charged" in shown.stdout
    assert network.nothing_left()
    assert not (tmp_path / "state").exists()
    again = run(*base, "--mapping", str(mapping), "--json")
    assert json.loads(again.stdout)["columns"][1]["levels"] == {"M": 1, "F": 2, OTHER: 1}
    sent = run("send", network.task.task_id, str(file), *servers, "--no-ledger", "--mapping", str(mapping))
    assert "4 rows sent" in sent.stdout, sent.output


def test_a_task_in_a_file_needs_no_server_and_no_ledger(network: Network, tmp_path: Path) -> None:
    file, task = tmp_path / "rows.csv", tmp_path / "task.json"
    file.write_text("age,sex\n41,M\n37,F\n", "utf-8")
    task.write_bytes(network.task.canonical())
    assert run("rehearse", str(file), str(task)).exit_code == 0
    assert "TASK is an identifier" in run("rehearse", str(file), "nothing").stderr


def test_a_column_that_is_lost_in_over_half_of_the_rows_is_refused(network: Network, tmp_path: Path) -> None:
    file, task = tmp_path / "rows.csv", tmp_path / "task.json"
    task.write_bytes(network.task.canonical())
    file.write_text("age,sex\n41,M\n,F\nNA,F\n", "utf-8")
    result = run("rehearse", str(file), str(task))
    assert result.exit_code == 1
    assert "column 'age': its value is missing in 2 of 3 rows" in result.stderr


def test_a_cell_that_does_not_fit_is_shown_to_whoever_holds_the_file(network: Network, tmp_path: Path) -> None:
    file, task = tmp_path / "rows.csv", tmp_path / "task.json"
    task.write_bytes(network.task.canonical())
    file.write_text("Alter,sex\n41,M\nold,F\n", "utf-8")
    result = run("rehearse", str(file), str(task), "--rename", "Alter=age")
    assert "row 2, column 'age': expected a number, got str. The cell holds 'old'" in result.stderr


def test_a_ledger_is_not_even_opened(network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*given: object, **options: object) -> None:
        raise AssertionError("a rehearsal opened a ledger")

    monkeypatch.setattr(Ledger, "__init__", opened)
    file = tmp_path / "rows.csv"
    file.write_text("age,sex\n41,M\n37,F\n", "utf-8")
    servers = [word for url in network.urls for word in ("--server", url)]
    assert run("rehearse", str(file), network.task.task_id, *servers).exit_code == 0
