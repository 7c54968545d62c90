"""Commands ask what only the owner of a file knows, and the options that they print answer it."""

import json
import re
import shlex
from pathlib import Path

import pytest

from lintra_analysis import read_columns
from lintra_protocol.command import main

TEXT = "share,when,code,y\n" + "".join(
    f"{row % 50}%,{1 + row % 9}/{1 + row % 7}/2020,0{row % 8},{row % 11}\n" for row in range(400)
)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = 0
    try:
        main(list(words))
    except SystemExit as end:
        status = int(end.code or 0)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "rows.csv"
    path.write_text(TEXT, "utf-8")
    return str(path)


@pytest.mark.parametrize(
    "command", [["columns"], ["schema", "infer", "--no-ask"], ["trial", "--target", "y", "--epsilon", "500"]]
)
def test_questions_end_a_command_with_2_and_the_first_printed_answers_end_the_questions(
    command: list[str], file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    status, _, error = run(capsys, *command, file)
    assert status == 2
    assert re.findall(r"^  (\w+): ", error, re.MULTILINE) == ["when", "code"]
    answers = [
        shlex.split(line.split(" or ")[0].removeprefix("    answer ")) for line in error.split("\n") if "answer" in line
    ]
    status, out, error = run(capsys, *command, file, *(word for answer in answers for word in answer))
    assert (status, "only you can say" in error) == (0, False), error
    assert out


def test_missing_cells_are_counted_for_each_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gaps.csv").write_text("x,town\n1.5,Bern\n,\n2.5,Chur\n", "utf-8")
    _, out, _ = run(capsys, "columns", str(tmp_path / "gaps.csv"))
    assert "real; missing in 1 of 3 rows;" in out
    assert "missing in 1 of 3 rows, which count as (other);" in out


def test_json_holds_every_report_with_its_question(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "columns", file, "--json")
    reports = {report["name"]: report for report in json.loads(out)}
    assert status == 2
    assert (reports["share"]["unit"], reports["share"]["question"]) == ("%", "")
    assert reports["code"]["options"] == ["number", "category", "drop"]


def test_an_unknown_reading_is_refused_with_those_that_there_are(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, error = run(capsys, "columns", file, "--as", "code=text")
    assert (status, "category-merged" in error) == (1, True)


CELLS = {
    "two units": ["5 kg", "11 lb"], "percent in some": ["53%", "7"], "parentheses": ["(12)", "3"],
    "one thousand or one": ["1,234", "5"], "two marks": ["1.5", "2,5"], "half numbers": ["1", "many"],
    "leading zeros": ["0012", "0405"], "a code with E": ["1E5", "2E4"], "a missing code": ["1", "2", "3", "-99"],
    "two letters": ["DE", "FR", "NA"], "no day": ["2020-01-01", "2020-13-45"], "two digits": ["1.2.20", "2.3.20"],
    "a time": ["2020-01-01T12:30", "2020-01-02T12:30"], "day or month": ["1/2/2020", "3/4/2020"],
    "spellings": ["M", "m", "F"], "only yes": ["yes", ""],
}  # fmt: skip


@pytest.mark.parametrize("cells", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("command", [["columns"], ["schema", "infer", "--no-ask"], ["trial", "--target", "y"]])
def test_no_cell_that_could_mean_two_things_is_described_or_tried_without_an_answer(
    command: list[str], cells: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.csv"
    rows = [f'"{cells[row % len(cells)]}",{row % 7},{row % 5}.5\n' for row in range(60)]
    file.write_text("x,y,z\n" + "".join(rows), "utf-8")
    status, _, error = run(capsys, *command, str(file))
    assert (status, re.findall(r"^  (\w+): ", error, re.MULTILINE)) == (2, ["x"])
    frame = pytest.importorskip("pandas").read_csv(file, dtype=str, keep_default_na=False)
    assert [report.name for report in read_columns(frame) if report.question] == ["x"]


def test_guesses_and_losses_are_said_aloud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    file = tmp_path / "rows.csv"
    file.write_text("x,y\n" + "".join(f"{row % 9 if row else 'many'},{row % 7}\n" for row in range(60)), "utf-8")
    for words in (["schema", "infer", "--no-ask"], ["trial", "--target", "y", "--epsilon", "500"]):
        _, _, error = run(capsys, *words, str(file), "--accept-guesses")
        assert "x: guessed, since 1 of its cells are no number, the first is 'many' in row 1" in error
        assert "x: 1 cells are no numbers and count as missing" in error


def test_codes_that_the_owner_states_stand_in_the_code_book_of_the_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("x,y\n" + "".join(f"{-99 if row < 3 else row % 9},{row % 7}\n" for row in range(60)), "utf-8")
    status, out, _ = run(capsys, "schema", "infer", "--no-ask", str(file), "--missing", "x=-99")
    (x, y) = json.loads(out)
    assert (status, x["code_book"], "code_book" in y) == (0, {"missing": ["-99"]}, False)
