"""The audits of `osnap`: sketches whose rows hold few clients, with one entry in a column and with several."""

from functools import partial
from typing import cast

from lintra_audit.kinds.kind_audit import KindAudit, Planted
from lintra_audit.trials.audit_case import Case, make_case_task, numbers
from lintra_audit.trials.planted_faults import FAULTS, only_for, without_noise_in, without_room_for_the_count
from lintra_audit.trials.scaled_task import MAX_CLIENTS, small_claim, task_of_claim, twin_of
from lintra_protocol.mechanisms.layout import CLIPPED
from lintra_protocol.mechanisms.osnap import Osnap
from lintra_protocol.task import Task


def cases() -> list[Case]:
    """Return sketches with one and two entries per column, with and without coalitions, and one with a row too thin.

    And both with a clip counter as large as everything else.
    """
    one = partial(make_case_task, _sketch(3), num_columns=2, min_clients=24, max_corrupt_clients=2)
    two = partial(make_case_task, _sketch(4, 2), num_columns=2, min_clients=24)
    corrupt = partial(make_case_task, _sketch(4, 2), num_columns=2, min_clients=48, max_corrupt_clients=2)
    counted = _sketch(3).model_copy(update={"clip_count_weight": "1"})
    counts = partial(make_case_task, counted, num_columns=2, min_clients=24, max_corrupt_clients=2)
    twice = _sketch(4, 2).model_copy(update={"clip_count_weight": "1"})
    smoothed = partial(make_case_task, twice, num_columns=2, min_clients=24)
    servers = partial(
        make_case_task, _sketch(4, 2), num_columns=2, min_clients=24, max_corrupt_clients=23, noise="servers"
    )
    layers = partial(
        make_case_task, counted, num_columns=2, min_clients=24, max_corrupt_clients=2, noise="both", epsilon_alone="8"
    )
    overlapping = partial(make_case_task, twice, num_columns=2, min_clients=24, noise="both", epsilon_alone="8")
    return [
        Case("osnap", "sketch, s = 1, n = 24, m = 3, d = 2, t = 2", one, 24),
        Case("osnap-2", "sketch, s = 2, n = 24, m = 4, d = 2, smoothed", two, 24),
        Case("osnap-2-corrupt", "sketch, s = 2, n = 48, m = 4, d = 2, t = 2, smoothed", corrupt, 48),
        Case("osnap-count", "sketch and clip counter, s = 1, n = 24, m = 3, d = 2, t = 2", counts, 24),
        Case("osnap-2-count", "sketch and clip counter, s = 2, n = 24, m = 4, d = 2, smoothed", smoothed, 24),
        Case("osnap-servers", "sketch, s = 2, n = 24, m = 4, d = 2, t = 23, noise of one honest server", servers, 24),
        Case("osnap-both", "sketch and clip counter, s = 1, n = 24, m = 3, d = 2, t = 2, two layers", layers, 24),
        Case("osnap-alone", "the same, all others invented", layers, 24, alone=True),
        Case("osnap-2-both", "sketch and clip counter, s = 2, n = 24, m = 4, d = 2, two layers", overlapping, 24),
        Case("osnap-2-alone", "the same, all others invented", overlapping, 24, alone=True),
        Case("thin-row", "sketch, m = 3, t = 2, cohort of 9 instead of 24", one, 9, must_refuse=True),
    ]


def twin(task: Task) -> Task:
    """Return a sketch of up to three rows with the task's mu; of four rows with its claim where rows overlap."""
    mechanism, columns = cast("Osnap", task.mechanism), numbers(min(task.num_columns, 2))
    several = mechanism.sparsity > 1
    rows = min(mechanism.rows, 4 if several else 3)
    clients = min(task.claim.min_clients, MAX_CLIENTS * rows)
    small = mechanism.model_copy(update={"rows": rows, "sparsity": 2 if several else 1})
    if not mechanism.shares_noise(task.setting):
        return twin_of(task, small, clients, columns)
    # With several entries per column so small a cohort has none to spare.
    claim = small_claim(task, clients, corrupt=0)
    return task_of_claim(task, small, claim, columns)


def kept(task: Task) -> str:
    """Return what the twin keeps: mu, or the claim where mu depends on the matrix."""
    return "claim" if cast("Osnap", task.mechanism).shares_noise(task.setting) else "mu"


def _sketch(rows: int, sparsity: int = 1) -> Osnap:
    return Osnap(row_bound="1", fraction_bits=0, sigma=64, rows=rows, sparsity=sparsity)


AUDIT = KindAudit(
    cases=cases,
    faults={
        "gate": Planted(
            "a row with one honest client is released",
            FAULTS["gate"],
            "thin-row",
            frozenset({"refusal", "optimal test", "black box"}),
        ),
        "server-sigma": Planted(
            "the honest server's noise has nine tenths of the deviation",
            FAULTS["server-sigma"],
            "osnap-servers",
            frozenset({"noise law", "optimal test"}),
        ),
        "floor-left-out-of-sketches": Planted(
            "the honest server forgets its floor where rows overlap",
            FAULTS["floor-left-out"],
            "osnap-2-alone",
            frozenset({"optimal test", "black box", "noise law"}),
        ),
        "free-clip-count-of-sketches": Planted(
            "clipped rows are counted, but the noise is that of a task without a count",
            only_for("osnap", without_room_for_the_count),
            "osnap-count",
            frozenset({"optimal test", "noise law"}),
        ),
        "bare-clip-count-of-sketches": Planted(
            "clipped rows are counted beside the sketch without any noise",
            without_noise_in("osnap", lambda layout: layout.sent(CLIPPED)),
            "osnap-2-count",
            frozenset({"black box", "noise law"}),
        ),
    },
    twin=twin,
    kept=kept,
)
