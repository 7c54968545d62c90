"""What an analyst must know before using a regression's numbers, in plain words."""

from lintra_analysis.estimators.solve import Fit
from lintra_analysis.releases.gram import GramEstimate

R2_NOTE = (
    "r2 is predicted from this release, not measured on rows: the share of the target's second moment about "
    "its public center, not about its mean, that the fit explains on the cohort's clipped rows"
)
R2_ABOUT_MEAN_NOTE = (
    "r2 is predicted from this release, not measured on rows: the share of the target's variance about its mean that "
    "the fit explains on the cohort's clipped rows"
)
SHRUNK_NOTE = "a penalty shrinks the coefficients; intervals and tests are about the shrunk ones"
CONCENTRATED_LAW = (
    "intervals and tests rest on the exact Gaussian law of the noise and hold however badly conditioned the features "
    "are"
)
LINEAR_LAW = (
    "intervals and tests rest on the noise's variances, linearised about the estimate: approximate, and too narrow "
    "where features are nearly dependent"
)
SKETCH_LAW = (
    "intervals and tests rest on the spread of the sketch's own rows, linearised about the estimate: approximate, and "
    "too narrow where features are nearly dependent"
)
ONE_VARIANCE = "; for the population one residual variance is assumed, which second moments cannot check"
ANY_VARIANCE = (
    "; for the population nothing is assumed of the residuals' variances: the sampling part of an error is the largest "
    "that rows of this norm can have, and intervals cover more than they say"
)
NOISELESS_LAW = "the release carries no noise, so intervals and tests are those of ordinary least squares"

HEAVY_TAILS = (
    "; with heavy tails intervals cover less than they say, those of correlations down to .41 of .95 on a table that "
    "was tried"
)

_NAMED = 5


def one_variance(most: float | None) -> str:
    """Return what is assumed of residuals for the population, and by how much that may fall short.

    Args:
        most: how many times the sampling part of an error may be what is stated, whatever the residuals' variances;
            None where that is not known.
    """
    if most is None:
        return ONE_VARIANCE
    return (
        f"{ONE_VARIANCE}: where it changes with the features intervals cover less (on tables that were tried down to "
        f".68 of .95), and the sampling part of an error is at most {most:.2g} times what is stated"
    )


def named(columns: tuple[str, ...]) -> str:
    """Return a few of the columns for a sentence."""
    return ", ".join(columns[:_NAMED]) + (" and others" if len(columns) > _NAMED else "")


def warnings_of(gram: GramEstimate, fit: Fit, *, known: bool) -> tuple[str, ...]:
    """Return what follows from the repair of the matrix.

    Args:
        gram: of the regression.
        fit: its solution.
        known: whether the intervals do not rest on the repaired matrix.
    """
    found = []
    size = gram.matrix.shape[0]
    best_rows = gram.errors.informative_rows(gram.matrix)
    if best_rows is not None and best_rows < 4 * size:
        found.append(
            f"sketch uninformative: this data and noise support {best_rows:.0f} sketch rows, fewer than "
            f"4 x {size} columns; release second moments instead"
        )
    if fit.regularised:
        where = f", mostly along {named(fit.blurred)}" if fit.blurred else ""
        found.append(
            f"noise dominates some directions of the features{where}: eigenvalues below {fit.floor:.4g} were raised "
            "to it for predictions, which shrinks their coefficients along them"
        )
    if fit.regularised and fit.parts is not None and not known:
        found.append("the intervals leave out the bias of that shrinkage; treat them as approximate")
    if fit.parts is None and not known:
        found.append(
            "no standard errors: the sandwich formula for sketches holds only if no eigenvalue was raised "
            "and there are more sketch rows than features"
        )
    if fit.r2 is None and not known:
        found.append(f"no r2: the second moment of {gram.columns[-1].name!r} cannot be told from noise")
    return tuple(found)


def matrix_warnings(lost: tuple[str, ...], repaired: bool) -> tuple[str, ...]:
    """Return what the analyst must know of a matrix of correlations: columns lost in noise, and a repair."""
    warnings = []
    if lost:
        warnings.append(f"noise has swallowed the variance of {', '.join(lost)}, which the matrix leaves out")
    if repaired:
        warnings.append("noise had made the matrix indefinite; the matrix is repaired, the pairs are not")
    return tuple(warnings)
