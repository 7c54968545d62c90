"""Figures of docs/explanation/ndis.md that are computed: each is computed anew."""

import math

import bench_ndis_profile
import pytest
from scipy.stats import norm

from lintra_curator.ndis import delta, delta_als, delta_ols, ols_pair, pair_from_gaussians, renyi_bound
from support.figures import written


def test_the_trap_of_equal_means() -> None:
    wide = 1.2
    epsilon = math.log(wide) / 2
    assert round(epsilon, 4) == 0.0912
    # X is the more likely one where x^2 is above an edge; both tails of both laws.
    edge = math.sqrt((2 * epsilon + math.log(wide)) / (1 - 1 / wide))
    by_hand = 2 * (norm.sf(edge / math.sqrt(wide)) - math.exp(epsilon) * norm.sf(edge))
    assert round(delta(pair_from_gaussians(0.0, wide, 0.0, 1.0), epsilon).value, 4) == round(by_hand, 4) == 0.0246


def test_both_directions_and_both_laws_of_least_squares() -> None:
    row = (0.29, 0.016, 160, 5)
    removed, added = (delta_ols(2.33, *row, direction) for direction in ("remove", "add"))
    assert (round(removed, 9), round(added, 3)) == (9e-9, 0.073)
    certified = [delta(pair, 2.33).value for pair in (ols_pair(*row), ols_pair(*row).reverse())]
    assert sorted(certified) == pytest.approx([removed, added], rel=1e-6)
    other = (0.266, 0.0056, 0.363, 22, 1)
    assert round(delta_als(*other, "add"), 5) == 0.00368
    assert round(delta_ols(*other, "add"), 5) == 0.00332


def test_delta_falls_where_leverage_grows() -> None:
    low, high = (delta_ols(0.5, leverage, 0.06155, 5, 1) for leverage in (0.0349, 0.0656))
    assert (round(low, 7), round(high, 7)) == (4.00e-5, 2.71e-5)


def test_the_table_of_errors_is_that_of_its_references() -> None:
    lines = [line.strip("| ").split(" | ") for line in written()["ndis-accuracy"].splitlines() if line[:1] == "|"]
    shown = {line[0]: line for line in lines[2:]}
    assert set(shown) == {name for name, *_ in bench_ndis_profile.REFERENCES}
    for name, pair, at, exact in bench_ndis_profile.REFERENCES:
        line, found = shown[name], delta(pair, at)
        assert line[1] == f"{exact:.3e}"
        assert line[6] == f"{renyi_bound(pair, at) / exact - 1:+.0e}"
        assert float(line[3]) <= 0 <= float(line[4])
        errors = [abs(value / exact - 1) for value in (found.value, found.lo, found.hi)]
        assert max(*errors, *(abs(float(cell)) for cell in line[2:5])) < 1e-9
        # What is off by more is the paper's form, and samples.
        assert min(float(line[5]), float(line[7])) > 1e-7
