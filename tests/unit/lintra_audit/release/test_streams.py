"""The audit of a stream: the honest one passes, every planted fault is found, and the twin keeps the task's promise."""

import pytest

from lintra_audit.release.cases import cases_of_task, seams_of, standard_cases
from lintra_audit.release.run import Outcome, audit_case
from lintra_audit.release.streams import stream_case
from lintra_audit.trials.streams import STREAM_FAULTS
from lintra_protocol.fields.windows import Stream, Windows
from support.tasks import columns_of, make_task

TRIALS = 20_000
CAUGHT_BY = {
    "fresh-noise-twice": {"black box", "noise law"},
    "other-matrix": {"black box", "noise law"},
    "root-of-k": {"optimal test", "black box", "noise law"},
}


def audited(fault: str | None) -> Outcome:
    return audit_case(stream_case(), TRIALS, bytes(range(32)), seams_of(fault))


def test_the_honest_stream_is_told_as_well_as_promised_and_no_better() -> None:
    outcome = audited(None)
    assert outcome.passed, [check for check in outcome.checks if not check.passed]
    assert outcome.exact_mu is not None
    assert outcome.optimal is not None
    # The adversary's test comes close to what the worst windows allow: blur and rounding cost it little.
    assert 0.9 * outcome.exact_mu < outcome.optimal.mu < 1.05 * outcome.exact_mu
    assert stream_case().name in {case.name for case in standard_cases()}


@pytest.mark.parametrize("fault", STREAM_FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    outcome = audited(fault)
    assert {check.name for check in outcome.checks if not check.passed} >= CAUGHT_BY[fault]


def test_the_twin_of_a_stream_has_its_matrix_and_its_claim() -> None:
    stream = Stream(damping="0.4", blur="0.5", memory=20)
    windows = Windows(window=1, grace=0, max_windows=30, reports_per_source=3, stream=stream)
    times = {"batches": "windowed", "windows": windows, "not_before": 1, "not_after": 31}
    task = make_task("sum", columns=columns_of("abc"), noise="servers", **times)
    (case,), said = cases_of_task(task)
    twin = case.task
    assert twin.stream is not None
    assert (twin.stream.rows, twin.stream.reports, twin.stream.damping, twin.stream.blur) == (
        8,
        3,
        task.stream.damping,
        task.stream.blur,
    )  # type: ignore[union-attr]
    assert twin.claim.epsilon == task.claim.epsilon
    assert twin.worst_together().epsilon <= float(task.claim.epsilon)
    assert "8 windows" in said
