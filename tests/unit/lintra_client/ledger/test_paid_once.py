"""Where the first report pays for all of a stream's, no order of named and unnamed sources lets anybody pay nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lintra_client import Ledger
from lintra_client.ledger.entries import Vouched
from lintra_protocol.errors import LedgerRefusedError
from lintra_protocol.privacy.composition import Spending
from support import few

STREAM, OTHER = "A" * 43, "B" * 43
MOST = 3
PRICE = Spending(mu_squared="0.09", slack="0", delta_coalition="0")
PEOPLE = ("ann", "bob", "somebody who is never named")

Charges = st.lists(
    st.tuples(st.sampled_from([STREAM, OTHER]), st.integers(0, 4), st.sampled_from(["ann", "bob", None])), max_size=16
)


@few
@given(charges=Charges)
def test_whoever_may_have_a_report_in_a_stream_has_paid_for_it(
    charges: list[tuple[str, int, str | None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    sent: list[tuple[str, str | None]] = []
    with Ledger(tmp_path_factory.mktemp("ledger") / "ledger", 3.0, 1e-6) as ledger:
        for number, (task, window, name) in enumerate(charges):
            source, batch = Vouched() if name is None else name, window if task == STREAM else 0
            once, most = (True, MOST) if task == STREAM else (False, 1)
            known = {number.to_bytes(32, "big"): source}
            try:
                if not ledger.charge(task, PRICE, known, batch, once=once, most=most):
                    sent.append((task, name))
            except LedgerRefusedError:
                continue
        for person in PEOPLE:
            # Somebody may be behind each call that named nobody.
            reports = [task for task, name in sent if name in (person, None)]
            assert reports.count(STREAM) <= MOST
            owed = 0.09 * len(set(reports))
            assert float(ledger.spent(person).spent.mu_squared) >= owed * (1 - 1e-12)
