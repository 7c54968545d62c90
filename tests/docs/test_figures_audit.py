"""Figures of docs/explanation/audit.md: what is computed stands there, and what was measured comes out again."""

from math import sqrt

import bench_audit
import pytest
import showing
from scipy.stats import norm

from lintra_audit.release.run import MIN_TRIALS, audit_case
from lintra_audit.trials.likelihood_test import CONFIDENCE
from lintra_audit.trials.planted_faults import BOUND_FACTOR
from support.figures import written

CLAIMED = (1, 3, 4)
"""Columns that no run enters: epsilon and mu claimed, and the mu of the two rows."""


def cells(block: str) -> dict[str, list[str]]:
    """Return the lines of a written table by their first cells."""
    lines = [line.strip("| ").split(" | ") for line in written()[block].splitlines() if line[:1] == "|"]
    return {line[0]: line for line in lines}


def test_how_often_a_verdict_holds() -> None:
    wrong = 1 - CONFIDENCE
    assert [round(100 * (1 - count * wrong), 1) for count in (1, 2, 4)] == [99.9, 99.8, 99.6]
    assert 100 * 2 * wrong == pytest.approx(0.2)
    # Both rates of an exact claim have to be underestimated, each by z deviations: their sum by z sqrt(2) of its own.
    assert norm.sf(sqrt(2) * norm.isf(wrong)) == pytest.approx(6e-6, rel=0.05)


def test_a_bound_is_planted_that_is_this_much_too_wide() -> None:
    assert round(100 * (float(BOUND_FACTOR) - 1)) == 5


def test_every_standard_case_has_a_line_and_no_other() -> None:
    named = {
        line.partition(":")[0].strip("`") for name in ("audit-rows", "audit-organisations") for line in cells(name)
    }
    assert named - {"case", "---"} == set(bench_audit.cases())


@pytest.mark.parametrize("name", ["osnap-2-corrupt", "published", "sum", "range-finder", "wishart", "thin-row"])
def test_claims_of_the_table_are_those_of_the_cases(name: str) -> None:
    found = [
        showing.text(cell) for cell in bench_audit.line(audit_case(bench_audit.cases()[name], MIN_TRIALS, bytes(32)))
    ]
    there = cells("audit-rows")[found[0]]
    assert [found[k] for k in CLAIMED] == [there[k] for k in CLAIMED]
    assert (found[-1] == there[-1]) == (name == "thin-row")


@pytest.mark.slow
@pytest.mark.parametrize("block", ["audit-rows", "audit-organisations"])
def test_claims_of_all_cases_are_those_of_the_tables(block: str) -> None:
    shown = bench_audit.parts(MIN_TRIALS)[block]()
    for line in shown.rows:
        found = [showing.text(cell) for cell in line]
        assert [found[k] for k in CLAIMED] == [cells(block)[found[0]][k] for k in CLAIMED]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pair", "osnap", "wishart-null-row", "organisations-sums-several"])
def test_what_audits_measured_comes_out_again(name: str) -> None:
    case = bench_audit.cases()[name]
    found = [showing.text(cell) for cell in bench_audit.line(audit_case(case, 20_000, bytes(32)))]
    assert found == cells("audit-organisations" if case.task.contributors else "audit-rows")[found[0]]


@pytest.mark.slow
def test_faults_are_caught_as_often_as_the_table_says() -> None:
    shown = bench_audit.faults(10_000, only=("sigma", "floating-point"))
    there = [line for line in written()["audit-faults"].splitlines() if line[:1] == "|"]
    lines = [line for line in shown.markdown().splitlines()[2:] if line[:1] == "|"]
    assert len(lines) == 3
    assert set(lines) <= set(there)
