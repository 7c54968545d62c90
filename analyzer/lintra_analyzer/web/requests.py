"""What can be asked of each analysis: every field but `kind` is an argument of its estimator."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from lintra_analysis.estimators.centred import About
from lintra_analysis.estimators.estimates import Of, Residuals
from lintra_analysis.estimators.histogram import USUAL_QUANTILES
from lintra_analysis.estimators.power_sums import MOST_POWER
from lintra_analysis.synthetic.sampling import Space

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

# What is said of an option is its help on the command line, and stands in the interface description.
Target = Annotated[str, Field(description="The column to explain.")]
Features = Annotated[list[str] | None, Field(description="The columns that explain the target; by default all others.")]
Columns = Annotated[list[str] | None, Field(description="The columns that take part; by default all.")]
Ridge = Annotated[Penalty, Field(description="The penalty of a ridge regression, in normalised units; 0 by default.")]
Intercept = Annotated[bool | None, Field(description="Fit an intercept; by default where the release can.")]
Components = Annotated[int | None, Field(ge=1, strict=True, description="How many components; the usual by default.")]
_GROUP = "The column whose levels are compared."
Group = Annotated[str, Field(description=_GROUP)]
Centre = Annotated[About, Field(description="What variances are about: means, where they are released, or centers.")]


class _Asked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    confidence: Number = Field(default=0.95, gt=0, lt=1, description="The confidence of intervals; 0.95 by default.")


OF_BY_DEFAULT: Any = Field(default="population", description="Whom errors are about: population or cohort.")


class _AskedOf(_Asked):
    """An analysis whose errors are about the population or about the cohort's own rows."""

    of: Of = OF_BY_DEFAULT


class RegressionRequest(_AskedOf):
    """Least squares or ridge of one column on others, with tests; by default on all others."""

    kind: Literal["regression"]
    target: Target
    features: Features = None
    regularization: Ridge = 0.0
    intercept: Intercept = None
    simultaneous: bool = Field(default=False, description="Add bounds that hold for all regressions at once.")
    residuals: Residuals = Field(default="alike", description="What is assumed of their variances: alike or any.")


class DifferenceRequest(_AskedOf):
    """How the mean of a column differs between groups, and the means; the group is a boolean or a category."""

    kind: Literal["difference"]
    target: Target
    group: Group


class AnovaRequest(BaseModel):
    """Tests of every term of a regression given all others; by default of one on all other columns."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["anova"]
    target: Target
    features: Features = None
    intercept: Intercept = None
    of: Of = OF_BY_DEFAULT


class FTestRequest(AnovaRequest):
    """The test of a smaller regression against a larger one."""

    kind: Literal["f-test"]  # type: ignore[assignment]
    less: list[str] = Field(default=[], description="The features of the smaller regression; by default none.")


class InstrumentsRequest(_AskedOf):
    """A regression on columns that share a cause with the target, by instruments that do not."""

    kind: Literal["iv"]
    target: Target
    endogenous: list[str] = Field(min_length=1, description="The columns that share a cause with the target.")
    instruments: list[str] = Field(min_length=1, description="The columns that move these and have no other part.")
    exogenous: list[str] = Field(default=[], description="Other columns that explain the target; by default none.")


class RegressionPathRequest(_Asked):
    """The same regression under many penalties, by default 25 of them."""

    kind: Literal["regression-path"]
    target: Target
    features: Features = None
    regularizations: list[Penalty] | None = Field(default=None, description="The penalties; 25 of them by default.")
    intercept: Intercept = None


class ElasticNetRequest(BaseModel):
    """A regression that leaves out the features that help least, without intervals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["elastic-net"]
    target: Target
    features: Features = None
    alpha: Penalty = Field(default=0.1, description="The penalty, in normalised units; 0.1 by default.")
    l1_ratio: Number = Field(default=0.5, ge=0, le=1, description="The part of it that sets coefficients to 0.")


