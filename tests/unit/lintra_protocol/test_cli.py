"""`lintra task`: tasks explained, and refusals in words."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from lintra_analysis.kinds.joint_question import JointQuestion, plan_ron_gauss
from lintra_protocol import cli, command
from lintra_protocol.errors import FalseClaimError, LintraError
from lintra_protocol.fields.contributors import Contributors
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import Sum
from lintra_protocol.privacy.statement import Claim
from support import make_task
from support.measured import calibrated_for, with_contributors

TASK = make_task("osnap", min_clients=8)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "task.json"
    path.write_bytes(TASK.canonical())
    return str(path)


def lintra(*arguments: str) -> int:
    try:
        command.main(list(arguments))
    except SystemExit as exit_:
        return int(exit_.code or 0)
    return 0


def test_show_explains_the_task_and_recomputes_its_privacy(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lintra("task", "show", file) == 0
    text = capsys.readouterr().out
    assert TASK.task_id in text
    assert "http://server-2.test" in text
    assert f"sigma {TASK.mechanism.sigma}" in text
    assert "Recomputed for 8 clients: epsilon 1 " in text
    assert "Recomputed for 1000 clients: epsilon 0.0754" in text
    assert "The promise holds" in text
    assert "Warning: the suite x25519" in text


def test_show_says_what_the_published_calibration_claims_and_what_it_gives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "task.json"
    path.write_bytes(make_task("osnap_published", rows=4, min_clients=2000, max_clients=2000).canonical())
    assert lintra("task", "show", str(path)) == 0
    text = capsys.readouterr().out
    assert "every entry is clipped to +-1, then every client adds noise" in text
    assert "published calibration, for comparison: claimed epsilon 1 by Theorem 3.4, exactly 0.6" in text


def test_show_says_to_which_persons_organisations_promise_and_what_is_left_if_some_collude(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = Contributors(rows_per_person=4, person_bound="1.5", organisations_per_person=2, max_rows=900, count="noisy")
    claim = Claim(epsilon="1", delta="0.000001", min_clients=5, max_corrupt_clients=4)
    mechanism = calibrated_for(with_contributors(Sum(row_bound="1", fraction_bits=0, sigma=4), held), 3, claim, 5)
    path = tmp_path / "task.json"
    path.write_bytes(make_task(mechanism, claim=claim, max_clients=5, max_missing="0", contributors=held).canonical())
    assert lintra("task", "show", str(path)) == 0
    text = capsys.readouterr().out
    assert "all rows of a person together are shrunk to norm 1.5, then every organisation adds noise" in text
    assert "to persons, each with at most 4 rows in at most 2 organisations; the number of rows is released" in text
    assert "if none of 5 organisations colludes, 0.4752 if 1 does, 0.5543 if 2 do, 0.6889 if 3 do, 1 if 4 do" in text
    assert "Recomputed for 5 organisations: epsilon 1 at delta 1e-06" in text


def test_show_names_the_levels_of_a_category_and_counts_sigma_in_its_own_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = (
        Column(name="age", lower="0", upper="90", center="45", scale="45", unit="a", kind="integer"),
        Column(name="town", lower="0", upper="1", kind="category", levels=("Basel", "Bern")),
    )
    asked = plan_ron_gauss(TASK.claim, columns, JointQuestion(label="town"), bytes(32))
    definition = make_task(calibrated_for(asked, 2, TASK.claim, 1000), columns=columns, min_clients=8)
    path = tmp_path / "task.json"
    path.write_bytes(definition.canonical())
    assert lintra("task", "show", str(path)) == 0
    text = capsys.readouterr().out
    assert "age  [0, 90] a  center 45  scale 45  integer" in text
    assert "town  one of Basel, Bern" in text
    assert f"in steps of 2^-{2 * definition.mechanism.fraction_bits};" in text
    assert "mapped rows are shrunk to norm" in text


def test_show_reads_standard_input_and_forgives_one_final_newline() -> None:
    result = CliRunner().invoke(cli.task, ["show", "-"], input=TASK.canonical() + b"\n")
    assert result.exit_code == 0
    assert TASK.task_id in result.output


def test_show_does_not_let_a_task_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "task.json"
    path.write_bytes(make_task().model_copy(update={"purpose": "red \x1b[31m and\nnew line"}).canonical())
    assert lintra("task", "show", str(path)) == 1
    captured = capsys.readouterr()
    assert "printable characters only" in captured.err
    assert "\x1b" not in captured.out + captured.err
    # What reaches the terminal is escaped all the same.
    assert cli.printable("red \x1b[31m and\nnew line") == "red \\x1b[31m and\\nnew line"


def test_a_false_promise_is_shown_and_then_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weak = make_task(TASK.mechanism.model_copy(update={"sigma": TASK.mechanism.sigma // 2}), check=False)
    path = tmp_path / "task.json"
    path.write_bytes(weak.canonical())
    assert lintra("task", "show", str(path)) == 1
    captured = capsys.readouterr()
    assert "Promised: epsilon 1 " in captured.out
    assert captured.err.startswith(f"{FalseClaimError.title()}\npromised epsilon 1 at delta 0.000001, but")


def test_verify_accepts_the_identifier_of_the_task(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lintra("task", "verify", file, "--id", TASK.task_id) == 0
    assert TASK.task_id in capsys.readouterr().out


def test_verify_refuses_another_identifier_and_names_both(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    other = make_task("sum").task_id
    assert lintra("task", "verify", file, "--id", other) == 1
    captured = capsys.readouterr()
    assert TASK.task_id in captured.err
    assert other in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("content", [b"", b"{}", b"not JSON", TASK.canonical() + b"\n\n", TASK.canonical()[:-1]])
def test_anything_else_than_a_task_is_refused_in_words(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "task.json"
    path.write_bytes(content)
    assert lintra("task", "show", str(path)) == 1
    assert capsys.readouterr().err.startswith("The message is malformed.\n")


def test_a_file_that_is_not_there_is_refused_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lintra("task", "show", str(tmp_path / "nothing")) == 1
    assert "No such file" in capsys.readouterr().err


def test_a_moment_beyond_the_calendar_is_still_told() -> None:
    lines = list(cli.describe(make_task(not_after=2**52, time_precision=3600)))
    assert any(f"until {2**52} units of 3600 s" in line for line in lines)


def test_a_refusal_without_detail_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: str) -> None:
        raise LintraError

    monkeypatch.setattr(cli, "read_task", refuse)
    assert lintra("task", "show", "x") == 1
    assert capsys.readouterr().err == "The request was refused.\n"
