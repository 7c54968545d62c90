"""Intervals for any statistic of synthetic rows: the release, with its noise, is drawn again from its own model.

A parametric bootstrap (Efron and Tibshirani 1993, Section 6.5): each run samples people from the model, adds them up,
adds the known noise, fits again and draws rows again. A run's error is the difference to rows of the first model from
the same seed, which removes most of the chance in drawing rows. It is post-processing and costs no privacy.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lintra_analysis.estimators.estimates import Answer, check_confidence, quantile
from lintra_analysis.releases.joint_sums import ProjectedSums
from lintra_analysis.releases.sampling import chi_squares, gaussians, uniforms
from lintra_analysis.synthetic.generator import plain_rows
from lintra_analysis.synthetic.model import GaussianModel, fit
from lintra_analysis.synthetic.repair import symmetric_root
from lintra_analysis.synthetic.rows import SyntheticRows
from lintra_analysis.synthetic.sampling import Space, seed_bytes
from lintra_protocol.crypto.randomness import RandomBytes, derive_seed, keystream
from lintra_protocol.crypto.ring import FloatArray
from lintra_protocol.errors import InvalidAnalysisError

Statistic = Callable[[SyntheticRows], float | FloatArray]

MIN_RUNS = 20


@dataclass(frozen=True, eq=False)
class BootstrapEstimate(Answer):
    """A statistic of synthetic rows with its error from sampling people and from the privacy noise.

    Covariances are not shrunk here (see `repair`): shrinking makes rows more accurate, and slopes too small.
    """

    #: shape `(k,)`, the mean over one table of rows for each run, so that their own chance is averaged out
    value: FloatArray
    #: shape `(k,)`, by how much a repeated fit lies above it on average; the interval does not correct it
    bias: FloatArray
    standard_error: FloatArray  #: shape `(k,)`
    interval: FloatArray  #: shape `(k, 2)`, `standard_error` times a quantile of Student's t to both sides of the value
    confidence: float  #: of each interval
    runs: int  #: how many were used


def bootstrap(
    model: GaussianModel,
    statistic: Statistic,
    *,
    num_rows: int,
    seed: int,
    runs: int = 200,
    confidence: float = 0.95,
    space: Space = "columns",
) -> BootstrapEstimate:
    """Return a statistic of synthetic rows with intervals for the population behind the release.

    `model` is made by `fit`. `statistic` maps rows to a number or to an array of numbers; it is called twice in every
    run. `num_rows` is the number of rows of each table. `runs` are at least 20; some hundreds for intervals.
    `confidence` is strictly between 0 and 1; `space` is that of the rows (see `synthesize`). Raises
    InvalidAnalysisError if the model rests on two rounds, an argument does not fit, or the statistic gives something
    else than finite numbers, equally many each time.
    """
    check_confidence(confidence)
    if runs < MIN_RUNS:
        raise InvalidAnalysisError(f"a bootstrap needs at least {MIN_RUNS} runs, got {runs}")
    if model.second_digest:
        raise InvalidAnalysisError("the bootstrap draws one release again, and this model rests on two rounds")
    if model.release.tables:
        raise InvalidAnalysisError("the bootstrap does not draw pair tables again, and this release has some")
    first = fit(model.release, shrink=False)
    values: list[FloatArray] = []
    errors: list[FloatArray] = []
    for run in range(runs):
        own = derive_seed(seed_bytes(seed), "bootstrap", run.to_bytes(8, "big"))
        again = fit(draw_release(first, keystream(derive_seed(own, "release"))), shrink=False)
        # One seed for the rows of both models, so that most of their own chance cancels in the error.
        same = int.from_bytes(derive_seed(own, "rows"), "big")
        value, found = (_numbers(statistic(plain_rows(source, num_rows, same, space))) for source in (first, again))
        if {value.size, found.size} != {(values or [value])[0].size}:
            raise InvalidAnalysisError("the statistic must give equally many numbers each time")
        values.append(value)
        errors.append(found - value)
    mean: FloatArray = np.mean(values, axis=0)
    standard_error: FloatArray = np.std(errors, axis=0, ddof=1)
    reach = quantile(confidence, runs - 1) * standard_error
    return BootstrapEstimate(
        value=mean,
        bias=np.mean(errors, axis=0),
        standard_error=standard_error,
        interval=np.stack([mean - reach, mean + reach], axis=1),
        confidence=float(confidence),
        runs=runs,
    )


def draw_release(model: GaussianModel, random_bytes: RandomBytes) -> ProjectedSums:
    """Draw a release of the same size from a model: new people, new noise, the same public parameters.

    Sums and scatter are drawn by their own laws (normal, Wishart by Bartlett's decomposition), histograms as normal
    approximations of multinomials that do not know of the sums.
    """
    release = model.release
    n, size, noise = release.num_clients, release.size, release.noise
    counts = _multinomial(n, model.weights, random_bytes) if model.weights.size > 1 else np.array([float(n)])
    roots = [symmetric_root(covariance) for covariance in model.covariances]
    sums = np.empty((counts.size, size))
    products = np.zeros((len(roots), size, size))
    for number, count in enumerate(counts.tolist()):
        which = number if len(roots) > 1 else 0
        white = gaussians((size,), random_bytes)
        sums[number] = count * model.means[number] + np.sqrt(count) * (roots[which] @ white)
        # Products are about the origin: those about the mean, and the mean's own, n times.
        products[which] += np.outer(sums[number], sums[number]) / count if count > 0 else 0.0
        if len(roots) > 1:
            products[which] += _scatter(roots[which], count - 1, random_bytes)
    if len(roots) == 1:
        # Each class has lost one degree of freedom to its mean.
        products[0] += _scatter(roots[0], n - counts.size, random_bytes)
    laplace = noise.law == "discrete Laplace"
    released = counts + noise.count * _unit_noise(counts.shape, laplace, random_bytes)
    return replace(
        release,
        counts=released if release.levels else counts,
        sums=sums + noise.sum * _unit_noise(sums.shape, laplace, random_bytes),
        products=_noised(products, release, laplace, random_bytes).reshape(release.products.shape),
        histograms=tuple(_histogram(cells, release, laplace, random_bytes) for cells in model.marginals),
    )


def _scatter(root: FloatArray, freedom: float, random_bytes: RandomBytes) -> FloatArray:
    """Return a Wishart matrix with the covariance root^2, or its mean if there is too little freedom for one."""
    size = root.shape[0]
    if freedom <= size:
        return max(freedom, 0.0) * root @ root
    lower = np.tril(gaussians((size, size), random_bytes), -1)
    lower[np.diag_indices(size)] = [
        float(np.sqrt(chi_squares(freedom - i, (1,), random_bytes)[0])) for i in range(size)
    ]
    factor = root @ lower
    scatter: FloatArray = factor @ factor.T
    return scatter


def _noised(products: FloatArray, release: ProjectedSums, laplace: bool, random_bytes: RandomBytes) -> FloatArray:
    # A product is released once, so that both halves of the matrix have the same noise.
    noise = np.triu(_unit_noise(products.shape, laplace, random_bytes))
    noise *= np.where(np.eye(release.size, dtype=bool), release.noise.diagonal, release.noise.product)
    mirrored: FloatArray = products + noise + np.triu(noise, 1).transpose(0, 2, 1)
    return mirrored


def _histogram(cells: FloatArray, release: ProjectedSums, laplace: bool, random_bytes: RandomBytes) -> FloatArray:
    if not cells.size:
        return cells
    drawn = _multinomial(release.num_clients, cells, random_bytes)
    return drawn + release.noise.cell * _unit_noise(drawn.shape, laplace, random_bytes)


def _multinomial(count: int, probabilities: FloatArray, random_bytes: RandomBytes) -> FloatArray:
    """Return normal variables with the mean and covariance of a multinomial, not below 0."""
    white = np.sqrt(probabilities) * gaussians(probabilities.shape, random_bytes)
    # The covariance is diag(p) - p p^T: the last term takes out what would change the total.
    drawn: FloatArray = count * probabilities + np.sqrt(count) * (white - probabilities * white.sum())
    return np.maximum(drawn, 0.0)


def _unit_noise(shape: tuple[int, ...], laplace: bool, random_bytes: RandomBytes) -> FloatArray:
    """Return noise of variance 1, continuous; the true noise lies on a grid much finer than its deviation."""
    if not laplace:
        return gaussians(shape, random_bytes)
    centred = uniforms(shape, random_bytes) - 0.5
    # The inverse of the law's distribution function, over its deviation sqrt(2).
    noise: FloatArray = -np.sign(centred) * np.log1p(-2 * np.abs(centred)) / np.sqrt(2)
    return noise


def _numbers(value: float | FloatArray) -> FloatArray:
    numbers = np.atleast_1d(np.asarray(value, np.float64)).ravel()
    if numbers.size == 0 or not np.isfinite(numbers).all():
        raise InvalidAnalysisError("the statistic must be one or more finite numbers")
    return numbers
