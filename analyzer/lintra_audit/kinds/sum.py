"""The audits of `sum`: opposite rows; a report that counts twice."""

from lintra_audit.kinds.kind_audit import KindAudit, Planted
from lintra_audit.trials.case import Case, make_case_task
from lintra_audit.trials.faults import FAULTS
from lintra_protocol.mechanisms.sum import Sum

_PLAIN = Sum(row_bound="1", fraction_bits=0, sigma=4)


def cases() -> list[Case]:
    """Return a small epsilon with a coalition, the null row, as few clients as there can be, and a second release."""
    strict = make_case_task(_PLAIN, num_columns=2, min_clients=12, max_corrupt_clients=1, epsilon="1")
    null = make_case_task(_PLAIN, num_columns=2, min_clients=12, neighbours="zero-out")
    pair = make_case_task(_PLAIN, num_columns=1, min_clients=2)
    spare = make_case_task(_PLAIN, num_columns=2, min_clients=11, max_corrupt_clients=1)
    return [
        Case("sum", "sum, n = 12, d = 2, t = 1, epsilon 1", strict, 12, effort=2),
        Case("null-row", "sum, n = 12, d = 2, row or null row", null, 12),
        Case("pair", "sum, n = 2, d = 1", pair, 2),
        Case("twice", "sum, n = 12, then again without client 0", spare, 12, without_first=True, must_refuse=True),
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
        "bound": Planted("clients clip to 1.05 B", FAULTS["bound"], "pair", frozenset({"encoder"})),
    },
)
