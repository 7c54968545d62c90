"""The audit of `first_column`."""

from functools import partial

from lintra_protocol.mechanisms.first_column import FirstColumn

from lintra_audit.kinds.kind_audit import KindAudit, Planted
from lintra_audit.trials.audit_case import Case, make_case_task
from lintra_audit.trials.planted_faults import FAULTS


def cases() -> list[Case]:
    """Return one small task."""
    plain = FirstColumn(row_bound="1", fraction_bits=0, sigma=4)
    make = partial(make_case_task, plain, num_columns=2, min_clients=4)
    return [Case("first-column", "first column, n = 4, d = 2", make, 4)]


FAULT = Planted("noise of nine tenths", FAULTS["sigma"], "first-column", frozenset({"noise law"}))

AUDIT = KindAudit(cases=cases, faults={"sigma": FAULT})
