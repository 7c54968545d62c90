"""The page on exact profiles: its example runs, and its command does what the page says."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lintra_audit.release.cli import app
from lintra_curator.ndis import Certified

PAGE = (Path(__file__).resolve().parents[4] / "docs/ndis.md").read_text("utf-8")


def test_the_example_of_the_page_runs_and_gives_its_numbers() -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    made: dict[str, object] = {}
    exec(source, made)
    promise, both = made["promise"], made["both"]
    assert isinstance(promise, np.ndarray)
    assert isinstance(both, Certified)
    assert promise[0] == pytest.approx(0.1299951968769, rel=1e-8)
    assert (np.diff(promise) < 0).all()
    assert made["leverage"] == pytest.approx(0.02736713984467, rel=1e-9)
    assert 2.0 < both.lo <= both.hi < both.lo + 1e-4


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
