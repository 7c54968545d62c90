"""The client in TypeScript against this one: its own tests, and the same reports from the same random bytes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parent))
from drawn_tasks import answers, draw


def node(built: Path, *arguments: str, given: str = "") -> str:
    done = subprocess.run(["node", *arguments], cwd=built, input=given, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def test_its_own_tests_pass(built: Path) -> None:
    node(built, "--test", *sorted(str(path.relative_to(built)) for path in built.glob("build/test/*.test.js")))


def disagreement(python: dict[str, Any], typescript: dict[str, Any]) -> str:
    """Return in what two answers to one case differ; nothing if they agree."""
    if "token" in python or "token" in typescript:
        return "" if python.get("token") == typescript.get("token") else f"{python.get('token')} {typescript}"
    for first, second in zip(python["epsilons"], map(float, typescript["epsilons"]), strict=True):
        if first != second and not abs(first - second) <= 1e-14 * first:
            return f"epsilon {first!r} and {second!r}"
    return ", ".join(
        name for name in ("report_id", "shares", "clipped", "incomplete") if python[name] != typescript[name]
    )


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


def test_a_report_that_differs_is_noticed(built: Path) -> None:
    python = next(answer for answer in answers([draw(seed) for seed in range(20)]) if "token" not in answer)
    assert disagreement(python, python | {"clipped": not python["clipped"]}) == "clipped"
    assert disagreement(python, {"token": "invalid_task"})
    raised = [epsilon * (1 + 1e-13) for epsilon in python["epsilons"]]
    assert disagreement(python, python | {"epsilons": [str(each) for each in raised]}).startswith("epsilon")
