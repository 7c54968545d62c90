"""docs/papers.md points at functions, tests and vectors that are there."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/papers.md").read_text("utf-8")
NAMED = re.compile(r"`((?:[\w.]+/)*[\w.]+\.(?:py|json))(?::\s*([\w., `]+?))?`")
FOLDERS = ("protocol", "service", "client", "server", "analyzer", "tests", "benchmarks", "deploy")


@cache
def files() -> dict[str, str]:
    """Return the text of every source and vector file by its path."""
    found = [path for folder in FOLDERS for ending in ("py", "json") for path in (ROOT / folder).rglob(f"*.{ending}")]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in found}


def pointed_at(name: str) -> list[str]:
    """Return the paths that a name means; `...` stands for some folders."""
    pattern = re.compile(r"(?:.*/)?" + re.escape(name).replace(r"\.\.\.", "[^.]+") + "$")
    return [path for path in files() if pattern.match(path)]


def defines(path: str, word: str) -> bool:
    return re.search(rf"\b(?:def|class) {word}\b|^{word}\b", files()[path], re.MULTILINE) is not None


def missing(page: str) -> list[str]:
    """Return what a page names and is not there: files, and names that a file should define."""
    gone = []
    for name, inside in NAMED.findall(page):
        paths = pointed_at(name)
        gone += [] if paths else [name]
        gone += [f"{name}: {word}" for word in re.findall(r"\w+", inside) if not any(defines(p, word) for p in paths)]
    return gone


def test_every_function_test_and_vector_that_the_page_names_is_there() -> None:
    assert len(NAMED.findall(PAGE)) > 100
    assert missing(PAGE) == []


@pytest.mark.parametrize(
    "planted", ["`mechanisms/osmap.py`", "`unit/.../test_ideals.py`", "`privacy/joint.py: joint_nu`"]
)
def test_a_planted_name_that_is_not_there_is_reported(planted: str) -> None:
    assert missing(planted)
    assert not missing("`mechanisms/osnap.py`, `unit/.../test_ideal.py`, `privacy/joint.py: joint_squared_mu`")