class LinearScoreRequest(_AskedOf):
    """A ranking of rows by how likely a boolean column is 1; no odds ratios and no probabilities."""

    kind: Literal["linear-score"]
    target: Target
    features: Features = None


class LogitRequest(_AskedOf):
    """A logistic regression, from the release of the last round of a `newton_step` chain."""

    kind: Literal["logit"]
    missing: Number = Field(
        default=0.0, ge=0, lt=1, description="The share of reports that may be in one of the last two rounds only."
    )


class PcaRequest(_AskedOf):
    """Principal components about the means where the release holds them, by default all up to 20."""

    kind: Literal["pca"]
    components: Components = None
    columns: Columns = None
    about: Centre = "means"


class CorrelationRequest(_AskedOf):
    """Correlations about the means where the release holds them, by default of all columns."""

    kind: Literal["correlation"]
    columns: Columns = None
    about: Centre = "means"


class PartialCorrelationRequest(BaseModel):
    """Correlations of pairs of columns given all others, with p values."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["partial-correlation"]
    columns: Columns = None
    of: Of = OF_BY_DEFAULT


class MeansRequest(_AskedOf):
    """Means, from a sum or a constant column, by default of all columns."""

    kind: Literal["means"]
    columns: Columns = None


class HistogramRequest(_AskedOf):
    """Shares of cells and quantiles of a `histogram` release, by default of all columns."""

    kind: Literal["histogram"]
    columns: Columns = None
    quantiles: list[Quantile] = Field(
        default=list(USUAL_QUANTILES), max_length=MAX_QUANTILES, description="Which, as parts of the rows such as 0.5."
    )


Time = Annotated[str, Field(description="How long a row was observed: until the event, or until it was lost to sight.")]
Event = Annotated[str, Field(description="Whether that ended with the event; a boolean.")]


class SurvivalRequest(_AskedOf):
    """Survival curves of a crossed `histogram` release with bands, one for each group if there is one."""

    kind: Literal["survival"]
    time: Time
    event: Event
    group: str | None = Field(default=None, description=_GROUP)


class LogrankRequest(BaseModel):
    """The log-rank test of groups having the same survival, of a crossed `histogram` release."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["logrank"]
    time: Time
    event: Event
    group: Group


class ChiSquareRequest(BaseModel):
    """A test of two columns being independent, from counts of both together."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["chi-square"]
    target: Target
    group: Group


class PowerSumsRequest(_Asked):
    """Sums of |x|^k over the cohort from a `histogram` release, by default for k = 1 to 4 of all numbers."""

    kind: Literal["power-sums"]
    columns: Columns = None
    powers: list[Power] = Field(
        default=[1, 2, 3, 4], min_length=1, max_length=MOST_POWER, description="The powers k; 1 to 4 by default."
    )


class WideComponentsRequest(BaseModel):
    """Components of very many columns from a `range_finder` release, without intervals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["wide-components"]
    components: Components = None
    about: Centre = "means"


class WideVariancesRequest(_Asked):
    """Directions of a `range_finder` release with intervals of the variances along them."""

    kind: Literal["wide-variances"]
    components: Components = None
    about: Centre = "means"


class WideRidgeRequest(BaseModel):
    """A ridge regression of one column on all others from a `range_finder` release."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["wide-ridge"]
    target: Target
    regularization: Ridge = 0.0
    about: Centre = "means"


class SyntheticRequest(BaseModel):
    """Synthetic rows from the model of a `ron_gauss` release; the same seed gives the same rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["synthetic"]
    num_rows: int = Field(ge=1, le=MAX_SYNTHETIC_ROWS, strict=True, description="How many rows to draw.")
    seed: int = Field(ge=0, lt=2**256, strict=True, description="The same seed gives the same rows.")
    space: Space = Field(default="columns", description="Rows as columns, or projected as the coordinates h1 ..")


class FidelityRequest(_Asked):
    """What to expect of synthetic rows, without any real ones."""

    kind: Literal["fidelity"]
