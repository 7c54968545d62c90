"""Figures of the NDIS papers on the axes of their authors' program, with the flights for their Cancer.

Its notebooks draw two things: the spectrum of a projection to r = 10 columns, delta against epsilon from 0 to 1, the
formula as a line and a black-box estimate as stars; and the squared error of sketched least squares against r, measured
and by its asymptotic formula. Which of the papers' figures they became is not known here.
"""

import math

import numpy as np
from showing import Cell, FloatArray, Plot, Shown, spread

from lintra_analysis.releases.sampling import chi_squares, gaussians
from lintra_curator.ndis.closed_form import delta_rp, rp_pair
from lintra_curator.ndis.least_squares import delta_als, delta_ols
from lintra_curator.ndis.monte_carlo import sample_losses
from lintra_protocol.crypto.randomness import RandomBytes, expand
from spectrum.flights import flights, most_telling

SPECTRUM_ROWS = 10
CANCER_CLIENTS = 2_809
SAMPLES = 20_000
AT_ONCE = 100_000


def spectrum(full: bool, runs: int) -> Shown:
    """Return delta against epsilon of a projection and of least squares, for the most telling flight."""
    rows = flights()[:CANCER_CLIENTS]
    leverage, share = most_telling(rows)
    r, features = SPECTRUM_ROWS, rows.shape[1] - 1
    pair = rp_pair(leverage + share, r)
    source = expand(bytes(32), "ndis spectrum of the flights")
    losses = [sample_losses(pair, SAMPLES, source) for _ in range(runs)]
    lines: list[tuple[Cell, ...]] = []
    for at in np.round(np.arange(0, 1.01, 0.05 if full else 0.1), 2).tolist():
        sampled = spread(float(np.abs(np.expm1(np.minimum(at - loss, 0))).mean()) for loss in losses)
        solved = (float(law(at, leverage, share, r, features)) for law in (delta_ols, delta_als))
        lines.append((at, float(delta_rp(at, leverage + share, r, "remove")), sampled, *solved))
    return Shown(
        "ndis-spectrum",
        f"NDIS, spectrum of {len(rows):,} flights, r = {r}: delta against epsilon, the most telling left out",
        (
            "epsilon", "projection, exact", f"projection, {SAMPLES:,} samples", "least squares, asymptotic law",
            "least squares, exact law",
        ),
        tuple(lines),
        f"Leverage {leverage:.4f}, residual share {share:.4f} of one of the first flights, as many as Cancer has rows, "
        "which the notebook of the authors' program draws on these axes. Our samples are of the known law, theirs of a "
        "black box. The asymptotic law of least squares is compared with the exact one. Median and 10 % and 90 % "
        f"points of {runs} runs.",
        Plot("epsilon", "delta", log_y=True),
    )  # fmt: skip


def sketched_errors(rows: FloatArray, sketch_rows: int, draws: int, source: RandomBytes) -> FloatArray:
    """Return |x~ - x|^2 of so many solutions from a Gaussian sketch of the rows, the last column explained.

    Each is solved from second moments of a sketch, drawn as Bartlett (1933) does; no law of the error is used.
    """
    size = rows.shape[1]
    lower = np.linalg.cholesky(rows.T @ rows)
    drawn = np.zeros((draws, size, size))
    for i in range(size):
        drawn[:, i, i] = np.sqrt(chi_squares(sketch_rows - i, (draws,), source))
        drawn[:, i, :i] = gaussians((draws, i), source)
    halves = lower @ drawn
    moments = halves @ halves.transpose(0, 2, 1)
    solved = np.linalg.solve(moments[:, :-1, :-1], moments[:, :-1, -1:])[..., 0]
    errors: FloatArray = np.sum((solved - np.linalg.lstsq(rows[:, :-1], rows[:, -1])[0]) ** 2, axis=1)
    return errors


def expected_error(rows: FloatArray, sketch_rows: int) -> float:
    """Return the mean of the same, |e|^2 tr (B^T B)^-1 / (r - d - 1): that of a multivariate t."""
    b, target = rows[:, :-1], rows[:, -1]
    left = target - b @ np.linalg.lstsq(b, target)[0]
    return float(left @ left) * float(np.trace(np.linalg.inv(b.T @ b))) / int(sketch_rows - b.shape[1] - 1)


def error_by_rows(full: bool, draws: int) -> Shown:
    """Return the squared error of sketched least squares on the flights against r."""
    rows = flights()
    lines: list[tuple[Cell, ...]] = []
    for r in (10, *(10_000 * 2**i for i in range(10))) if full else (10, 100, 1_000, 10_000, 100_000):
        source = expand(bytes(32), f"ndis error by rows {r}")
        parts = [min(AT_ONCE, draws - start) for start in range(0, draws, AT_ONCE)]
        errors = np.concatenate([sketched_errors(rows, r, part, source) for part in parts])
        exact, mean, deviation = expected_error(rows, r), float(errors.mean()), float(errors.std()) / math.sqrt(draws)
        asymptotic = exact * (r - rows.shape[1]) / r
        lines.append((r, asymptotic, exact, mean, deviation, f"{(mean - exact) / deviation:+.1f}", spread(errors)))
    return Shown(
        "ndis-error-by-rows",
        "NDIS, sketched least squares on the flights: squared error of the coefficients against r",
        ("r", "asymptotic mean", "exact mean", "mean of the runs", "its standard error", "off by", "of a run"),
        tuple(lines),
        "|x~ - x|^2 of a solution from r rows of a Gaussian sketch, without noise: |e|^2 tr (B^T B)^-1 / r by the "
        "asymptotic law and / (r - d - 1) by the exact one, a multivariate t. The axes, r and the error, are those of "
        f"the authors' program. Median and 10 % and 90 % points, and the mean, of {draws:,} runs, each solved from a "
        "sketch's second moments without that law; 'off by' counts standard errors from the exact mean. The error of "
        "a run is skewed, its deviation as large as its mean. A mean of 300 runs scatters by 6 %, and a table of 300 "
        "had four of five means 7 to 11 % too low by chance.",
        Plot("r", "squared error", log_x=True, log_y=True),
    )
