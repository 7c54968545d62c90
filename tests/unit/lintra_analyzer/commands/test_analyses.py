"""The flags of `lintra analyzer analyse` are the options of the table of analyses."""

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from lintra_analyzer.commands import analyses
from lintra_analyzer.web.analyses import ANALYSES

Answer = tuple[str, dict[str, object]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Answer]:
    """What the command asks for, which nobody answers."""
    found: list[Answer] = []

    def answer(url: str, token: str, release_id: str, kind: str, given: dict[str, object], **shape: bool) -> None:
        found.append((kind, {name: value for name, value in given.items() if value is not None}))

    monkeypatch.setattr(analyses, "_answer", answer)
    return found


def type_words(*words: str) -> int:
    return CliRunner().invoke(analyses.app, ["analyse", "R", *words]).exit_code


def test_every_option_of_every_analysis_is_a_flag_with_its_help() -> None:
    (command,) = [one for name, one in vars(get_command(analyses.app))["commands"].items() if name == "analyse"]
    helps = {parameter.name: getattr(parameter, "help", None) for parameter in command.params}
    for analysis in ANALYSES.values():
        assert {name: helps.get(name) for name in analysis.arguments} == {
            name: analysis.help_of(name) for name in analysis.arguments
        }


def test_a_list_is_a_flag_that_is_repeated_in_either_number(asked: list[Answer]) -> None:
    assert type_words("--kind", "histogram", "--quantile", "0.1", "--quantiles", "0.9", "--column", "a") == 0
    assert asked == [("histogram", {"quantiles": [0.1, 0.9], "columns": ["a"]})]


def test_one_penalty_is_not_taken_for_several(asked: list[Answer]) -> None:
    assert type_words("--kind", "regression", "--regularization", "2", "--no-intercept") == 0
    assert type_words("--kind", "regression-path", "--regularizations", "1", "--regularizations", "2") == 0
    assert [given for _, given in asked] == [
        {"regularization": 2.0, "intercept": False},
        {"regularizations": [1.0, 2.0]},
    ]


def test_a_number_that_is_none_is_refused_before_anything_is_asked(asked: list[Answer]) -> None:
    assert type_words("--kind", "pca", "--components", "two") == 2
    assert asked == []
