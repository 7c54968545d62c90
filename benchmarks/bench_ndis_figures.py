"""Tables and figures of the two NDIS papers that the text at hand describes well enough to compute again.

    python benchmarks/bench_ndis_figures.py [--full] [--only ndis-flights-projection ...]

Wei, Lu, Magdon-Ismail and Zikas 2023 (arXiv 2309.01243, versions 3 and 4). Of the three data sets only the flights are
at hand as they were used (`spectrum/flights.py`). Utility is measured as their authors' program does
(`spectrum/utility.py`), and by the error of the Gram matrix, ours.
"""

import math
from collections.abc import Callable

import numpy as np
from bench_ndis_leverage import EPSILONS as LEVERAGE_EPSILONS
from bench_ndis_leverage import REFERENCE, improvement
from bench_ndis_survey import HERE, PUBLISHED, error_factor, least_singular_value, tables
from bench_ndis_survey import SKETCH_ROWS as RELATIVE_ROWS
from papers.calibrated import published_logistic_sensitivity
from papers.inherent_least_squares import inherent_least_squares
from papers.inherent_privacy import inherent_privacy
from papers.least_squares_corner import corner_sigma
from showing import Cell, FloatArray, Plot, Shown, parser, runs_of, show, spread
from spectrum import adversary, figures, logistic, process, redundant, utility, version4
from spectrum.flights import FLIGHT_SKETCH_ROWS, flights, longest

from lintra_curator.calibrated.calibrated_gaussian import Sensitivity, calibrate, renyi_envelope
from lintra_curator.calibrated.logistic_regression import logistic_sensitivity, plan_logistic
from lintra_curator.claims.claim import curator_claim
from lintra_curator.least_squares.private_least_squares import ols_sigma
from lintra_curator.ndis.bounds import renyi_bound, split_bound
from lintra_curator.ndis.closed_form import delta_rp, rp_pair
from lintra_curator.ndis.least_squares import delta_ols
from lintra_curator.ndis.monte_carlo import sample_losses
from lintra_curator.projection.random_projection import project, rp_sigma
from lintra_protocol.crypto.randomness import expand
from lintra_protocol.privacy.gaussian import gaussian_mu

EPSILON, DELTA = 1.0, 1e-6
SAMPLES = 100_000
FOLDER = HERE / "data"


def noise() -> Shown:
    """Return the columns of noise of Tables I to IV of version 3."""
    rows: list[tuple[Cell, ...]] = []
    for case in PUBLISHED:
        delta, bound, r, name = 1 / case.rows, case.row_bound, case.sketch_rows, case.name.split(",")[0]
        if case.features is None or case.projection is not None:
            tight, replaced = (rp_sigma(EPSILON, delta, r, bound, n) for n in ("zero-out", "replace-one"))
            singular = least_singular_value(EPSILON, delta, r, bound)
            shown = case.projection, math.hypot(tight, bound), tight, replaced, singular
            rows.append((f"{name}, projection", r, *shown))
        if case.features is not None:
            size = (EPSILON, delta, r, case.features, bound)
            rows.append((f"{name}, least squares", r, case.corner, corner_sigma(*size), ols_sigma(*size), None, None))
    return Shown(
        "ndis-noise",
        "NDIS, version 3, Tables I to IV: deviation of the noise, epsilon 1, delta 1/n",
        (
            "data, mechanism", "r", "printed", "published rule", "exact rule, ours", "exact, a row replaced",
            "least singular value",
        ),
        tuple(rows),
        "Mathematics; it needs only n, d and l of a table. The printed value of Song's projection is the row norm "
        "itself (errata.md). The exact rule of least squares is that of the law of a sketched solution.",
    )  # fmt: skip


