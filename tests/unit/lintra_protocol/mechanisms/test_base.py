"""What follows for all mechanisms from what each says."""

import math

import numpy as np
import pytest

from lintra_protocol.encoding.documents import fraction, real
from lintra_protocol.errors import FalseClaimError, InvalidTaskError, RowUnderfilledError
from lintra_protocol.mechanisms import Osnap, Sum
from lintra_protocol.mechanisms.base import LOG_MAX_WRAP, Mechanism
from lintra_protocol.mechanisms.floor import MAX_SERVERS
from lintra_protocol.mechanisms.noise_law import MIN_SIGMA, GaussianLaw
from lintra_protocol.mechanisms.setting import Setting
from lintra_protocol.noise.clipping import MAX_SQUARED_BOUND
from lintra_protocol.noise.discrete_gaussian import MAX_SIGMA
from lintra_protocol.privacy.statement import Claim
from support import source, uncalibrated
from support.measured import calibrated_for, clip_words, encode_rows, layout_of, measurement_of, noise_sigmas

KINDS = ("osnap", "second_moment", "sum")
CLAIM = Claim(epsilon="1", delta="0.000001", min_clients=100)


def calibrated(kind: str, row_bound: float = 1.0, claim: Claim = CLAIM, max_clients: int = 1000) -> Mechanism:
    mechanism: Mechanism = calibrated_for(uncalibrated(kind, row_bound), 3, claim, max_clients)
    return mechanism


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row_bound", [1e-4, 0.001, 0.5, 0.999, 1, 1.5, 2, 1000])
def test_the_grid_follows_the_bound(kind: str, row_bound: float) -> None:
    mechanism = calibrated(kind, row_bound)
    steps = row_bound * 2.0**mechanism.fraction_bits
    assert 2**mechanism.start_bits <= steps * (1 + 1e-9)
    assert steps < 2 ** (mechanism.start_bits + 1)


def test_a_tiny_bound_takes_the_finest_grid_there_is() -> None:
    assert calibrated("sum", 1e-9).fraction_bits == 40


@pytest.mark.parametrize(("kind", "row_bound"), [("sum", 1e-20), ("second_moment", 1e6)])
def test_a_bound_that_no_grid_fits_is_refused_with_a_hint(kind: str, row_bound: float) -> None:
    with pytest.raises(
        InvalidTaskError, match=r"no fixed-point grid of 0 to 40 bits fits row_bound .* other column scales"
    ):
        calibrated(kind, row_bound)


@pytest.mark.parametrize("bound", ["0", "-1"])
def test_a_bound_that_is_not_positive_is_not_calibrated(bound: str) -> None:
    with pytest.raises(InvalidTaskError, match="not positive"):
        calibrated_for(Sum(row_bound=bound, fraction_bits=0, sigma=4), 3, CLAIM, 1000)


def test_a_coarser_grid_is_taken_where_the_sampler_or_the_ring_ends() -> None:
    many = CLAIM.model_copy(update={"epsilon": "0.01", "min_clients": 2})
    mechanism = calibrated("sum", claim=many)
    assert mechanism.fraction_bits < mechanism.start_bits
    assert mechanism.sigma <= MAX_SIGMA
    measurement_of(mechanism, 3, many).check(1000)
    # Clients beyond 2^36 at 24 bits would wrap; nobody has that many, so the task's limit is what is tried here.
    assert measurement_of(calibrated("second_moment", max_clients=2**32), 3).log_wrap_probability(2**32) <= LOG_MAX_WRAP


def test_a_claim_that_needs_more_noise_than_there_is_is_refused() -> None:
    hopeless = CLAIM.model_copy(update={"epsilon": "0.00000001", "delta": "0.000000000000000000001", "min_clients": 2})
    with pytest.raises(InvalidTaskError, match="no fixed-point grid of 0 to 40 bits fits"):
        calibrated("sum", claim=hopeless)


@pytest.mark.parametrize("bits", range(6))
@pytest.mark.parametrize("clients", [2, 5, 20])
def test_on_a_coarse_grid_the_price_of_integers_is_part_of_the_smallest_sigma(bits: int, clients: int) -> None:
    claim = CLAIM.model_copy(update={"min_clients": clients})
    mechanism = uncalibrated("sum").model_copy(update={"fraction_bits": bits})
    sigma = measurement_of(mechanism, 3, claim).smallest_sigma()
    measurement_of(mechanism.model_copy(update={"sigma": sigma}), 3, claim).privacy(clients).require(claim)
    if sigma > MIN_SIGMA:
        with pytest.raises(FalseClaimError):
            measurement_of(mechanism.model_copy(update={"sigma": sigma - 1}), 3, claim).privacy(clients).require(claim)


