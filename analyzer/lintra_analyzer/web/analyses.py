"""The analyses that an analyst can ask for over one release; all of them are post-processing and cost no privacy."""

import json
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from lintra_analysis.certificate.certificate import ReleaseRecord
from lintra_analysis.estimators.centred import About
from lintra_analysis.estimators.correlation import CorrelationEstimate, correlation
from lintra_analysis.estimators.estimates import Of, Residuals
from lintra_analysis.estimators.histogram import USUAL_QUANTILES, histogram
from lintra_analysis.estimators.histogram_estimate import HistogramEstimate
from lintra_analysis.estimators.linear_score import linear_score
from lintra_analysis.estimators.linear_score_estimate import LinearScore
from lintra_analysis.estimators.means import MeansEstimate, means
from lintra_analysis.estimators.path import RegressionPath, regression_path
from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.pca_estimate import PcaEstimate
from lintra_analysis.estimators.power_sums import MOST_POWER, power_sums
from lintra_analysis.estimators.power_sums_estimate import PowerSumsEstimate
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.regression_estimate import RegressionEstimate
from lintra_analysis.estimators.wide import wide_components, wide_ridge, wide_variances
from lintra_analysis.estimators.wide_estimate import WideComponents, WideRidge
from lintra_analysis.releases.clipped import FEW
from lintra_analysis.releases.release import Release
from lintra_analysis.synthetic.analysis import SyntheticEstimate, gaussian_model, synthesize
from lintra_analysis.synthetic.fidelity import FidelityReport, fidelity
from lintra_analysis.synthetic.sampling import Space
from lintra_protocol.encoding.documents import first_complaint, rounded_up
from lintra_protocol.errors import InvalidAnalysisError

MAX_SYNTHETIC_ROWS = 1_000_000
"""Most rows in one answer; more come from several seeds."""

MAX_SYNTHETIC_NUMBERS = 1 << 24
"""Most numbers in one answer."""


MAX_QUANTILES = 1000


def _no_boolean(value: object) -> object:
    """Refuse true and false, which would pass as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("expected a number, got true or false")
    return value


Number = Annotated[float, BeforeValidator(_no_boolean)]
Quantile = Annotated[Number, Field(gt=0, lt=1)]
Power = Annotated[int, Field(ge=1, le=MOST_POWER, strict=True)]
Penalty = Annotated[Number, Field(ge=0, allow_inf_nan=False)]


class _Asked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    confidence: Number = Field(default=0.95, gt=0, lt=1)


class _AskedOf(_Asked):
    """An analysis whose errors are about the population or about the cohort's own rows."""

    of: Of = "population"


class RegressionRequest(_AskedOf):
    """Least squares or ridge of one column on others, with tests; by default on all others."""

    kind: Literal["regression"]
    target: str
    features: list[str] | None = None
    regularization: Penalty = 0.0
    intercept: bool | None = None
    simultaneous: bool = False
    residuals: Residuals = "alike"

    def run(self, release: Release) -> RegressionEstimate:
        """Run the estimator."""
        return regression(
            release,
            self.target,
            self.features,
            self.regularization,
            intercept=self.intercept,
            of=self.of,
            simultaneous=self.simultaneous,
            residuals=self.residuals,
            confidence=self.confidence,
        )


class RegressionPathRequest(_Asked):
    """The same regression under many penalties, by default 25 of them."""

    kind: Literal["regression-path"]
    target: str
    features: list[str] | None = None
    regularizations: list[Penalty] | None = None
    intercept: bool | None = None

    def run(self, release: Release) -> RegressionPath:
        """Run the estimator."""
        return regression_path(release, self.target, self.features, self.regularizations, intercept=self.intercept)


class LinearScoreRequest(_AskedOf):
    """A ranking of rows by how likely a boolean column is 1; no odds ratios and no probabilities."""

    kind: Literal["linear-score"]
    target: str
    features: list[str] | None = None

    def run(self, release: Release) -> LinearScore:
        """Run the estimator."""
        return linear_score(release, self.target, self.features, of=self.of, confidence=self.confidence)


