"""What rests on the exact Gaussian law of a release's noise: its regressions, and why others are refused."""

from collections.abc import Sequence

import numpy as np

from lintra_analysis.estimators.coefficients import unit_map
from lintra_analysis.estimators.concentrated.regressions import Regression
from lintra_analysis.estimators.design import design
from lintra_analysis.estimators.estimates import Of, check_confidence, check_of
from lintra_analysis.releases.gram_error import GramEstimate, HasSecondMoment
from lintra_protocol.errors import InvalidAnalysisError

NEEDS_KNOWN_NOISE = (
    "this analysis rests on the exact Gaussian law of the noise in second moments, which this release does not have; "
    "release a second_moment, or ask for `regression`"
)
NEEDS_CONSTANT = (
    "this release holds no constant column, so no intercept can be fitted; plan the next task with an intercept"
)


def known_noise(release: HasSecondMoment) -> GramEstimate:
    """Return second moments whose noise has a known Gaussian law.

    Raises InvalidAnalysisError if the release holds none, or their noise has another law.
    """
    gram = release.second_moment()
    if gram.errors.kernel(gram.matrix.shape[0]) is None or not gram.errors.spectral_sigma:
        raise InvalidAnalysisError(NEEDS_KNOWN_NOISE)
    return gram


def known_regression(
    release: HasSecondMoment,
    target: str,
    features: Sequence[str] | None,
    *,
    intercept: bool | None = None,
    of: Of = "population",
    confidence: float = 0.95,
) -> Regression:
    """Return the least squares of a column on others with the law of their noise; arguments are those of `regression`.

    Raises InvalidAnalysisError if the noise has no known Gaussian law, or an argument does not fit the release.
    """
    check_confidence(confidence)
    check_of(of)
    chosen = design(known_noise(release), target, features, intercept)
    to_units = unit_map(chosen.gram.columns[:-1], chosen.target)
    offsets = np.append(np.zeros(len(chosen.features)), chosen.target.center)
    found = Regression.of_design(chosen, 0.0, of, float(confidence), to_units, offsets)
    assert found is not None  # the noise has a law
    return found


def weighted_words(gram: GramEstimate) -> tuple[str, ...]:
    """Return what a regression on weighted rows is called and about; nothing where all count alike."""
    return () if gram.weighted is None else (gram.weighted.name(gram.clipped), gram.weighted.about)
