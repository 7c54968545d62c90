"""What the ledger charges for noise that no mu covers entirely."""

import pytest

from lintra_client.ledger.prices import price_of
from lintra_protocol.encoding.documents import fraction
from lintra_protocol.errors import LedgerRefusedError, RowUnderfilledError
from lintra_protocol.privacy.statement import Claim
from support import make_task
from support.measured import measurement_of

CLAIM = Claim(epsilon="1", delta="0.00001", min_clients=100)


@pytest.mark.slow
def test_wishart_noise_is_charged_with_the_probability_of_its_failure() -> None:
    task = make_task("second_moment_wishart", columns=3, claim=CLAIM)
    statement, price = task.privacy(100), price_of(task)
    assert 0 < statement.delta_coalition < 1e-6
    assert float(fraction(price.delta_coalition)) >= statement.delta_coalition
    assert price.mu >= statement.mu
    # Together the two say what was promised, and hardly more.
    assert 0.99 < price.epsilon_at(1e-5) <= 1


def test_replacing_a_row_is_two_steps_where_the_promise_is_about_leaving_it_out() -> None:
    task = make_task("second_moment_wishart", columns=3, claim=CLAIM.model_copy(update={"neighbours": "zero-out"}))
    statement, price = task.privacy(100), price_of(task)
    assert price.mu == pytest.approx(2 * statement.mu)
    assert float(fraction(price.delta_coalition)) > 2 * statement.delta_coalition
    # The exact cost of a replaced row, which needs no such step, lies below.
    direct = measurement_of(task, 3, CLAIM).privacy(100)
    assert direct.mu < price.mu
    for epsilon in (0.5, 1.0, 2.0):
        assert direct.delta_at(epsilon) < price.delta_at(epsilon)


def test_noise_that_no_mu_covers_is_refused_and_never_charged_as_nothing() -> None:
    task = make_task("second_moment_wishart", columns=3, claim=CLAIM)
    weak = task.mechanism.model_copy(update={"sigma": task.mechanism.sigma // 50})
    assert measurement_of(weak, 3, CLAIM).privacy(100).epsilon > 10
    with pytest.raises(LedgerRefusedError, match="cannot be counted"):
        price_of(task.model_copy(update={"mechanism": weak}))
    few = CLAIM.model_copy(update={"min_clients": 20})
    with pytest.raises(RowUnderfilledError, match="20 honest clients give no Wishart noise"):
        price_of(task.model_copy(update={"claim": few}))
