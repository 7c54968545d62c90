"""Figures of the NDIS papers on the axes of their authors' program, with the flights for their Cancer.

Its notebooks draw two things: the spectrum of a projection to r = 10 columns, delta against epsilon from 0 to 1, the
formula as a line and a black-box estimate as stars; and the squared error of sketched least squares against r, measured
and by its asymptotic formula. Which of the papers' figures they became is not known here.
"""

import numpy as np
from showing import Cell, Plot, Shown, spread

from lintra_analysis.sampling import gaussians
from lintra_curator.ndis.closed import delta_rp, rp_pair
from lintra_curator.ndis.least_squares import delta_als, delta_ols
from lintra_curator.ndis.monte_carlo import sample_losses
from lintra_protocol.randomness import expand
from spectrum.flights import flights, most_telling

SPECTRUM_ROWS = 10
CANCER_CLIENTS = 2_809
SAMPLES = 20_000


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
        "which the notebook of the authors' program draws on these axes; our samples are of the known law, theirs of a "
        "black box. The asymptotic law of least squares is compared with the exact one. Median and 10 % and 90 % "
        f"points of {runs} runs.",
        Plot("epsilon", "delta", log_y=True),
    )  # fmt: skip


def error_by_rows(full: bool, runs: int) -> Shown:
    """Return the squared error of sketched least squares on the flights against r."""
    rows = flights()
    b, target = rows[:, :-1], rows[:, -1]
    best = np.linalg.lstsq(b, target)[0]
    inverse, features = np.linalg.inv(b.T @ b), b.shape[1]
    square = float(np.sum((target - b @ best) ** 2))
    factor, trace = np.linalg.cholesky(inverse), float(np.trace(inverse))
    lines: list[tuple[Cell, ...]] = []
    for r in (10, *(10_000 * 2**i for i in range(10))) if full else (10, 100, 1_000, 10_000, 100_000):
        source = expand(bytes(32), f"ndis error by rows {r}")
        scales = np.sum(gaussians((runs, min(r - features + 1, 2_000)), source) ** 2, axis=1)
        if r - features + 1 > 2_000:
            # A chi-square of many degrees by Wilson and Hilferty (1931), good to 1e-6 there.
            degrees = r - features + 1
            normal = gaussians((runs,), source)
            scales = degrees * (1 - 2 / (9 * degrees) + normal * np.sqrt(2 / (9 * degrees))) ** 3
        errors = np.sum((factor @ gaussians((features, runs), source)) ** 2, axis=0) * square / scales
        mean, deviation = float(errors.mean()), float(errors.std()) / np.sqrt(runs)
        lines.append((r, square * trace / r, square * trace / (r - features - 1), mean, deviation, spread(errors)))
    return Shown(
        "ndis-error-by-rows",
        "NDIS, sketched least squares on the flights: squared error of the coefficients against r",
        ("r", "asymptotic mean", "exact mean", "mean of the runs", "its standard error", "of a run"),
        tuple(lines),
        "|x~ - x|^2 of a solution from r rows of a Gaussian sketch, without noise: |e|^2 tr (B^T B)^-1 / r by the "
        "asymptotic law and / (r - d - 1) by the exact one, a multivariate t. The axes, r and the error, are those of "
        f"the authors' program. Median and 10 % and 90 % points, and the mean, of {runs} runs.",
        Plot("r", "squared error", log_x=True, log_y=True),
    )
