"""What servers of a verified task say of the reports that they checked, between the cohort and the sketch shares."""

from typing import Final, Literal

from lintra_protocol.encoding.documents import Count, Frozen, Key, ServerIndex

MATRIX_NONCE: Final = "matrix nonce"
"""The label of the commitment to a server's second nonce, from which the late seed of a verified task comes."""


class CheckShare(Frozen):
    """One server's shares of the checks of a frozen cohort, which lie beside it as bytes; given out once (R14).

    Attributes:
        count: reports in the cohort.
        check_seed: that the points of all checks come from.
        words: ring words of a report.
        body: H("check body", check shares of all reports in the order of the cohort).
    """

    kind: Literal["check_share"] = "check_share"
    task_id: Key
    batch: Count
    server: ServerIndex
    cohort_root: Key
    count: Count
    check_seed: Key
    words: Count
    body: Key


class Verdict(Frozen):
    """Which reports of a frozen cohort one server accepted, decided alone, once; and its second nonce (R15).

    Attributes:
        count: accepted reports.
        root: Merkle root over their sorted identifiers.
        rejected: the other reports of the cohort.
        checks: H("checks", all check shares in server order).
        nonce: s, 32 bytes.
    """

    kind: Literal["verdict"] = "verdict"
    task_id: Key
    batch: Count
    server: ServerIndex
    count: Count
    root: Key
    rejected: Count
    checks: Key
    nonce: Key
