"""All attacks on real servers: each fails against its rule and works without it."""

import json

import pytest
from typer.testing import CliRunner

from lintra_audit.release.cli import app
from lintra_audit.verify.run import known_attacks


@pytest.mark.slow
def test_every_attack_on_real_servers_fails_against_its_rule_and_works_without_it() -> None:
    result = CliRunner().invoke(app, ["verify", "--json"])
    document = json.loads(result.stdout)
    assert [attack["name"] for attack in document["attacks"]] == known_attacks()
    assert [attack["name"] for attack in document["attacks"] if attack["verdict"] != "pass"] == []
    assert result.exit_code == 0
