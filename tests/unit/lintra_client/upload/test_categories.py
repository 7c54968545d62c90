"""Rows with categories: by name in files and mappings, by number in arrays; and which are told to be clipped."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lintra_analysis.kinds.joint_question import JointQuestion, plan_ron_gauss
from lintra_client import Client, ClientPolicy
from lintra_client.commands import client as cli
from lintra_client.sending.sealed_reports import were_clipped
from lintra_protocol.errors import InvalidRowError
from lintra_protocol.fields.schema import OTHER, Column
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.task import Task
from support import make_task, source
from support.fake_servers import IMPATIENT, NOW, Network
from support.measured import calibrated_for

COLUMNS = (
    Column(name="age", lower="0", upper="100", center="50", scale="50", kind="integer"),
    Column(name="size", lower="-1", upper="1"),
    Column(name="town", lower="0", upper="2", kind="category", levels=("1", "2", "Chur")),
)


def labelled_task() -> Task:
    claim = Claim(epsilon="1", delta="0.000001", min_clients=8)
    asked = plan_ron_gauss(
        claim, COLUMNS, JointQuestion(label="town", dimension=2, bins=4, radius=Fraction(9, 10)), bytes(32)
    )
    return make_task(calibrated_for(asked, 3, claim, 1000), columns=COLUMNS, claim=claim)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    return reaching(monkeypatch, labelled_task())


def reaching(monkeypatch: pytest.MonkeyPatch, task: Task) -> Network:
    """Let the command line reach fake servers of a task."""
    network = Network(task)

    def client(*args: object, **options: object) -> Client:
        return Client(*args, **options, retries=IMPATIENT, now=lambda: NOW, transport=network)  # type: ignore[arg-type]

    monkeypatch.setattr(cli, "Client", client)
    return network


def test_a_file_names_levels_also_those_that_look_like_numbers(network: Network, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("town,age,size\n2,30,0.1\nChur,31,0.1\n,30,0.1\nNA,30,0\n1,,0\n1,99,0.9\n", "utf-8")
    servers = [word for url in network.urls for word in ("--server", url)]
    send = ["send", network.task.task_id, *servers, str(file), "--no-ledger", "--trust-enrolment", "--json"]
    lenient = json.loads(CliRunner().invoke(cli.app, send).stdout)
    assert (lenient["sent"], lenient["incomplete"], lenient["failed"]) == (6, 3, [])
    result = CliRunner().invoke(cli.app, [*send, "--strict"])
    account = json.loads(result.stdout)
    assert account["sent"] == 3
    assert [(failed["row"], failed["detail"]) for failed in account["failed"]] == [
        (2, "column 'town': not a finite number"),
        (3, "column 'town': not a finite number"),
        (4, "column 'age': not a finite number"),
    ]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            "Bern,30,0",
            "row 2, column 'town': expected one of its 3 levels, 1, 2, Chur, got str. The cell holds 'Bern'",
        ),
        ("2.0,30,0", "row 2, column 'town': expected one of its 3 levels, 1, 2, Chur, got str. The cell holds '2.0'"),
        ("none,30,0", "row 2, column 'town': expected one of its 3 levels, 1, 2, Chur, got str. The cell holds 'none'"),
        ("1,30.5,0", "row 2, column 'age': expected a whole number. The cell holds '30.5': write a whole number such"),
    ],
)
def test_a_file_with_a_cell_of_another_kind_is_refused_before_anything_leaves(
    network: Network, tmp_path: Path, line: str, complaint: str
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f"town,age,size\n2,30,0.1\n{line}\n", "utf-8")
    servers = [word for url in network.urls for word in ("--server", url)]
    result = CliRunner().invoke(
        cli.app, ["send", network.task.task_id, *servers, str(file), "--no-ledger", "--trust-enrolment"]
    )
    assert result.exit_code == 1
    assert complaint in result.stderr
    assert network.nothing_left()


def test_a_level_that_the_task_does_not_have_is_refused_until_the_sender_confirms_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sex = Column(name="sex", lower="0", upper="2", kind="category", levels=("M", "F", OTHER))
    network = reaching(monkeypatch, make_task("sum", columns=(sex, COLUMNS[1])))
    file = tmp_path / "rows.csv"
    file.write_text("sex,size\nmale,0\nF,0\n,0\n(other),0\nmale,0\n", "utf-8")
    servers = [word for url in network.urls for word in ("--server", url)]
    send = ["send", network.task.task_id, *servers, str(file), "--no-ledger", "--trust-enrolment"]
    refused = CliRunner().invoke(cli.app, send)
    assert refused.exit_code == 2
    assert "2 cells are 'male', none of its 3 levels, M, F, (other)" in refused.stderr
    assert "--other 'sex=male:2'" in refused.stderr
    assert CliRunner().invoke(cli.app, [*send, "--other", "sex=male:1"]).exit_code == 2
    assert network.nothing_left()
    result = CliRunner().invoke(cli.app, [*send, "--other", "sex=male:2"])
    assert "5 rows sent" in result.stdout
    assert "sex: 2 cells 'male' are sent as (other)" in result.stderr


async def test_a_row_is_the_same_by_name_and_in_an_array_by_number(network: Network) -> None:
    async with network.client(strict=True, policy=ClientPolicy(trust_enrolment=True)) as client:
        by_name = client.prepare({"age": 30, "size": 0.1, "town": "2"}, source("client"))
        by_number = client.prepare(np.array([30, 0.1, 1]), source("client"))
        assert by_name.reports == by_number.reports
        with pytest.raises(InvalidRowError, match="'town': expected the name of a level, got int"):
            client.prepare([30, 0.1, 1], source("client"))


def test_rows_that_a_bound_moves_are_told_to_be_clipped() -> None:
    rows = np.array([[50, 0.1, 2], [50, 1, 0], [101, 0, 0], [50, 0, 2]])
    task, whole = labelled_task(), np.zeros(4, np.bool_)
    schema = task.schema_arrays
    clipped = were_clipped(task, schema.normalise(rows), schema.outside(rows), whole)
    assert clipped.tolist() == [False, True, True, False]