def test_calibration_without_honest_clients_is_refused() -> None:
    with pytest.raises(RowUnderfilledError):
        calibrated_for(uncalibrated("osnap", rows=101), 3, CLAIM, 1000)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_drawn_for_equal_words_together_and_each_word_has_its_own_sigma(kind: str) -> None:
    mechanism = calibrated(kind)
    noise = measurement_of(mechanism, 3).noise(4000, source("noise"))
    assert noise.shape == (4000, layout_of(mechanism, 3).num_noised)
    # 4000 squares: one deviation is 2.2 %, and six of them leave a false alarm below 1e-8 a word.
    ratios = np.square(noise / noise_sigmas(mechanism, 3)).mean(axis=0)
    assert np.all(np.abs(ratios - 1) < 6 * (2 / 4000) ** 0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_source_gives_the_same_report(kind: str) -> None:
    mechanism = calibrated(kind)
    row = np.array([[0.1, 0.2, 0.3]])
    np.testing.assert_array_equal(encode_rows(mechanism, row, source("a")), encode_rows(mechanism, row, source("a")))
    assert not np.array_equal(encode_rows(mechanism, row, source("a")), encode_rows(mechanism, row, source("b")))


def test_more_clients_make_a_wrap_more_likely() -> None:
    mechanism = calibrated("second_moment", max_clients=2**20)
    chances = [measurement_of(mechanism, 3).log_wrap_probability(2**exponent) for exponent in (10, 20, 30, 38, 45)]
    assert chances == sorted(chances)
    assert chances[-1] > LOG_MAX_WRAP


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_word_is_reached_and_never_exceeded(kind: str) -> None:
    mechanism = uncalibrated(kind, 10).model_copy(update={"fraction_bits": 3})
    rows = np.array([[10.0, 0, 0], [-100.0, 0, 0], [7.0, 7.0, 7.0]])
    exact = encode_rows(mechanism, rows, source("noise")) - measurement_of(mechanism, 3).noise(3, source("noise"))
    assert int(np.abs(exact).max()) == layout_of(mechanism).bound


def test_the_squared_bound_is_exact() -> None:
    mechanism = Sum(row_bound="0.1", fraction_bits=20, sigma=4)
    assert mechanism.squared_bound == int(fraction("0.1") ** 2 * 4**20)
    assert Sum(row_bound=real(2**30), fraction_bits=0, sigma=4).squared_bound == MAX_SQUARED_BOUND


class _Smoothed(Sum):
    """A sum to which every server adds a little noise."""

    @property
    def noise_law(self) -> GaussianLaw:
        return _SmoothedLaw(self.sigma)


class _SmoothedLaw(GaussianLaw):
    def smoothing(self, setting: Setting) -> int:
        return 500


@pytest.mark.parametrize("kind", ["sum", "osnap", "osnap that counts"])
def test_headroom_counts_the_smoothing_noise_of_all_servers(kind: str) -> None:
    """The room is the one that is left with the noise of as many servers as a task may have."""
    rows, sigma, clients = 8, 8, 40
    if kind == "sum":
        mechanism: Mechanism = _Smoothed(row_bound="1", fraction_bits=4, sigma=sigma)
        fullest, num_rows, smoothing = clients, 1, 500
    else:
        weight = "0.2" if kind.endswith("counts") else "0"
        mechanism = Osnap(
            row_bound="1", fraction_bits=4, sigma=sigma, rows=rows, sparsity=2, clip_count_weight=weight
        )  # fmt: skip
        fullest, num_rows, smoothing = clients * 2 // rows, rows, 3
    assert measurement_of(mechanism).smoothing == smoothing

    def expected(entries: int, reports: int) -> float:
        return math.log(2 * entries) - 2.0**126 / (2 * (reports * sigma**2 + MAX_SERVERS * smoothing**2))

    # A counter's total has the noise of all reports, an entry that of the fullest row.
    shown = expected(rows, clients) if clip_words(mechanism) else expected(3 * num_rows, fullest)
    assert measurement_of(mechanism, 3).log_wrap_probability(clients) == pytest.approx(shown, rel=1e-9)
