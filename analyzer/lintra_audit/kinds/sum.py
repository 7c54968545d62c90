"""The audits of `sum`: opposite rows; a report that counts twice."""

from functools import partial

from lintra_audit.kinds.kind_audit import KindAudit, Planted
from lintra_audit.kinds.organisations import CLIPPED_TOGETHER, COUNTED_BY_SUM, organisation_audit
from lintra_audit.trials.audit_case import Case, make_case_task
from lintra_audit.trials.planted_faults import (
    FAULTS,
    counting_values,
    only_for,
    without_noise_in,
    without_room_for_the_count,
)
from lintra_protocol.mechanisms.sum import Sum

_PLAIN = Sum(row_bound="1", fraction_bits=0, sigma=4)


def cases() -> list[Case]:
    """Return a small epsilon with a coalition, the null row, few clients, a second release, and both counters."""
    strict = partial(make_case_task, _PLAIN, num_columns=2, min_clients=12, max_corrupt_clients=1, epsilon="1")
    null = partial(make_case_task, _PLAIN, num_columns=2, min_clients=12, neighbours="zero-out")
    pair = partial(make_case_task, _PLAIN, num_columns=1, min_clients=2)
    spare = partial(make_case_task, _PLAIN, num_columns=2, min_clients=11, max_corrupt_clients=1)
    counting = _PLAIN.model_copy(update={"clip_count_weight": "1"})
    counts = partial(make_case_task, counting, num_columns=2, min_clients=12, max_corrupt_clients=1)
    left_out = _PLAIN.model_copy(update={"count": "noisy"})
    servers = partial(make_case_task, _PLAIN, num_columns=2, min_clients=12, max_corrupt_clients=11, noise="servers")
    both = partial(
        make_case_task, _PLAIN, num_columns=2, min_clients=12, max_corrupt_clients=1, noise="both", epsilon_alone="8"
    )
    missing = partial(
        make_case_task, left_out, num_columns=2, min_clients=12, max_corrupt_clients=1, neighbours="zero-out"
    )
    return [
        Case("sum", "sum, n = 12, d = 2, t = 1, epsilon 1", strict, 12, effort=2),
        Case("null-row", "sum, n = 12, d = 2, row or null row", null, 12),
        Case("pair", "sum, n = 2, d = 1", pair, 2),
        Case("twice", "sum, n = 12, then again without client 0", spare, 12, without_first=True, must_refuse=True),
        Case("sum-count", "sum and clip counter, n = 12, d = 2, t = 1", counts, 12),
        Case("sum-servers", "sum, n = 12, d = 2, t = 11, noise of one honest server", servers, 12),
        Case("sum-servers-twice", "the same, asked for twice", servers, 12, again=True, must_refuse=True),
        Case("sum-both", "sum, n = 12, d = 2, t = 1, two layers", both, 12),
        Case("sum-alone", "sum, n = 12, d = 2, two layers, all others invented", both, 12, alone=True),
        Case("sum-alone-twice", "the same, asked for twice", both, 12, alone=True, again=True, must_refuse=True),
        Case("sum-missing", "a row against one that is left out, n = 12, d = 2, t = 1", missing, 12),
    ]


AUDIT = KindAudit(
    cases=cases,
    faults={
        "second-release": Planted(
            "the sum is released again without one client",
            FAULTS["second-release"],
            "twice",
            frozenset({"refusal", "optimal test", "black box"}),
        ),
        "silent-server": Planted(
            "the honest server forgets its noise",
            FAULTS["silent-server"],
            "sum-servers",
            frozenset({"optimal test", "black box", "noise law", "lattice"}),
        ),
        "noise-drawn-twice": Planted(
            "servers draw their noise again for the same reports, and give out both sums",
            FAULTS["second-release"],
            "sum-servers-twice",
            frozenset({"refusal", "optimal test"}),
        ),
        "floor-left-out": Planted(
            "the honest server forgets its floor",
            FAULTS["floor-left-out"],
            "sum-alone",
            frozenset({"optimal test", "black box", "noise law"}),
        ),
        "floor-less-own-noise": Planted(
            "the floor is calibrated as if a client's own noise counted twice",
            FAULTS["floor-less-own-noise"],
            "sum-alone",
            frozenset({"optimal test", "noise law"}),
        ),
        "floor-drawn-twice": Planted(
            "servers draw their floor again for the same reports, and give out both sums",
            FAULTS["second-release"],
            "sum-alone-twice",
            frozenset({"refusal", "optimal test"}),
        ),
        "bound": Planted("clients clip to 1.05 B", FAULTS["bound"], "pair", frozenset({"encoder"})),
        "free-clip-count-of-sums": Planted(
            "clipped rows are counted, but the noise is that of a task without a count",
            only_for("sum", without_room_for_the_count),
            "sum-count",
            frozenset({"optimal test", "noise law"}),
        ),
        "bare-row-count-of-sums": Planted(
            "rows with a missing number are left out of an exact count",
            without_noise_in("sum", lambda layout: layout.sent("count")),
            "sum-missing",
            frozenset({"black box", "noise law"}),
        ),
        "clipped-values": Planted(
            "the clip counter counts clipped values instead of rows",
            only_for("sum", counting_values),
            "sum-count",
            frozenset({"encoder"}),
        ),
    },
    organisations=organisation_audit("sums", _PLAIN, person_bound="0.4", faults=CLIPPED_TOGETHER | COUNTED_BY_SUM),
)