def relative() -> Shown:
    """Return what tables and their neighbours hide by themselves: an analysis, not a guarantee."""
    rows: list[tuple[Cell, ...]] = []
    for name, table in tables(FOLDER).items():
        gram, count = table.T @ table, len(table)
        for r in RELATIVE_ROWS:
            found = inherent_privacy([table], EPSILON, 1 / count, r, 1.0)
            solved = inherent_least_squares([table], EPSILON, 1 / count, r, 1.0)
            errors = (error_factor(gram, sigma) for sigma in (found.sigma, found.worst_case_sigma))
            noises = found.delta_without_noise, found.published_sigma, found.sigma, found.worst_case_sigma
            least = solved.delta_without_ridge, solved.sigma, solved.worst_case_sigma
            rows.append((f"{name} {count:,} x {table.shape[1]}", r, found.largest_leverage, *noises, *errors, *least))
    return Shown(
        "ndis-relative",
        "NDIS, version 3: privacy relative to a table, epsilon 1, delta 1/n (an analysis)",
        (
            "table", "r", "largest leverage", "projection: delta without noise", "sigma, none or all", "sigma, least",
            "sigma for all data", "error, least", "error, all", "least squares: delta without ridge", "ridge, least",
            "ridge for all data",
        ),
        tuple(rows),
        "Columns standardised, rows clipped at the 99.9 % point of their norm, which becomes 1. Noise that is chosen "
        "from a private table promises nothing. The error is that of the estimate of D^T D in units of the error "
        "without noise. Mathematics.",
    )  # fmt: skip


def projection_noises(rows: FloatArray, sketch_rows: int) -> dict[str, float]:
    """Return the noise deviation by mechanism."""
    count, bound = len(rows), longest(rows)
    relative = inherent_privacy([rows], EPSILON, 1 / count, sketch_rows, bound * (1 + 1e-12))
    tight = rp_sigma(EPSILON, 1 / count, sketch_rows, bound)
    return {
        "no noise (promises nothing)": 0.0,
        "least noise relative to this table (an analysis)": relative.sigma,
        "exact, a row left out, ours": tight,
        "published, l / sqrt(p*)": math.hypot(tight, bound),
        "exact, a row replaced, ours": rp_sigma(EPSILON, 1 / count, sketch_rows, bound, "replace-one"),
        "least singular value (Blocki et al. 2012)": least_singular_value(EPSILON, 1 / count, sketch_rows, bound),
    }


def gram_errors(rows: FloatArray, sketch_rows: int, sigma: float, runs: int, label: str) -> list[float]:
    """Return |estimate - D^T D|_F / |D^T D|_F of so many sketches."""
    gram, size = rows.T @ rows, rows.shape[1]
    # Rows with the same second moments have sketches of the same law.
    short: FloatArray = np.asarray(np.linalg.cholesky(gram).T, np.float64)
    source = expand(bytes(32), f"ndis figures {label} {sketch_rows}")
    found = []
    for _ in range(runs):
        values = project(short, sigma**2, sketch_rows, source)
        estimate = values.T @ values / sketch_rows - sigma**2 * np.eye(size)
        found.append(float(np.linalg.norm(estimate - gram) / np.linalg.norm(gram)))
    return found


def expected_error(gram: FloatArray, sketch_rows: int, sigma: float) -> float:
    """Return the root mean square of the same: E |error|_F^2 = (tr(A)^2 + tr(A^2)) / r with A = D^T D + sigma^2 I."""
    noised = gram + sigma**2 * np.eye(len(gram))
    square = float(np.trace(noised)) ** 2 + float(np.sum(noised**2))
    return math.sqrt(square / sketch_rows) / float(np.linalg.norm(gram))


def flights_projection(runs: int) -> Shown:
    """Return the utility of a projection of the flights."""
    rows = flights()
    noises = projection_noises(rows, FLIGHT_SKETCH_ROWS)
    r, gram = FLIGHT_SKETCH_ROWS, rows.T @ rows
    lines = tuple(
        (name, sigma, spread(gram_errors(rows, r, sigma, runs, name)), expected_error(gram, r, sigma))
        for name, sigma in noises.items()
    )
    return Shown(
        "ndis-flights-projection",
        f"NDIS, projection of the flights, r = {FLIGHT_SKETCH_ROWS}, epsilon 1, delta 1/n: noise and utility",
        ("mechanism", "sigma", "relative error of the Gram matrix", "expected, root mean square"),
        lines,
        f"{len(rows):,} rows, three columns, l = {longest(rows):.10f}, with which the published rule gives "
        "the printed noise, 0.7452001525, to six digits. The error is "
        f"|estimate - D^T D|_F / |D^T D|_F; median and 10 % and 90 % points of {runs} runs.",
    )