class PcaRequest(_AskedOf):
    """Principal components about the means where the release holds them, by default all up to 20."""

    kind: Literal["pca"]
    components: int | None = Field(default=None, ge=1, strict=True)
    columns: list[str] | None = None
    about: About = "means"

    def run(self, release: Release) -> PcaEstimate:
        """Run the estimator."""
        return pca(release, self.components, self.columns, self.confidence, about=self.about, of=self.of)


class CorrelationRequest(_AskedOf):
    """Correlations about the means where the release holds them, by default of all columns."""

    kind: Literal["correlation"]
    columns: list[str] | None = None
    about: About = "means"

    def run(self, release: Release) -> CorrelationEstimate:
        """Run the estimator."""
        return correlation(release, self.columns, self.confidence, about=self.about, of=self.of)


class MeansRequest(_AskedOf):
    """Means, from a sum or a constant column, by default of all columns."""

    kind: Literal["means"]
    columns: list[str] | None = None

    def run(self, release: Release) -> MeansEstimate:
        """Run the estimator."""
        return means(release, self.columns, self.confidence, of=self.of)


class HistogramRequest(_AskedOf):
    """Shares of cells and quantiles of a `histogram` release, by default of all columns."""

    kind: Literal["histogram"]
    columns: list[str] | None = None
    quantiles: list[Quantile] = Field(default=list(USUAL_QUANTILES), max_length=MAX_QUANTILES)

    def run(self, release: Release) -> HistogramEstimate:
        """Run the estimator."""
        return histogram(release, self.columns, self.quantiles, self.confidence, of=self.of)


class PowerSumsRequest(_Asked):
    """Sums of |x|^k over the cohort from a `histogram` release, by default for k = 1 to 4 of all numbers."""

    kind: Literal["power-sums"]
    columns: list[str] | None = None
    powers: list[Power] = Field(default=[1, 2, 3, 4], min_length=1, max_length=MOST_POWER)

    def run(self, release: Release) -> PowerSumsEstimate:
        """Run the estimator."""
        return power_sums(release, self.powers, self.columns, self.confidence)


class WideComponentsRequest(BaseModel):
    """Components of very many columns from a `range_finder` release, without intervals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["wide-components"]
    components: int | None = Field(default=None, ge=1, strict=True)
    about: About = "means"

    def run(self, release: Release) -> WideComponents:
        """Run the estimator."""
        return wide_components(release, self.components, about=self.about)


class WideVariancesRequest(_Asked):
    """Directions of a `range_finder` release with intervals of the variances along them."""

    kind: Literal["wide-variances"]
    components: int | None = Field(default=None, ge=1, strict=True)
    about: About = "means"

    def run(self, release: Release) -> WideComponents:
        """Run the estimator."""
        return wide_variances(release, self.components, self.confidence, about=self.about)


class WideRidgeRequest(BaseModel):
    """A ridge regression of one column on all others from a `range_finder` release."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["wide-ridge"]
    target: str
    regularization: Penalty = 0.0
    about: About = "means"

    def run(self, release: Release) -> WideRidge:
        """Run the estimator."""
        return wide_ridge(release, self.target, self.regularization, about=self.about)


