"""The page on exact profiles: its command does what the page says, and its functions exist."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lintra_audit.release.cli import app

PAGE = (Path(__file__).resolve().parents[4] / "docs/explanation/ndis.md").read_text("utf-8")


def test_the_command_of_the_page_refutes_its_claim() -> None:
    (laws,) = re.findall(r"echo '(.*?)' \| lintra audit gaussian -", PAGE)
    result = CliRunner().invoke(app, ["gaussian", "-"], input=laws)
    assert result.exit_code == 1
    assert "verdict: VIOLATION" in result.stdout


@pytest.mark.parametrize("name", re.findall(r"^\| [^|]+ \| (`[^|]+`) \|", PAGE, re.MULTILINE))
def test_every_function_of_the_table_exists(name: str) -> None:
    import lintra_curator.ndis as toolbox

    for word in re.findall(r"`(\w+)", name):
        assert hasattr(toolbox, word), word
