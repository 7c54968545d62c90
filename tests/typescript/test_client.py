"""The client in TypeScript against this one: its own tests, and the same reports from the same random bytes."""

import json
import subprocess
import sys
import unicodedata
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from lintra_protocol.fields.code_book import folded

sys.path.append(str(Path(__file__).resolve().parent))
from drawn_tasks import answers, draw


def node(built: Path, *arguments: str, given: str = "") -> str:
    done = subprocess.run(["node", *arguments], cwd=built, input=given, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def test_its_own_tests_pass(built: Path) -> None:
    node(built, "--test", *sorted(str(path.relative_to(built)) for path in built.glob("build/test/*.test.js")))


@pytest.mark.slow
def test_they_pass_for_every_byte_of_an_answer_and_every_step(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINTRA_WHOLE", "1")
    test_its_own_tests_pass(built)


def disagreement(python: dict[str, Any], typescript: dict[str, Any]) -> str:
    """Return in what two answers to one case differ; nothing if they agree."""
    if "token" in python or "token" in typescript:
        return "" if python.get("token") == typescript.get("token") else f"{python.get('token')} {typescript}"
    # A small epsilon is told no better than 1 + epsilon is, which a double rounds by 2^-53.
    for name, most, least in (("epsilon", 1e-14, 2**-53), ("alone", 1e-14, 2**-53), ("price", 1e-13, 0)):
        first, second = numbers(python[name]), numbers(typescript[name])
        if len(first) != len(second) or any(
            a != b and not abs(a - b) <= max(most * abs(a), least) for a, b in zip(first, second, strict=True)
        ):
            return f"{name} {python[name]!r} and {typescript[name]!r}"
    return ", ".join(
        name for name in ("report_id", "shares", "clipped", "incomplete", "refused") if python[name] != typescript[name]
    )


def numbers(found: Any) -> list[float]:
    """Return a number, or those of an object by the order of its names; 0 for nothing."""
    values = [found[name] for name in sorted(found)] if isinstance(found, dict) else [found or 0]
    return [float(value) for value in values]


def compared(built: Path, seeds: range) -> int:
    """Compare both clients on some cases; return how many of the tasks were accepted."""
    cases = [draw(seed) for seed in seeds]
    found = node(built, "build/test/differential.js", given="".join(json.dumps(case) + "\n" for case in cases))
    both = list(zip(answers(cases), map(json.loads, found.splitlines()), strict=True))
    complaints = [(seed, said) for seed, pair in zip(seeds, both, strict=True) if (said := disagreement(*pair))]
    assert complaints == []
    return sum("token" not in python for python, _ in both)


def test_a_thousand_random_tasks_have_the_same_verdict_promise_and_report(built: Path) -> None:
    assert compared(built, range(1000)) > 500


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 101_000, 5000))
def test_a_hundred_thousand_random_tasks_do_too(built: Path, first: int) -> None:
    assert compared(built, range(first, first + 5000)) > 2500


FOLD = """
import { folded } from "./build/src/schema.js";
let text = "";
for await (const part of process.stdin) text += part;
process.stdout.write(JSON.stringify(JSON.parse(text).map(folded)));
"""


@pytest.mark.slow
def test_spellings_are_compared_alike_for_every_character(built: Path) -> None:
    """Folded texts may differ, as of Cherokee letters; which of them are equal may not."""
    assigned = [chr(point) for point in range(0x110000) if unicodedata.category(chr(point)) not in {"Cn", "Cs", "Co"}]
    known = [text for text in assigned if not 0x3400 <= ord(text) < 0xD7FB and not 0x16FE0 <= ord(text) < 0x1BC00]
    python = [folded(text) for text in known]  # without ideographs and syllables, which have no case
    given = json.dumps(known + python)
    found = json.loads(node(built, "--input-type=module", "-e", FOLD, given=given))
    typescript, twice = found[: len(known)], found[len(known) :]
    assert typescript == twice, "what Python folds is folded as what it stands for"
    by_python, by_typescript = defaultdict(set), defaultdict(set)
    for text, first, second in zip(known, python, typescript, strict=True):
        by_python[first].add(text)
        by_typescript[second].add(text)
    apart = [text for text, a, b in zip(known, python, typescript, strict=True) if by_python[a] != by_typescript[b]]
    assert apart == []
    assert len(by_python) < len(known) - 2000


def test_a_report_that_differs_is_noticed(built: Path) -> None:
    python = next(answer for answer in answers([draw(seed) for seed in range(20)]) if answer.get("epsilon"))
    assert disagreement(python, python | {"clipped": not python["clipped"]}) == "clipped"
    assert disagreement(python, {"token": "invalid_task"})
    assert disagreement(python, python | {"epsilon": python["epsilon"] * (1 + 1e-13)}).startswith("epsilon")
