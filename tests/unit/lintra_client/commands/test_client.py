"""`lintra client`: what it prints, and how it exits."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lintra_client import Client, Ledger
from lintra_client.commands import client as cli
from lintra_client.commands.terminal import servers_of
from lintra_client.ledger.ledger import default_path
from lintra_protocol.errors import UnavailableError
from lintra_protocol.privacy.statement import Claim
from lintra_protocol.privacy.study import Study
from lintra_protocol.task import Task
from support import make_task
from support.fake_servers import IMPATIENT, NOW, Network
from support.tasks import columns_of


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    return reached(monkeypatch, make_task())


def reached(monkeypatch: pytest.MonkeyPatch, task: Task) -> Network:
    """Let the command line reach fake servers of a task."""
    network = Network(task)

    def client(*args: object, **options: object) -> Client:
        return Client(*args, **options, retries=IMPATIENT, now=lambda: NOW, transport=network)  # type: ignore[arg-type]

    monkeypatch.setattr(cli, "Client", client)
    return network


def run(network: Network, command: str, *arguments: str) -> Result:
    servers = [word for url in network.urls for word in ("--server", url)]
    return CliRunner().invoke(cli.app, [command, network.task.task_id, *servers, *arguments])


def csv_file(folder: Path, *lines: str) -> str:
    file = folder / "rows.csv"
    file.write_text("\n".join(lines), encoding="utf-8")
    return str(file)


def test_check_prints_what_a_task_asks_and_promises(network: Network) -> None:
    result = run(network, "check")
    assert result.exit_code == 0
    for fact in (
        "epsilon: 1",
        "columns: a, b, c",
        "fewest reports that are released: 7",
        "At most epsilon 2.89 if everybody but you is invented",
        "purpose: a test",
        "no post-quantum part",
    ):
        assert fact in result.output


def test_check_names_the_first_of_very_many_columns_and_all_of_them_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = reached(monkeypatch, make_task("sum", columns=columns_of(f"c{i}" for i in range(150))))
    assert "and 130 more (--json lists them)" in run(wide, "check").output
    assert len(json.loads(run(wide, "check", "--json").stdout)["columns"]) == 150


def test_check_prints_json(network: Network) -> None:
    result = run(network, "check", "--json")
    facts = json.loads(result.stdout)
    assert facts["task_id"] == network.task.task_id
    assert facts["columns"] == ["a", "b", "c"]
    assert facts["bytes_to_each_server"] == ["57"] * 3


def test_check_tells_what_a_pilot_and_its_main_task_cost_together(monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study(epsilon="1", delta="0.000001", share="0.1")
    claim = Claim(epsilon="0.25", delta="0.000001", min_clients=100)
    network = reached(monkeypatch, make_task(claim=claim, study=study))
    told = json.loads(run(network, "check", "--json", "--trust-enrolment").stdout)
    assert (told["epsilon"], told["study_epsilon"], told["study_delta"]) == ("0.25", "1", "0.000001")
    assert float(told["study_judged_epsilon"]) == pytest.approx(1)
    assert told["study"].startswith("pilot; a ledger charges both")
    refused = run(network, "check", "--max-epsilon", "0.5")
    assert refused.exit_code == 1
    assert "more than 0.5" in refused.stderr


def test_a_refusal_is_one_line_and_exit_code_1(network: Network) -> None:
    result = run(network, "check", "--max-epsilon", "0.5")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "The task is valid, but local policy does not allow it. epsilon is 1 at delta 1e-06, more than 0.5; "
        "promised are epsilon 1 at delta 0.000001\n"
    )


def test_a_malformed_identifier_is_one_line_and_exit_code_1() -> None:
    result = CliRunner().invoke(cli.app, ["check", "x", "--server", "https://a.test", "--server", "https://b.test"])
    assert result.exit_code == 1
    assert "not a task identifier" in result.stderr


@pytest.mark.parametrize("identifier", ["-nPd", "--nPd", "-h"])
def test_an_identifier_that_begins_with_a_hyphen_is_an_identifier(identifier: str) -> None:
    result = CliRunner().invoke(
        cli.app, ["check", identifier, "--server", "https://a.test", "--server", "https://b.test"]
    )
    assert result.exit_code == 1
    assert "not a task identifier" in result.stderr


def test_send_sends_every_line_in_any_order_of_columns(network: Network, tmp_path: Path) -> None:
    result = run(network, "send", csv_file(tmp_path, "b,c,a", "0.5,0,-0.25", "", "9,0,0"))
    assert result.exit_code == 0, result.output
    assert "2 rows sent, 1 of them clipped, 0 failed" in result.stdout
    assert len(network.servers[0].payloads) == 2


def test_send_reports_lines_that_do_not_fit_and_exits_with_1(network: Network, tmp_path: Path) -> None:
    file = csv_file(tmp_path, "a,b,c", "0,0,0", "0,n/a,0", "nan,0,0", "0,0,0")
    result = run(network, "send", file, "--json", "--strict")
    account = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (account["sent"], account["stopped"]) == (2, None)
    assert [(failed["row"], failed["error"]) for failed in account["failed"]] == [
        (row, "invalid_row") for row in (1, 2)
    ]
    assert "'b'" in account["failed"][0]["detail"]


def test_a_person_whom_a_file_spells_in_many_ways_has_one_report_at_the_price_that_is_promised(
    network: Network, tmp_path: Path
) -> None:
    spelled = ["17", "17.0", "017", "+17", "1.7e1", "\uff11\uff17", " 17", "Ann", "ANN", "A\u200bnn"]
    file = csv_file(tmp_path, "a,b,c,who", *(f"0,0,0,{name}" for name in spelled))
    asked = run(network, "send", file, "--source-column", "who")
    assert (asked.exit_code, network.nothing_left()) == (2, True)
    assert "1 names, column 'who' differ from others in capitals only" in asked.stderr
    result = run(network, "send", file, "--source-column", "who", "--same-persons")
    assert "2 rows sent, 0 of them clipped, 8 failed" in result.stdout
    assert "8 spellings of names were joined with others" in result.stdout
    assert "row 2: " in result.stderr
    assert "its source has a row in this call already" in result.stderr
    # With a spelling for each row somebody sent seven reports: epsilon 2.12 at a promised 1, and more.
    assert [len(server.payloads) for server in network.servers] == [2, 2, 2]
    with Ledger(default_path()) as ledger:
        assert max(ledger.spent(name).epsilon for name in spelled) <= 1 + 1e-9
    again = run(network, "send", file, "--source-column", "who", "--json", "--same-persons")
    assert (json.loads(again.stdout)["joined"], len(network.servers[0].payloads)) == (8, 2)
    shown = CliRunner().invoke(cli.app, ["ledger", "show", "--source", "17.0", "--json"])
    assert [entry["source"] for entry in json.loads(shown.stdout)["entries"]] == ["17.0"]


def test_a_line_that_names_nobody_stops_the_file_by_row_and_column(network: Network, tmp_path: Path) -> None:
    file = csv_file(tmp_path, "a,b,c,who", "0,0,0,17", "0,0,0,", "0,0,0,19")
    result = run(network, "send", file, "--source-column", "who")
    assert result.exit_code == 1
    assert "row 2, column 'who': nobody is named here" in result.stderr
    assert network.nothing_left()


def test_send_sends_lines_with_missing_values_and_says_how_many_to_the_sender_alone(
    network: Network, tmp_path: Path
) -> None:
    file = csv_file(tmp_path, "a,b,c", "0,0,0", "0,N/A,0", "nan,0,0", "0, ,0")
    result = run(network, "send", file, "--no-ledger")
    assert "4 rows sent, 0 of them clipped, 3 with a missing value, 0 failed" in result.stdout
    assert len(network.servers[0].payloads) == 4


@pytest.mark.parametrize("line", ["0,0", "0,0,0,0"])
def test_send_refuses_a_line_of_too_few_or_too_many_cells_before_anything_leaves(
    network: Network, tmp_path: Path, line: str
) -> None:
    result = run(network, "send", csv_file(tmp_path, "a,b,c", "0,0,0", line), "--no-ledger")
    assert result.exit_code != 0
    assert f"row 2 has {line.count(',') + 1} cells, the first line has 3 names" in result.stderr
    assert network.nothing_left()


@pytest.mark.parametrize("cell", ["yes", "no", "n/a?", "53%", "zero", "1_0", "inf", "1 0", "5 kg"])
def test_send_refuses_a_file_with_a_text_among_numbers_before_anything_leaves(
    network: Network, tmp_path: Path, cell: str
) -> None:
    result = run(network, "send", csv_file(tmp_path, "a,b,c", "0,0,0", f"0,{cell},0", "0,0,0"), "--no-ledger")
    assert result.exit_code == 1
    assert "Nothing was sent. row 2, column 'b': expected a number" in result.stderr
    assert f"The cell holds '{cell}': write a number such as 1.5, and leave the cell empty if the" in result.stderr
    assert network.nothing_left()


@pytest.mark.parametrize("header", ["a,b", "a,b,c,d", "a,b,b", "1,2,3", ""])
def test_send_refuses_a_file_with_other_columns_before_anything_leaves(
    network: Network, tmp_path: Path, header: str
) -> None:
    result = run(network, "send", csv_file(tmp_path, header, ",".join("0" for _ in header.split(","))))
    assert result.exit_code == 1
    assert "the task has a, b, c" in result.stderr or "two columns of the same name" in result.stderr
    assert network.nothing_left()


def test_send_says_why_it_stopped(network: Network, tmp_path: Path) -> None:
    network.servers[0].refuse = lambda known: UnavailableError("maintenance")
    result = run(network, "send", csv_file(tmp_path, "a,b,c", "0,0,0"))
    assert result.exit_code == 1
    assert "stopped early: The service cannot answer now. maintenance" in result.stderr


def test_a_server_may_be_reached_elsewhere_than_at_its_url() -> None:
    options = ["https://a.test=http://localhost:1", "https://b.test"]
    assert servers_of(options) == {"https://a.test": "http://localhost:1", "https://b.test": "https://b.test"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--token", "t"], "1 tokens for 2 rows"),
        (["--tokens", "one.txt"], "1 tokens for 2 rows"),
        (["--token", "t", "--tokens", "one.txt"], "not both"),
    ],
)
def test_every_row_needs_a_token_of_its_own(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.txt").write_text("token\n", "ascii")
    result = run(network, "send", csv_file(tmp_path, "a,b,c", "0,0,0", "0,0,0"), "--no-ledger", *options)
    assert result.exit_code == 1
    assert complaint in result.stderr
    assert network.nothing_left()
