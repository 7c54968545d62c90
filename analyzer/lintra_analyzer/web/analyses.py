"""The analyses that an analyst can ask for over one release; all of them are post-processing and cost no privacy."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import methodcaller, or_
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from lintra_analysis.certificate.certificate import ReleaseRecord
from lintra_analysis.estimators.chi_square import chi_square, counted_pairs
from lintra_analysis.estimators.correlation import correlation
from lintra_analysis.estimators.elastic_net import elastic_net
from lintra_analysis.estimators.feature_tests import anova, f_test
from lintra_analysis.estimators.group_difference import difference, groups_of
from lintra_analysis.estimators.histogram import histogram
from lintra_analysis.estimators.instruments import iv
from lintra_analysis.estimators.known_noise import known_noise
from lintra_analysis.estimators.linear_score import is_binary, linear_score
from lintra_analysis.estimators.logit import logit
from lintra_analysis.estimators.means import means
from lintra_analysis.estimators.partial_correlation import partial_correlation
from lintra_analysis.estimators.path import regression_path
from lintra_analysis.estimators.pca import pca
from lintra_analysis.estimators.power_sums import power_sums
from lintra_analysis.estimators.regression import regression
from lintra_analysis.estimators.survival import logrank, survival
from lintra_analysis.estimators.table import Estimate
from lintra_analysis.estimators.wide import wide_components, wide_ridge, wide_variances
from lintra_analysis.releases.clipped import FEW
from lintra_analysis.releases.columns import ScaledColumn
from lintra_analysis.releases.release import Release
from lintra_analysis.synthetic.analysis import SyntheticEstimate, gaussian_model, synthesize
from lintra_analysis.synthetic.fidelity import FidelityReport, fidelity
from lintra_analysis.synthetic.sampling import Space
from lintra_analyzer.web.requests import (
    MAX_SYNTHETIC_NUMBERS,
    AnovaRequest,
    ChiSquareRequest,
    CorrelationRequest,
    DifferenceRequest,
    ElasticNetRequest,
    FidelityRequest,
    FTestRequest,
    HistogramRequest,
    InstrumentsRequest,
    LinearScoreRequest,
    LogitRequest,
    LogrankRequest,
    MeansRequest,
    PartialCorrelationRequest,
    PcaRequest,
    PowerSumsRequest,
    RegressionPathRequest,
    RegressionRequest,
    SurvivalRequest,
    SyntheticRequest,
    WideComponentsRequest,
    WideRidgeRequest,
    WideVariancesRequest,
)
from lintra_protocol.encoding.documents import first_complaint, rounded_up
from lintra_protocol.errors import InvalidAnalysisError

MOST_SMALL, MOST_SMALL_NUMBERS = 60, 100_000
"""Columns, and numbers of synthetic rows, of an analysis that needs no process of its own."""


def names_of(release: Release) -> list[str]:
    """Return the names of the columns that vary; none where a release is not about single columns."""
    return [column.name for column in _columns_of(release) if column.constant is None]


def _ones_of(release: Release) -> list[str]:
    return [column.name for column in _columns_of(release) if is_binary(column)]


def _declared_first(release: Release) -> list[str]:
    declared = set()
    if release.range_sums is not None:
        declared = {release.columns[each.column].name for each in release.range_sums.targets}
    # False comes before True, and the order of the columns stays otherwise.
    return sorted(names_of(release), key=lambda name: name not in declared)


def _columns_of(release: Release) -> tuple[ScaledColumn, ...]:
    try:
        return release.columns
    except InvalidAnalysisError:
        return ()


def _binary(release: Release) -> None:
    release.need("moments")
    if not _ones_of(release):
        raise InvalidAnalysisError("a score ranks by a column of zeros and ones, and this release has none")


def _synthetic(release: Release, num_rows: int, seed: int, space: Space) -> SyntheticEstimate:
    return SyntheticEstimate(synthesize(release, num_rows, seed, space, MAX_SYNTHETIC_NUMBERS))


def _fidelity(release: Release, confidence: float) -> FidelityReport:
    return fidelity(gaussian_model(release), confidence)


@dataclass(frozen=True)
class Form:
    """How the console asks for an analysis."""

    title: str  #: its name on the page
    answers: str  #: the question that it answers, in a sentence
    reading: str  #: how to read its picture
    fields: tuple[str, ...]  #: the options that the form asks for
    #: of the columns of a release those that the field `target` can name, the likeliest first
    explains: Callable[[Release], list[str]] = names_of


@dataclass(frozen=True)
class Analysis:
    """One analysis; REST, its description and the console are made of this."""

    kind: str  #: its name
    options: type[BaseModel]  #: what can be asked; every field but `kind` is an argument of `run`
    run: Callable[..., Estimate]  #: makes the estimate of a release
    #: asks a release for what the analysis needs; what that raises is why it cannot be had
    needs: Callable[[Release], object]
    form: Form  #: of the console

    @property
    def arguments(self) -> list[str]:
        """The names of the options."""
        return [name for name in self.options.model_fields if name != "kind"]

    @property
    def required(self) -> list[str]:
        """The options that have no default."""
        return [name for name in self.arguments if self.options.model_fields[name].is_required()]

    def type_of(self, name: str) -> tuple[bool, str]:
        """Return whether an option is a list, and the type of its values in JSON."""
        schema = self._properties[name]
        own = next(one for one in schema.get("anyOf", [schema]) if one.get("type") != "null")
        return "items" in own, own.get("items", own).get("type", "string")

    def help_of(self, name: str) -> str:
        """Return what an option means, in a sentence."""
        text: str = self._properties[name]["description"]
        return text

    @cached_property
    def _properties(self) -> dict[str, Any]:
        return self.options.model_json_schema()["properties"]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Request:
    """An analysis with the options that somebody asked for."""

    analysis: Analysis
    options: BaseModel

    @property
    def kind(self) -> str:
        """The name of the analysis."""
        return self.analysis.kind

    def run(self, release: Release) -> Estimate:
        """Run it over a release."""
        return self.analysis.run(release, **{name: getattr(self.options, name) for name in self.analysis.arguments})

    def is_small(self, release: Release) -> bool:
        """Return whether it is computed in a second and some megabytes: few columns, and few rows to be drawn."""
        columns, rows = len(_columns_of(release)), getattr(self.options, "num_rows", 0)
        return columns <= MOST_SMALL and rows * columns <= MOST_SMALL_NUMBERS


_LINES = "Points are estimates, lines their intervals; a hollow point has none. The grey line is 0."
_USUAL = ("of", "confidence")
_CROSSED = methodcaller("need", "crossed")
_MOMENTS, _CELLS = methodcaller("need", "moments"), methodcaller("need", "cells")
_RANGE, _JOINT = methodcaller("need", "range_sums"), methodcaller("need", "joint_sums")
_NEWTON = methodcaller("need", "newton")

ANALYSES = {
    analysis.kind: analysis
    for analysis in (
        Analysis(
            "regression", RegressionRequest, regression, _MOMENTS,
            Form("Regression", "How does one column change with others?",
                 _LINES, ("target", "features", "regularization", *_USUAL)),
        ),
        Analysis(
            "difference", DifferenceRequest, difference, groups_of,
            Form("Difference between groups", "How does the mean of a column differ between groups, as in an A/B test?",
                 _LINES, ("target", "group", *_USUAL)),
        ),
        Analysis(
            "anova", AnovaRequest, anova, known_noise,
            Form("Analysis of variance", "Which columns and categories have a part in another column?",
                 "", ("target", "features", "of")),
        ),
        Analysis(
            "f-test", FTestRequest, f_test, known_noise,
            Form("Test of a smaller model", "Is a regression worse without some of its columns?",
                 "", ("target", "features", "less", "of")),
        ),
        Analysis(
            "iv", InstrumentsRequest, iv, known_noise,
            Form("Regression by instruments", "What does a column do that shares a cause with the one it explains?",
                 _LINES, ("target", "endogenous", "instruments", "exogenous", *_USUAL)),
        ),
        Analysis(
            "regression-path", RegressionPathRequest, regression_path, _MOMENTS,
            Form("Regression path", "What does a penalty change, and which one costs least?",
                 "Each curve is a coefficient; the dashed line marks the penalty of the smallest cost.",
                 ("target", "features", "regularizations")),
        ),
        Analysis(
            "elastic-net", ElasticNetRequest, elastic_net, _MOMENTS,
            Form("Elastic net", "Which columns help to predict another one, and which can be left out?",
                 "", ("target", "features", "alpha", "l1_ratio")),
        ),
        Analysis(
            "linear-score", LinearScoreRequest, linear_score, _binary,
            Form("Linear score", "Which rows are likelier to have a 1 in a column of zeros and ones?",
                 "Filled bars are told apart from 0, hollow ones are not.",
                 ("target", "features", *_USUAL), _ones_of),
        ),
        Analysis(
            "logit", LogitRequest, logit, _NEWTON,
            Form("Logistic regression", "How does a yes or no depend on the columns?",
                 "A hollow point has no interval.", (*_USUAL, "missing")),
        ),
        Analysis(
            "pca", PcaRequest, pca, _MOMENTS,
            Form("Principal components", "In which directions do the columns vary together?",
                 _LINES, ("components", "columns", "about", *_USUAL)),
        ),
        Analysis(
            "correlation", CorrelationRequest, correlation, _MOMENTS,
            Form("Correlations", "Which columns rise and fall together?",
                 "Red is together, blue against each other. A number in brackets may as well be 0.",
                 ("columns", "about", *_USUAL)),
        ),
        Analysis(
            "partial-correlation", PartialCorrelationRequest, partial_correlation, _MOMENTS,
            Form("Partial correlations", "Which columns go together where all others are held?", "", ("columns", "of")),
        ),
        Analysis(
            "means", MeansRequest, means, means,
            Form("Means", "What is the average of each column?",
                 _LINES, ("columns", *_USUAL)),
        ),
        Analysis(
            "histogram", HistogramRequest, histogram, _CELLS,
            Form("Histograms and quantiles", "How are the values of each column distributed?",
                 "Bars are the shares of the cells, lines the intervals of these shares.",
                 ("columns", "quantiles", *_USUAL)),
        ),
        Analysis(
            "survival", SurvivalRequest, survival, _CROSSED,
            Form("Survival curves", "What share of the rows is without the event as time goes by?",
                 "Lines are curves, the shades around them bands that hold a whole curve at once.",
                 ("time", "event", "group", *_USUAL)),
        ),
        Analysis(
            "logrank", LogrankRequest, logrank, _CROSSED,
            Form("Log-rank test", "Do the survival curves of groups differ?", "", ("time", "event", "group")),
        ),
        Analysis(
            "chi-square", ChiSquareRequest, chi_square, counted_pairs,
            Form("Independence of two columns", "Do two columns depend on each other?", "", ("target", "group")),
        ),
        Analysis(
            "power-sums", PowerSumsRequest, power_sums, _CELLS,
            Form("Sums of powers", "What are the sums of |x|, of x squared and so on?",
                 _LINES, ("columns", "powers", "confidence")),
        ),
        Analysis(
            "wide-components", WideComponentsRequest, wide_components, _RANGE,
            Form("Components of many columns", "In which directions do very many columns vary together?",
                 _LINES, ("components", "about")),
        ),
        Analysis(
            "wide-variances", WideVariancesRequest, wide_variances, _RANGE,
            Form("Variances along components", "How much do very many columns vary along them?",
                 _LINES, ("components", "about", "confidence")),
        ),
        Analysis(
            "wide-ridge", WideRidgeRequest, wide_ridge, _RANGE,
            Form("Ridge regression on many columns", "How does one column change with very many others?",
                 "Bars are hollow, since nothing here tells a coefficient from 0.",
                 ("target", "regularization", "about"), _declared_first),
        ),
        Analysis(
            "synthetic", SyntheticRequest, _synthetic, _JOINT,
            Form("Synthetic rows", "What could rows look like that have the released shape?",
                 "", ("num_rows", "seed")),
        ),
        Analysis(
            "fidelity", FidelityRequest, _fidelity, _JOINT,
            Form("What to expect of synthetic rows", "Which parts of synthetic rows can be believed?",
                 "Points are released correlations; lines are how far those of synthetic rows may be from them.",
                 ("confidence",)),
        ),
    )
}  # fmt: skip

_options = reduce(or_, (analysis.options for analysis in ANALYSES.values()))
_adapter: TypeAdapter[Any] = TypeAdapter(Annotated[_options, Field(discriminator="kind")])  # type: ignore[arg-type]

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

    Raises InvalidAnalysisError if the kind is unknown (the detail names the known ones), or a field does not fit.
    """
    try:
        options = _adapter.validate_json(body)
    except ValidationError as error:
        complaint = error.errors(include_input=False, include_url=False)[0]
        if complaint["type"] in {"union_tag_invalid", "union_tag_not_found"}:
            if _asked_kind(body) in _LOGISTIC:
                raise InvalidAnalysisError(NO_LOGISTIC) from None
            raise InvalidAnalysisError(f"kind: expected one of {', '.join(ANALYSES)}") from None
        if complaint["type"] == "extra_forbidden" and len(complaint["loc"]) == 2:
            kind, name = map(str, complaint["loc"])
            known = ", ".join(ANALYSES[kind].arguments)
            raise InvalidAnalysisError(f"{kind} has no argument {name!r}; it has: {known}") from None
        raise InvalidAnalysisError(first_complaint(error)) from None
    return Request(ANALYSES[options.kind], options)


def request_schema() -> dict[str, object]:
    """Return the JSON schema of a request, for the interface description."""
    return {"oneOf": [analysis.options.model_json_schema() for analysis in ANALYSES.values()]}


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