def flights_by_rows(full: bool, runs: int) -> Shown:
    """Return the same error by r."""
    rows = flights()
    lines: list[tuple[Cell, ...]] = []
    names: list[str] = []
    for sketch_rows in (30, 100, 300, 1200, 3000, 10_000, 30_000) if full else (30, 300, 1200, 10_000):
        noises = projection_noises(rows, sketch_rows)
        names = [name for name in noises if "published" not in name and "analysis" not in name]
        cells = (spread(gram_errors(rows, sketch_rows, noises[name], runs, name)) for name in names)
        lines.append((sketch_rows, *cells))
    return Shown(
        "ndis-flights-by-r",
        "NDIS, projection of the flights by r, epsilon 1, delta 1/n: relative error of the Gram matrix",
        ("r", *names),
        tuple(lines),
        f"More rows scatter less and need more noise. Median and 10 % and 90 % points of {runs} runs.",
        Plot("r", "relative error", log_x=True, log_y=True),
    )


def profile(full: bool, runs: int) -> Shown:
    """Return a privacy profile of a projection, exact, bounded and sampled."""
    leverage, r = 0.05, 30
    pair = rp_pair(leverage, r)
    source = expand(bytes(32), "ndis figures profile")
    losses = [sample_losses(pair, SAMPLES, source) for _ in range(runs)]
    lines: list[tuple[Cell, ...]] = []
    for epsilon in np.arange(0, 2.05, 0.1) if full else (0.0, 0.1, 0.25, 0.5, 1.0, 2.0):
        at = float(epsilon)
        sampled = spread(float(np.abs(np.expm1(np.minimum(at - loss, 0))).mean()) for loss in losses)
        exact = (float(delta_rp(at, leverage, r, direction)) for direction in ("remove", "add"))
        lines.append((at, *exact, renyi_bound(pair, at), sampled))
    return Shown(
        "ndis-profile",
        f"NDIS, profile of a random projection, leverage {leverage}, r = {r}: exact, bounded and sampled",
        ("epsilon", "delta, row removed", "delta, row added", "by Renyi divergence", f"sampled, {SAMPLES:,} losses"),
        tuple(lines),
        "The sampling estimator of version 3, Figure 2, is useless where delta is far below one over the samples. "
        f"Median and 10 % and 90 % points of {runs} runs.",
        Plot("epsilon", "delta", log_y=True),
    )


def by_leverage() -> Shown:
    """Return delta by leverage."""
    epsilon, share, r = 0.2, 0.04711, 3

    def line(p: float) -> tuple[Cell, ...]:
        removed, added = (float(delta_rp(epsilon, p, r, direction)) for direction in ("remove", "add"))
        return p, removed, added, f"{delta_ols(epsilon, p, share, r, 1):.4e}"

    return Shown(
        "ndis-by-leverage",
        f"NDIS, delta by leverage, epsilon {epsilon}, r = {r}: projection grows, least squares does not",
        ("leverage", "projection, row removed", "projection, row added", f"least squares, residual share {share}"),
        tuple(line(p) for p in (0.02, 0.03, 0.036623, 0.050181, 0.07, 0.1)),
        "The delta of a projection is increasing in the leverage. That of least squares is not (errata.md): look at "
        "the third and fourth line. Mathematics.",
        Plot("leverage", "delta", log_y=True),
    )


def leverage_gain() -> Shown:
    """Return Figure 2 of version 4."""
    return Shown(
        "ndis-leverage-gain",
        "NDIS, version 4, Figure 2: private leverage over that of the least singular value, delta 1e-6",
        ("epsilon", *(f"r = {r}" for r in REFERENCE)),
        tuple((epsilon, *(improvement(epsilon, r) for r in REFERENCE)) for epsilon in LEVERAGE_EPSILONS),
        "Mathematics; the figure's delta and grid are inferred.",
        Plot("epsilon", "p* / p_LSV", log_x=True),
    )


