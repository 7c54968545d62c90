"""Figures of the house that may only get better: size and depth of a mechanism, doubled names, modules without a test.

The limits stand in figures.toml, which says today's figures and shrinks.
"""

import tomllib
from functools import cache
from pathlib import Path

import pytest

from lintra_protocol.mechanisms import MECHANISMS
from support.house import (
    FOLDERS,
    decides,
    doubled_classes,
    figures,
    ladder,
    lines_a_comment,
    lines_of_kinds,
    lines_of_through,
    modules,
    public_members,
    untested,
)
from support.house import test_of as place_of_its_test
from support.import_graph import ROOT

LIMITS = tomllib.loads((Path(__file__).parent / "figures.toml").read_text("utf-8"))
MOST = LIMITS["most"]
NAMED = "tests/unit/<package>/<room>/test_<module>.py"
STALE = 5
"""So many lines of a list may be needed no more: several people rename at the same time."""


@cache
def measured() -> dict[str, int]:
    return {
        "members_of_mechanism": len(public_members()),
        "depth_of_a_mechanism": max(len(ladder(kind)) for kind in MECHANISMS.values()),
        "lines_of_a_kind": max(lines_of_kinds().values()),
        "without_a_test_of_their_name": len(untested()),
    }


@pytest.mark.parametrize("name", MOST)
def test_a_figure_is_no_worse_than_its_limit(name: str) -> None:
    assert measured()[name] <= MOST[name]


def test_no_class_name_stands_twice_but_those_that_are_listed_and_the_list_shrinks() -> None:
    listed, doubled = set(LIMITS["doubled"]["names"]), set(doubled_classes())
    assert not doubled - listed
    assert len(listed - doubled) <= STALE, listed - doubled


def test_a_module_without_a_test_of_its_name_says_which_test_decides_about_it() -> None:
    lines, without = lines_of_through(), set(untested())
    lacking = sorted(map(str, without - set(lines)))
    assert not lacking, f"{', '.join(lacking)}: make {NAMED}, or write a line in tests/unit/through.toml"
    assert len(set(lines) - without) <= STALE, f"these lines are needed no more: {set(lines) - without}"
    assert [test for test in lines.values() if not (ROOT / test).is_file()] == []


@pytest.mark.slow  # reads every token of the source
def test_every_figure_of_the_table_is_computed() -> None:
    assert set(measured()) == set(MOST)
    assert len(figures()) == 11
    assert {path.relative_to(ROOT).parts[0] for path in modules()} == set(FOLDERS)
    assert lines_a_comment() > 1


@pytest.mark.parametrize(
    ("source", "decided"),
    [
        ("x = 1\n" * 80, False),
        ("x = 1\n" * 80 + "if x:\n    y = 2\n", True),
        ("if x:\n    y = 2\n", False),
        ("x = 1\n" * 80 + "y = [a for a in b if a]\n", True),
        ("x = 1\n" * 80 + "y = [a for a in b]\n", False),
    ],
)
def test_a_long_module_that_chooses_needs_a_test(source: str, *, decided: bool) -> None:
    assert decides(source) is decided


def test_a_test_stands_where_its_module_does() -> None:
    module = ROOT / "protocol/lintra_protocol/crypto/ring.py"
    assert place_of_its_test(module) == ROOT / "tests/unit/lintra_protocol/crypto/test_ring.py"