class SyntheticRequest(BaseModel):
    """Synthetic rows from the model of a `ron_gauss` release; the same seed gives the same rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["synthetic"]
    num_rows: int = Field(ge=1, le=MAX_SYNTHETIC_ROWS, strict=True)
    seed: int = Field(ge=0, lt=2**256, strict=True)
    space: Space = "columns"

    def run(self, release: Release) -> SyntheticEstimate:
        """Draw the rows."""
        return SyntheticEstimate(synthesize(release, self.num_rows, self.seed, self.space, MAX_SYNTHETIC_NUMBERS))


class FidelityRequest(_Asked):
    """What to expect of synthetic rows, without any real ones."""

    kind: Literal["fidelity"]

    def run(self, release: Release) -> FidelityReport:
        """Fit the model and report."""
        return fidelity(gaussian_model(release), self.confidence)


Request = (
    RegressionRequest
    | RegressionPathRequest
    | LinearScoreRequest
    | PcaRequest
    | CorrelationRequest
    | MeansRequest
    | HistogramRequest
    | PowerSumsRequest
    | WideComponentsRequest
    | WideVariancesRequest
    | WideRidgeRequest
    | SyntheticRequest
    | FidelityRequest
)
REQUESTS: dict[str, type[Request]] = {
    "regression": RegressionRequest,
    "regression-path": RegressionPathRequest,
    "linear-score": LinearScoreRequest,
    "pca": PcaRequest,
    "correlation": CorrelationRequest,
    "means": MeansRequest,
    "histogram": HistogramRequest,
    "power-sums": PowerSumsRequest,
    "wide-components": WideComponentsRequest,
    "wide-variances": WideVariancesRequest,
    "wide-ridge": WideRidgeRequest,
    "synthetic": SyntheticRequest,
    "fidelity": FidelityRequest,
}

_adapter: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="kind")])

PRIVACY_SPENT = "nothing more: an analysis reads the release, never a report"


NO_LOGISTIC = (
    "a logistic regression cannot be had from second moments: odds ratios and probabilities need what they lack, "
    "and the quadratic approximation is a multiple of least squares (Huggins, Adams, Broderick 2017); ask for the "
    "linear-score of the target for a ranking, or fit lintra_curator's logistic_regression where the rows are"
)
_LOGISTIC = frozenset({"logistic", "logistic-regression", "logit"})


def _asked_kind(body: bytes) -> str:
    """Return the kind that a request names, which is not one that there is; empty if it names none."""
    asked = json.loads(body) if body.strip().startswith(b"{") else {}
    kind = asked.get("kind")
    return kind if isinstance(kind, str) else ""


def parse_request(body: bytes) -> Request:
    """Read a request.

    Raises:
        InvalidAnalysisError: an unknown kind, with the known ones, or a field that does not fit.
    """
    try:
        return _adapter.validate_json(body)
    except ValidationError as error:
        complaint = error.errors(include_input=False, include_url=False)[0]
        if complaint["type"] in {"union_tag_invalid", "union_tag_not_found"}:
            if _asked_kind(body) in _LOGISTIC:
                raise InvalidAnalysisError(NO_LOGISTIC) from None
            raise InvalidAnalysisError(f"kind: expected one of {', '.join(REQUESTS)}") from None
        if complaint["type"] == "extra_forbidden" and len(complaint["loc"]) == 2:
            kind, name = map(str, complaint["loc"])
            known = ", ".join(field for field in REQUESTS[kind].model_fields if field != "kind")
            raise InvalidAnalysisError(f"{kind} has no argument {name!r}; it has: {known}") from None
        raise InvalidAnalysisError(first_complaint(error)) from None


def request_schema() -> dict[str, object]:
    """Return the JSON schema of a request, for the interface description."""
    return {"oneOf": [model.model_json_schema() for model in REQUESTS.values()]}


def promise(record: ReleaseRecord) -> str:
    """Return in one line what the release promises."""
    privacy = record.privacy
    return (
        f"epsilon {privacy.epsilon:.6g} at delta {rounded_up(privacy.delta)} ({privacy.neighbours}); "
        f"this analysis spent {PRIVACY_SPENT}"
    )


def summary(record: ReleaseRecord) -> dict[str, object]:
    """Return what every answer repeats of the release's certificate."""
    privacy = record.privacy
    flagged = record.plausibility.flagged_rows
    warnings = [privacy.remark] if privacy.remark else []
    if record.clipped and float(record.clipped.upper_share) > FEW:
        warnings.append(record.clipped.words)
    if flagged:
        warnings.append(f"{len(flagged)} rows of the release are implausible; somebody left their bounds")
    return {
        "release_id": record.release_id,
        "task_id": record.task_id,
        "num_clients": record.num_clients,
        "epsilon": rounded_up(privacy.epsilon),
        "delta": rounded_up(privacy.delta),
        "neighbours": privacy.neighbours,
        "max_corrupt_clients": privacy.max_corrupt_clients,
        "privacy_spent": PRIVACY_SPENT,
        "warnings": warnings,
    }