def rough_sigma(sensitivity: Callable[[float], Sensitivity], most: float) -> float:
    """Return the noise by the split bound alone with a Renyi bound of its covariance part, to 1e-4: a bisection."""

    def private(sigma: float) -> bool:
        at = sensitivity(sigma)
        covariance = Sensitivity(0.0, at.log_ratio, at.log_volume, at.one_direction)
        return split_bound(EPSILON, at.shift, lambda epsilon: renyi_envelope(epsilon, covariance)) <= DELTA

    low, high = 0.0, most
    while high - low > 1e-4 * high:
        low, high = (low, (low + high) / 2) if private((low + high) / 2) else ((low + high) / 2, high)
    return high


def calibrated() -> Shown:
    """Return the noise of the calibrated mechanism for logistic regression."""
    features, claim = 10, curator_claim(EPSILON, DELTA, "zero-out")

    def line(regularization: float, count: int) -> tuple[Cell, ...]:
        published = calibrate(
            claim, lambda sigma: published_logistic_sensitivity(sigma, 1.0, regularization, features, count)
        )
        ours = plan_logistic(claim, 1.0, regularization, count)
        rough = rough_sigma(lambda sigma: logistic_sensitivity(sigma, 1.0, regularization, count), 4 * published.sigma)
        mean = 1 / regularization / gaussian_mu(EPSILON, DELTA)
        return regularization, count, ours.sigma, rough, published.sigma, mean

    return Shown(
        "ndis-calibrated",
        "NDIS, version 4, calibrated Gaussian mechanism for logistic regression: deviation of the noise",
        (
            "lambda",
            "n at most",
            "one moving eigenvalue, ours",
            "the same, rougher envelope",
            "published sensitivity",
            "Gaussian mechanism, mean only",
        ),
        tuple(line(*case) for case in ((1.0, 1000), (10.0, 1000), (100.0, 10_000))),
        f"l = 1, {features} features, epsilon 1, delta 1e-6. The third and the fifth column take the smaller of our "
        "two proved envelopes, with the exact profile of the covariance where one eigenvalue moves. The fourth takes "
        "mean and covariance apart with a Renyi bound for the covariance, 1 to 2 % more noise. The last column is the "
        "noise of the mean alone, without any scatter of its own. That of the posterior tells of the data too, and "
        "only with a strong prior does it save more noise than it costs. Mathematics.",
    )


def parts(full: bool, runs: int) -> dict[str, Callable[[], Shown]]:
    """Return what can be shown, by name."""
    return {
        "ndis-noise": noise,
        "ndis-relative": relative,
        "ndis-flights-projection": lambda: flights_projection(runs),
        "ndis-flights-by-r": lambda: flights_by_rows(full, runs),
        "ndis-flights-distances": lambda: utility.flights_distances(runs),
        "ndis-flights-least-squares": lambda: utility.flights_least_squares(runs),
        "ndis-spectrum": lambda: figures.spectrum(full, max(runs // 10, 2)),
        "ndis-error-by-rows": lambda: figures.error_by_rows(full, 3_000 * runs),
        "ndis-profile": lambda: profile(full, max(runs // 15, 2)),
        "ndis-by-leverage": by_leverage,
        "ndis-leverage-gain": leverage_gain,
        "ndis-calibrated": calibrated,
        "ndis-calibrated-search": lambda: adversary.search(12 if full else 3),
        **version4.parts(runs),
        "ndis-table-1-accuracy": lambda: logistic.table_1_accuracy(runs),
        "ndis-table-1-error": process.table_1_error,
        **redundant.parts(runs),
    }


def main() -> None:
    """Show what is asked for."""
    asked = parser(__doc__, 300, 1000).parse_args()
    show(parts(asked.full, runs_of(asked)), asked)


if __name__ == "__main__":
    main()
