"""Whoever starts at the README has a private regression of a table of their own within three commands."""

import csv
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support.pages import ROOT, blocks, commands


def first_commands() -> list[str]:
    """Return the commands of the README up to the first that makes a regression."""
    found: list[str] = []
    for block in blocks("README.md"):
        if block.kind == "shell":
            for command in commands(block.text):
                found.append(command)
                if command.startswith("lintra try"):
                    return found
    raise AssertionError("the README tries nothing")


def test_the_first_regression_comes_within_three_commands() -> None:
    assert len(first_commands()) <= 3
    assert all(command.startswith(("pip install 'lintra[", "lintra ")) for command in first_commands())


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
    (extras,) = re.findall(r"^pip install 'lintra\[([\w,-]+)\]'$", install[0])
    assert set(extras.split(",")) == {"analysis", "client-cli"}
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
    (shown,) = re.findall(r"^age +([\d.]+) +([\d.]+) +([\d.]+)", said.stdout, re.MULTILINE)
    # The table was made with .5 a year; noise of epsilon 1 and clipping move that by some hundredths at 8,000 rows.
    assert abs(float(shown[0]) - 0.5) < 0.1, said.stdout
    assert float(shown[1]) < float(shown[0]) < float(shown[2])
