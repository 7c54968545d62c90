"""What the tables of times reckon from what was measured: ratios, the worst of them, and what more openers can take."""

import re

import bench_store
import bench_verified
import pytest
from bench_verified import NANOSECONDS, NOTE, Line, slowness, worst
from bench_workers import Round, middle

from support.pages import text_of


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
    one = Round(alone=0.6, gate=0.2, openers=[0.3, 0.2])
    assert [one.ratio(openers, one.alone) for openers in (1, 2, 4)] == pytest.approx([1.2, 2.4, 3.0])
    assert middle([Round(0.4, 0.2, [0.5]), one, Round(0.5, 0.2, [0.5])]).alone == 0.5


PAGE = text_of("benchmarks")


@pytest.mark.parametrize(("group", "groups"), [(1, 300), (32, 60), (256, 60)])
def test_the_page_has_the_bytes_that_are_written_for_a_report(group: int, groups: int) -> None:
    found = re.search(
        rf"^\| written to disk for a report, groups of {group} \| [^|]+ \| ([\d,.]+) bytes", PAGE, re.MULTILINE
    )
    assert found
    written = bench_store.disk({group: group * groups})[f"bytes written a report, groups of {group}"]
    assert written == pytest.approx(float(found[1].replace(",", "")), rel=0.02)


def test_exactly_the_false_reports_are_rejected_in_one_run_of_many() -> None:
    found = dict(bench_verified.many(5000))
    assert found["rejected"] == found["false reports"] == 51
    lines = dict(re.findall(r"^\| (false reports|rejected) \| ([\d,]+) \|$", PAGE, re.MULTILINE))
    assert set(lines.values()) == {"10,010"}
