"""Small figures on the pages of wide tables and of synthetic rows, computed again."""

import math
from fractions import Fraction

import numpy as np

from lintra_analysis.kinds.range_finder import usual_projected_bound
from lintra_analysis.releases.row_norms import NormLaw
from lintra_protocol.encoding.canonical import base64url
from lintra_protocol.fields.schema import Column
from lintra_protocol.mechanisms import RangeFinder, SecondMoment
from lintra_protocol.noise.joint_noise import JointNoise
from lintra_protocol.privacy.statement import Claim
from support.measured import calibrated_for, layout_of

CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=100_000)


def finder(rank: int) -> RangeFinder:
    return RangeFinder(
        row_bound="1",
        fraction_bits=14,
        sigma=4,
        rank=rank,
        omega_seed=base64url(bytes(32)),
        projected_bound=usual_projected_bound("1", 1000, rank),
    )


def test_where_projections_are_clipped_by_default() -> None:
    assert round(float(usual_projected_bound("1", 1000, 20)), 4) == 1.2502
    assert round(float(usual_projected_bound("1", 1000, 32)), 4) == 1.1978
    assert round(float(usual_projected_bound("1", 1000, 64)), 4) == 1.1383


def test_a_direction_has_so_many_times_the_noise_of_all_second_moments() -> None:
    def ratio(rank: int) -> float:
        finding = calibrated_for(finder(rank), 1000, CLAIM, 100_000)
        own = finding.sigma * float(finding.word_scales()[-1])
        whole = calibrated_for(SecondMoment(row_bound="1", fraction_bits=0, sigma=4), 1000, CLAIM, 100_000)
        return own / (whole.sigma * 4.0**-whole.fraction_bits)

    assert round(ratio(64), 1) == 2.3
    assert round(ratio(20), 1) == 2.5


def test_targets_and_a_constant_cost_the_rest_so_much_noise() -> None:
    bound = float(usual_projected_bound("1", 1000, 64))
    assert round(100 * (math.sqrt(1 + 1 / 8) - 1)) == 6
    assert round(100 * (math.sqrt(1 + (1 / 4) ** 2 / bound**2) - 1)) == 2


def test_the_bytes_of_wide_reports_and_of_what_servers_keep() -> None:
    assert 8 * layout_of(finder(20), 1000).num_noised == 160 * 1000
    assert 8 * layout_of(finder(64), 1000).num_noised == 512 * 1000
    kept = 10**5 * 8 * layout_of(finder(20), 1000).num_noised / 10**9
    assert kept == 16
    assert round(kept / 3, 1) == 5.3


def joint(histograms: int, tables: int = 0, classes: int = 2, weight: str = "1", counts: int = 1) -> float:
    """Return how much noise everything has, in multiples of what a product's own bound asks for."""
    noise = JointNoise(
        squared_length=10**8,
        indicator=2**12,
        num_coordinates=10,
        num_classes=classes,
        num_histograms=histograms,
        squared_weight=Fraction(weight) ** 2,
        num_tables=tables,
        squared_count_weight=Fraction(counts**2),
    )
    return math.sqrt(noise.squared_row_distance("replace-one"))


def test_what_histograms_tables_and_counts_cost_all_other_noise() -> None:
    assert round(joint(64) / joint(0), 1) == 1.2
    without_classes = joint(10, classes=1, weight="0.6")
    for tables in (1, 45):
        assert round(joint(10, tables, classes=1, weight="0.6") / without_classes, 2) == 1.19
    assert round(joint(10, counts=2) / joint(10), 2) == 1.11
    assert round(joint(10, counts=3) / joint(10), 2) == 1.27


def test_clipping_few_uniform_rows_takes_half_the_noise() -> None:
    real = [Column(name=f"x{i}", lower="-1", upper="1") for i in range(40)]
    found = NormLaw.of_columns(real)
    assert found.clipped_share(float(found.planned) ** 0.5, found.largest) <= 0.05
    assert found.largest == 2 * found.planned


def test_the_noise_of_a_small_release() -> None:
    noise = JointNoise(
        squared_length=2000**2,
        indicator=2**12,
        num_coordinates=10,
        num_classes=2,
        num_histograms=0,
        squared_weight=Fraction(1),
    )
    own = noise.deviations(801_577)
    assert (own.products, own.sums, own.counts) == (801_577, 567, 2_322)
    mu = math.sqrt(noise.squared_mu(801_577, "replace-one", 1000, Fraction(0)))
    assert round(mu, 4) == 0.2367
    assert round(math.sqrt(noise.squared_mu(801_577 * 99 // 100, "replace-one", 1000, Fraction(0))), 4) > 0.2367


def test_an_orthonormal_basis_of_uniform_numbers_keeps_the_ones() -> None:
    rng = np.random.default_rng(0)
    ones, found = np.full(100, 0.1), {}
    for name, drawn in (("uniform", rng.random), ("gaussian", rng.standard_normal)):
        frames = [np.linalg.qr(drawn((100, 10)))[0] for _ in range(400)]
        found[name] = np.mean([np.square(ones @ frame).sum() for frame in frames])
    # The share of a direction's square that is kept: 400 frames, each off by .04 at most.
    assert round(100 * found["uniform"]) == 97
    assert round(100 * found["gaussian"]) == 10
