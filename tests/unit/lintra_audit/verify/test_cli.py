"""`lintra audit verify`: its attacks, and that it fails where a rule is missing that should be kept."""

import pytest
from typer.testing import CliRunner

from lintra_audit.release.cli import app


def test_unknown_attacks_and_rules_are_refused_with_the_names_of_those_there_are() -> None:
    for option, known in (("--attack", "shares of two"), ("--fault", "late matrix")):
        result = CliRunner().invoke(app, ["verify", option, "nothing"])
        assert result.exit_code == 2
        assert known.split()[0] in result.output


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "attack"), [("verdict", "added"), ("agreement", "two bodies"),
                                              ("late matrix", "isolation"), ("database", "editor")])  # fmt: skip
def test_an_audit_of_servers_that_lack_a_rule_ends_with_status_1(rule: str, attack: str) -> None:
    result = CliRunner().invoke(app, ["verify", "--attack", attack, "--fault", rule])
    assert result.exit_code == 1
    assert "verdict: fail" in result.stdout
