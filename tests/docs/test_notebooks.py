"""Every notebook of the site runs as it stands, in a kernel of its own, and finds what its page says."""

import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.pages import ROOT

FOLDER = ROOT / "docs/notebooks"
SECONDS = 120
"""That one cell may take."""


def printed_by(page: Path) -> str:
    """Return everything that a notebook prints; a cell that fails raises, and so does a page without a figure."""
    from nbclient import NotebookClient

    notebook = import_module("myst_nb.core.read").read_myst_markdown_notebook(page.read_text("utf-8"), path=page)
    NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(page.parent)}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    if not any("image/png" in output.get("data", {}) for output in outputs):
        raise ValueError(f"{page.name} draws nothing")
    if written := [output["text"] for output in outputs if output.get("name") == "stderr"]:
        raise ValueError(f"{page.name} warns: {written}")
    return "".join(output["text"] for output in outputs if output.get("name") == "stdout")


def number(pattern: str, printed: str) -> float:
    """Return the number that a notebook prints where a pattern says."""
    found = re.search(pattern, printed)
    assert found, f"nothing like {pattern!r} in\n{printed}"
    return float(found[1])


def of_second_moments(printed: str) -> None:
    private = number(r"dep_delay +private +([\d.-]+)", printed)
    assert private == pytest.approx(number(r"dep_delay .*without privacy +([\d.-]+)", printed), abs=0.1)
    low, high = (number(rf"dep_delay .*six runs {part}", printed) for part in (r"+([\d.-]+) to", r".* to +([\d.-]+)"))
    assert low <= private <= high
    assert 0 < high - low < 0.1
    assert number(r"epsilon ([\d.]+) at delta 1e-06", printed) <= 1


def of_audit(printed: str) -> None:
    claimed = number(r"claimed: epsilon ([\d.]+)", printed)
    assert 0.8 * claimed < number(r"found: at least ([\d.]+)", printed) <= claimed
    least, most = (number(rf"five audits: at least {part}", printed) for part in (r"([\d.]+)", r"[\d.]+ to ([\d.]+)"))
    assert 0.8 * claimed < least < most <= claimed
    assert "\npassed\n" in printed
    assert "found by 5 audits of 5" in printed
    before, _, after = printed.rpartition("passed  ")
    assert "FAILED" not in before
    assert "FAILED  optimal" in after


def of_synthetic_rows(printed: str) -> None:
    true = number(r"correlation ([\d.]+) of the people", printed)
    assert number(r"people, ([\d.-]+) of the made-up rows", printed) == pytest.approx(true, abs=0.1)
    least, most = (number(rf"ten more releases: {part}", printed) for part in (r"([\d.]+)", r"[\d.]+ to ([\d.]+)"))
    assert true - 0.1 < least <= most < true + 0.1


def of_sixteen_airlines(printed: str) -> None:
    assert number(r"all together .*flights +([\d.]+)", printed) > 0.86
    assert number(r"all together .*flights +[\d.]+ \(([\d.]+) to", printed) > 0.85
    # Fewer than 1,000 flights: alone they do much worse.
    for airline in ("AS", "F9", "YV", "HA", "OO"):
        assert number(rf"{airline} alone .*flights +(-?[\d.]+)", printed.replace("nothing", "-1")) < 0.7


def of_privacy_profiles(printed: str) -> None:
    assert number(r"epsilon 0.5: delta at most ([\d.]+)", printed) == pytest.approx(0.1299951968769, abs=2e-9)
    assert re.search(r"delta 0.001: violation", printed, re.IGNORECASE)
    assert re.search(r"delta 0.02: within", printed, re.IGNORECASE)


CLAIMS: dict[str, Callable[[str], None]] = {
    "audit": of_audit,
    "privacy-profiles": of_privacy_profiles,
    "second-moments": of_second_moments,
    "sixteen-airlines": of_sixteen_airlines,
    "synthetic-rows": of_synthetic_rows,
}


def test_every_notebook_has_a_claim_here_and_says_that_it_is_one() -> None:
    found = sorted(FOLDER.glob("*.md"))
    assert [page.stem for page in found] == sorted(CLAIMS)
    for page in found:
        text = page.read_text("utf-8")
        assert text.startswith("---\nfile_format: mystnb\nkernelspec:\n")
        assert "\nThis page is a notebook, run while the site is built" in text
        assert 4 <= text.count("\n```{code-cell}") <= 8


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("myst_nb") is None or find_spec("ipykernel") is None, reason="needs the group docs: make .venv/.more"
)
@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_a_notebook_runs_without_an_error_and_prints_what_its_page_says(name: str) -> None:
    CLAIMS[name](printed_by(FOLDER / f"{name}.md"))


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("myst_nb") is None or find_spec("ipykernel") is None, reason="needs the group docs: make .venv/.more"
)
def test_a_notebook_with_a_cell_that_fails_is_found(tmp_path: Path) -> None:
    from nbclient.exceptions import CellExecutionError

    planted = tmp_path / "planted.md"
    planted.write_text(
        "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n\n```{code-cell} python\n1 / 0\n```\n"
    )
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        printed_by(planted)
