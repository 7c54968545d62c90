"""How unlikely a sum is to leave the ring."""

import math

import pytest

from lintra_protocol.privacy.headroom import log_wrap_probability


def test_the_exponent_has_its_reference_value() -> None:
    log_probability = log_wrap_probability(1000, 100 * 2**16, 100 * 2.0**34, 32)
    assert math.log(2 * 1000) - log_probability == pytest.approx(1333997.78, abs=5e-3)


def test_every_entry_adds_its_own_chance() -> None:
    one, thousand = (log_wrap_probability(entries, 2**20, 2.0**118, 64) for entries in (1, 1000))
    assert thousand - one == pytest.approx(math.log(1000))


def test_entries_that_do_not_fit_without_noise_wrap_for_certain() -> None:
    assert log_wrap_probability(1, 2**63, 1.0, 64) == math.inf
    assert log_wrap_probability(1, 2**63 - 1, 1.0, 64) < 1


def test_without_noise_entries_that_fit_never_wrap() -> None:
    assert log_wrap_probability(10, 2**30, 0.0, 32) == -math.inf


@pytest.mark.parametrize("arguments", [(0, 1, 1.0, 64), (1, -1, 1.0, 64), (1, 1, -1.0, 64), (1, 1, 1.0, 1)])
def test_senseless_arguments_are_refused(arguments: tuple[int, int, float, int]) -> None:
    with pytest.raises(ValueError, match="no headroom"):
        log_wrap_probability(*arguments)
