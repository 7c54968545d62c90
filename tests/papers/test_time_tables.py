"""What the tables of times reckon from what was measured: ratios, the worst of them, and what more openers can take."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bench_verified
from bench_verified import NANOSECONDS, NOTE, Line, slowness, worst
from bench_workers import taken


def run(factor: float, of_shake: float) -> bench_verified.Run:
    """Return a run that took so many times the design's figures, on a machine so much slower at SHAKE-128."""
    return {
        words: [
            Line("prove in bulk", factor * NOTE[words][0], NOTE[words][0]),
            Line("expand a seed", factor * NOTE[words][4], NOTE[words][4], 5 + of_shake * NOTE[words][4], "SHAKE-128"),
        ]
        for words in (12, 1326, 5151)
    }


def test_a_machine_is_as_slow_as_its_hash_and_what_all_seeds_take_besides_does_not_count() -> None:
    assert slowness(run(1.0, 1.0)) == pytest.approx(1)
    assert slowness(run(1.0, 1.6)) == pytest.approx(1.6)
    assert pytest.approx(1.63, abs=0.005) == NANOSECONDS


def test_the_worst_ratio_is_that_of_all_runs_each_over_its_own_machine() -> None:
    slow, ours = run(3.0, 3.0), run(1.4, 1.0)
    ours[1326][0] = Line("prove in bulk", 1.5 * NOTE[1326][0], NOTE[1326][0])
    assert worst([slow], slowness).startswith("1.00 times")
    assert worst([slow, ours], slowness) == "1.50 times (prove in bulk, 1326 words)"
    assert worst([slow, ours], lambda _: 1.0).startswith("3.00 times")


def test_openers_take_more_until_their_gate_is_the_bound() -> None:
    alone = 0.6
    assert [taken(openers, 0.5, 0.2) * alone for openers in (1, 2, 4)] == pytest.approx([1.2, 2.4, 3.0])
