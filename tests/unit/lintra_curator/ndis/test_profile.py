"""Curves in both directions, and what every bound must respect."""

import numpy as np
import pytest

from lintra_curator.ndis import CertifiedValue, delta, pair_from_gaussians, pair_profile, privacy_profile, rp_pair


def test_a_profile_holds_both_directions_and_the_larger_of_them() -> None:
    s1, s2 = np.array([[2, 0.5], [0.5, 1]]), np.diag([1.0, 1.5])
    found = privacy_profile([0.3, -0.2], s1, [0, 0], s2, [0.5, 1.0], rtol=1e-7)
    assert found.forward[0].value == pytest.approx(0.1299951968769, rel=1e-6, abs=0)
    assert found.backward[0].value == pytest.approx(0.1144637716786, rel=1e-6, abs=0)
    assert found.worst == found.forward
    assert found.hi.tolist() == [interval.hi for interval in found.forward]
    assert (found.lo < found.hi).all()
    assert [at for at, _ in found] == [0.5, 1.0]


def test_the_worse_direction_may_change_along_the_curve() -> None:
    pair = pair_from_gaussians(np.zeros(4), np.diag([3.0, 0.5, 0.5, 0.5]), np.zeros(4), np.eye(4))
    found = pair_profile(pair, np.linspace(0, 3, 16), 1e-6)
    directions = {one.value > other.value for one, other in zip(found.forward[1:], found.backward[1:], strict=True)}
    assert directions == {True, False}
    assert (np.diff(found.hi) < 1e-6).all()


def test_a_single_number_is_a_curve_of_one_point() -> None:
    found = pair_profile(rp_pair(0.1, 9), 1.0)
    assert found.epsilons.shape == (1,)
    assert found.forward == (delta(rp_pair(0.1, 9), 1.0),)


def test_equal_laws_have_no_curve() -> None:
    found = privacy_profile(0.0, 1.0, 0.0, 1.0, [0.0, 1.0])
    assert found.worst == (CertifiedValue(0.0, 0.0, 0.0), CertifiedValue(0.0, 0.0, 0.0))
