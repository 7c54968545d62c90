"""The columns of a file as a task needs them: nothing of a private row stands in them but what was asked for."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lintra_analysis.commands.schema import app
from lintra_analysis.spec.specification import ColumnSpecification
from lintra_analysis.trial.files.schema import column_documents, complete_with, questions
from lintra_analysis.trial.files.table import read_table
from lintra_protocol.errors import InvalidTaskError

ROWS = """\
age,smokes,town,joined,weight
31,1,Bern,2020-01-01,71.25
47,0,Chur,2021-05-05,88.75
31,0,Bern,2020-02-01,71.5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text(ROWS, "utf-8")
    return path


def test_bounds_are_left_open_unless_somebody_says_that_they_are_public(file: Path) -> None:
    documents = column_documents(read_table(file))
    open_ends = [(name, end) for name in ("age", "joined", "weight") for end in ("lower", "upper")]
    assert list(questions(documents)) == open_ends
    text = json.dumps(documents)
    assert not any(cell in text for cell in ("31", "47", "71", "88", "18262"))


def test_answers_complete_the_columns_of_a_specification(file: Path) -> None:
    answers = "0\n120\n0\n30000\n30\n250.50\n"
    found = CliRunner().invoke(app, ["infer", str(file)], input=answers)
    assert found.exit_code == 0, found.output
    columns = [
        ColumnSpecification.model_validate(document)
        for document in json.loads(found.stdout[found.stdout.index("[\n") :])
    ]
    assert [(column.name, column.lower, column.upper) for column in columns] == [
        ("age", "0", "120"),
        ("smokes", "0", "1"),
        ("town", "0", "2"),
        ("joined", "0", "30000"),
        ("weight", "30", "250.5"),
    ]


def test_what_is_not_answered_stays_open_and_no_task_takes_it(file: Path) -> None:
    found = CliRunner().invoke(app, ["infer", str(file), "--no-ask"])
    document = json.loads(found.stdout)[0]
    assert document == {"name": "age", "kind": "integer", "lower": None, "upper": None}
    with pytest.raises(ValueError, match="lower"):
        ColumnSpecification.model_validate(document)


def test_bounds_of_a_public_file_may_be_taken_over(file: Path) -> None:
    found = CliRunner().invoke(app, ["infer", str(file), "--bounds-from-file"])
    weight = json.loads(found.stdout)[-1]
    assert float(weight["lower"]) == pytest.approx(71.25, abs=0.1)
    assert float(weight["upper"]) == pytest.approx(88.75, abs=0.1)


def test_an_answer_that_is_no_number_is_refused(file: Path) -> None:
    with pytest.raises(InvalidTaskError, match="column 'age': lower is a number, got 'young'"):
        complete_with(column_documents(read_table(file)), "age", "lower", "young")
