"""Cells that could mean two things, in every way of sending: nothing leaves without an answer, and nothing is shown.

By `send` and `contribute` on the command line, by data frames and columns in Python, and by single rows.
"""

from pathlib import Path
from typing import Any

import pandas
import pytest
from typer.testing import CliRunner

from lintra_client import Client, FileMapping
from lintra_client.commands import client as cli
from lintra_protocol.encoding.csv_values import DAYS
from lintra_protocol.errors import InvalidRowError, InvalidTableError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.schema import OTHER, Column
from lintra_protocol.mechanisms.second_moment import SecondMoment
from lintra_protocol.privacy.statement import Claim
from support import make_task
from support.fake_servers import IMPATIENT, NOW, Network
from support.measured import calibrated_for, with_contributors

NUMBER = Column(name="x", lower="0", upper="200", unit="kg")
DATE = Column(name="x", lower="0", upper="30000", unit=DAYS)
YES = Column(name="x", lower="0", upper="1", kind="boolean")
SEX = Column(name="x", lower="0", upper="2", kind="category", levels=("M", "F", OTHER))

ASKED: dict[str, tuple[Column, list[str], list[str]]] = {
    "a unit in some": (NUMBER, ["72 kg", "80"], ["--as", "x=number"]),
    "parentheses": (NUMBER, ["(12)", "3"], ["--as", "x=number"]),
    "one thousand or one": (NUMBER, ["1,234", "5"], ["--as", "x=number-comma"]),
    "a missing code": (NUMBER, ["-99", "60"], ["--missing", "x=-99"]),
    "day or month": (DATE, ["1/2/2020", "3/4/2020"], ["--as", "x=date-month-first"]),
    "a time of day": (DATE, ["2020-01-01T12:30", "2020-01-02"], ["--as", "x=date"]),
    "an unknown level": (SEX, ["M", "divers"], ["--other", "x=divers:1"]),
}
"""Columns with cells that only the sender can explain, and the answer."""

REFUSED: dict[str, tuple[Column, list[str]]] = {
    "another unit": (NUMBER, ["72", "11 lb"]),
    "percent": (NUMBER, ["53%", "7"]),
    "two marks": (NUMBER, ["1.234,5", "2.5"]),
    "a text": (NUMBER, ["41", "many"]),
    "no day of the calendar": (DATE, ["2020-01-01", "2020-13-45"]),
    "a year of two digits": (DATE, ["2020-01-01", "1.2.20"]),
    "no word for yes or no": (YES, ["yes", "perhaps"]),
}


def network_of(column: Column, *, contributors: bool) -> Network:
    columns = (column, Column(name="y", lower="0", upper="9"))
    if not contributors:
        return Network(make_task("sum", columns=columns))
    held = Contributors(rows_per_person=1, organisations_per_person=1, max_rows=1000, count="exact")
    claim = Claim(epsilon="1", delta="0.000001", neighbours="replace-one", min_clients=5, max_corrupt_clients=4)
    mechanism = with_contributors(SecondMoment(row_bound="2", fraction_bits=0, sigma=4, intercept="1"), held)
    encoded = len(column.indicators()) + 1
    made = calibrated_for(mechanism, encoded, claim, 5)
    return Network(make_task(made, columns=columns, claim=claim, max_clients=5, max_missing="0", contributors=held))


def reach(monkeypatch: pytest.MonkeyPatch, network: Network) -> None:
    made = Client.__init__

    def reaching(self: Client, *given: Any, **options: Any) -> None:
        made(self, *given, **options | {"transport": network, "now": lambda: NOW, "retries": IMPATIENT})

    monkeypatch.setattr(Client, "__init__", reaching)


def run(network: Network, command: str, file: Path, *words: str) -> tuple[int, str]:
    servers = [word for url in network.urls for word in ("--server", url)]
    first = [network.task.task_id, str(file)] if command == "send" else [str(file), network.task.task_id]
    more = ["--yes"] if command == "contribute" else []
    result = CliRunner().invoke(cli.app, [command, *first, *servers, "--no-ledger", *more, *words])
    return result.exit_code, result.stderr


def file_of(folder: Path, cells: list[str]) -> Path:
    file = folder / "rows.csv"
    file.write_text("x|y\n" + "".join(f"{cell}|{row}\n" for row, cell in enumerate(cells)), "utf-8")
    return file


@pytest.mark.parametrize("command", ["send", "contribute"])
@pytest.mark.parametrize(("column", "cells", "answer"), ASKED.values(), ids=ASKED)
def test_a_command_asks_and_sends_when_it_is_answered(
    command: str, column: Column, cells: list[str], answer: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, file = network_of(column, contributors=command == "contribute"), file_of(tmp_path, cells)
    reach(monkeypatch, network)
    status, said = run(network, command, file)
    assert (status, network.nothing_left()) == (2, True), said
    assert "only you can say" in said
    assert run(network, command, file, *answer)[0] == 0
    assert not network.nothing_left()


@pytest.mark.parametrize("command", ["send", "contribute"])
@pytest.mark.parametrize(("column", "cells"), REFUSED.values(), ids=REFUSED)
def test_a_command_refuses_what_does_not_fit_before_anything_leaves(
    command: str, column: Column, cells: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = network_of(column, contributors=command == "contribute")
    reach(monkeypatch, network)
    status, said = run(network, command, file_of(tmp_path, cells))
    assert (status, network.nothing_left()) == (1, True)
    assert "column 'x': expected" in said


@pytest.mark.parametrize(("column", "cells"), [each[:2] for each in ASKED.values()], ids=ASKED)
async def test_frames_and_columns_in_python_ask_alike(column: Column, cells: list[str]) -> None:
    frame = pandas.DataFrame({"x": cells, "y": [0.0, 1.0]})
    network = network_of(column, contributors=False)
    async with network.client() as client:
        with pytest.raises(InvalidTableError, match="only you can say"):
            await client.send_many(frame)
    assert network.nothing_left()
    network = network_of(column, contributors=True)
    async with network.client() as client:
        for rows in (frame, {"x": cells, "y": [0.0, 1.0]}):
            with pytest.raises(InvalidTableError, match="only you can say"):
                await client.contribute(rows)
    assert network.nothing_left()


@pytest.mark.parametrize(("column", "cells"), [*(each[:2] for each in ASKED.values()), *REFUSED.values()])
async def test_a_row_with_a_text_for_a_number_or_an_unknown_level_is_refused_and_not_shown(
    column: Column, cells: list[str]
) -> None:
    network = network_of(column, contributors=False)
    async with network.client() as client:
        for cell in set(cells) - {"M", "F"}:
            with pytest.raises(InvalidRowError, match=r"column 'x': (expected|not one of)") as refused:
                await client.send({"x": cell, "y": 1})
            assert repr(cell) not in str(refused.value)
    assert network.nothing_left()


async def test_a_mapping_answers_in_python(tmp_path: Path) -> None:
    network = network_of(SEX, contributors=False)
    frame = pandas.DataFrame({"sex": ["M", "divers"], "y": [0.0, 1.0], "town": ["Bern", "Genf"]})
    mapping = FileMapping(rename={"sex": "x"}, columns=True, others={"x": {"divers": 1}})
    async with network.client() as client:
        assert (await client.send_many(frame, mapping=mapping)).sent == 2
