"""`lintra analyzer access`: made, listed and revoked beside an analyzer that goes on running."""

import json
import re
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lintra_analyzer.cli import app
from lintra_analyzer.commands import access
from support.analyzer_world import NOW, Life

SERVERS = "".join(f'\n[[servers]]\nurl = "http://server-{n}.test"\n' for n in range(2))


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "analyzer.toml"
    path.write_text(f'data_dir = "data"\ntrust_on_first_use = true\nport = 8765\n{SERVERS}')
    return path


def said(*words: str, config: Path) -> Result:
    return CliRunner().invoke(app, [*words, "--config", str(config)], env={"COLUMNS": "200"})


def test_a_token_is_made_listed_and_revoked(config: Path) -> None:
    made = said("access", "add", "Ada", "--role", "viewer", "--days", "30", "--population", "ward 3", config=config)
    assert made.exit_code == 0, made.output
    assert re.fullmatch(r"lintra_\S{43}\n", made.stdout)
    (listed,) = json.loads(said("access", "list", "--json", config=config).stdout)
    assert (listed["name"], listed["role"], listed["populations"]) == ("Ada", "viewer", ["ward 3"])
    assert listed["token_id"] in made.stderr
    assert made.stdout.strip() not in said("access", "list", config=config).stdout
    assert said("access", "revoke", listed["token_id"], config=config).exit_code == 0
    assert "revoked" in said("access", "list", config=config).stdout
    unknown = said("access", "revoke", "0" * 12, config=config)
    assert (unknown.exit_code, "no token 000000000000" in unknown.stderr) == (1, True)


@pytest.mark.parametrize(
    "words", [("--role", "owner"), ("--role", "operator", "--population", "a"), ("--role", "viewer", "--days", "0")]
)
def test_a_token_that_cannot_be_is_refused(config: Path, words: tuple[str, ...]) -> None:
    before = said("access", "list", config=config).stdout
    assert said("access", "add", "x", *words, config=config).exit_code != 0
    assert said("access", "list", config=config).stdout == before


async def test_a_link_made_beside_a_running_analyzer_signs_in_there_once(
    life: Life, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_now", lambda: NOW)  # the world's clock stands still
    beside = config.with_name("beside.toml")
    beside.write_text(config.read_text().replace('"data"', json.dumps(str(life.settings.data_dir))))
    link = said("sign-in-link", config=beside).stdout.strip()
    assert link.startswith("http://127.0.0.1:8765/sign-in?code=")
    code = link.partition("code=")[2]
    async with life.rest(None) as rest:
        for status in (303, 401):
            answer = await rest.post("/sign-in", data={"code": code}, headers={"origin": "http://analyzer.test"})
            assert answer.status_code == status
    elsewhere = said("sign-in-link", "--url", "https://lintra.example/", config=beside).stdout
    assert elsewhere.startswith("https://lintra.example/sign-in?code=")
