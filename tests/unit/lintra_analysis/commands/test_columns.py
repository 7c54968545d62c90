"""Commands ask what only the owner of a file knows, and the options that they print answer it."""

import json
import re
import shlex
from pathlib import Path

import pytest

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


def test_json_holds_every_report_with_its_question(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "columns", file, "--json")
    reports = {report["name"]: report for report in json.loads(out)}
    assert status == 2
    assert (reports["share"]["unit"], reports["share"]["question"]) == ("%", "")
    assert reports["code"]["options"] == ["number", "category", "drop"]


def test_an_unknown_reading_is_refused_with_those_that_there_are(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, error = run(capsys, "columns", file, "--as", "code=text")
    assert (status, "category-merged" in error) == (1, True)
