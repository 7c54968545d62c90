"""The law of a joint vector: a floor of k times a client's deviation hides as k^2 clients more would."""

from dataclasses import replace

import pytest

from support import make_task


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.grid(3)
def test_a_floor_hides_as_so_many_clients_more(times: int) -> None:
    measured = make_task("ron_gauss", min_clients=40, noise="both").measurement
    without = replace(measured, mechanism=measured.mechanism.model_copy(update={"floor": 0}))
    layers = measured.changed(floor=times * measured.mechanism.sigma)
    assert layers.privacy(40).mu == pytest.approx(without.privacy(40 + times**2).mu, rel=1e-12)
    alone = layers.alone()
    assert alone is not None
    assert alone.mu == pytest.approx(without.privacy(1 + times**2).mu, rel=1e-12)
    # Of merged reports a source's own noise does not count.
    merged = replace(layers, setting=replace(layers.setting, merges=True)).alone()
    assert merged is not None
    assert merged.mu == pytest.approx(without.privacy(times**2).mu, rel=1e-12)
