"""What all tasks of a population promise together."""

import pytest

from lintra_analyzer.tasks.populations import spent_together
from lintra_protocol.privacy.statement import PrivacyStatement

HALF = PrivacyStatement(neighbours="replace-one", epsilon=1.0, delta=1e-5, mu=0.5)


def test_two_promises_of_half_a_mu_come_to_one_of_root_a_half() -> None:
    both = spent_together([HALF, HALF])
    assert both is not None
    assert both.epsilon is not None
    alone = PrivacyStatement(neighbours="replace-one", epsilon=1.0, delta=1e-5, mu=0.5**0.5)
    assert float(both.epsilon) == pytest.approx(alone.epsilon_at(1e-5), rel=1e-6)
    assert (both.count, both.delta, both.without) == (2, "0.00001", 0)
    assert spent_together([]) is None
