"""The analyst's library: open a release, estimate, make synthetic rows. What stands in `__all__` is stable.

    >>> from lintra_analysis import open_release, regression
    >>> release = open_release("flights.npz")
    >>> print(regression(release, "delay").summary())  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    Regression of delay from a private second moment
    ...

Every analysis is post-processing of a released number, so it costs no privacy, however often it is repeated. Names are
loaded when they are first used: importing the package costs nothing, and a regression does not load a web client.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lintra_analysis.access.downloaded import open_release
    from lintra_analysis.access.rest_client import AnalyzerClient, connect
    from lintra_analysis.access.stream import WindowStream
    from lintra_analysis.estimators.chi_square import ChiSquareEstimate, chi_square
    from lintra_analysis.estimators.correlation import CorrelationEstimate, correlation
    from lintra_analysis.estimators.elastic_net import ElasticNet, elastic_net
    from lintra_analysis.estimators.feature_tests import FeatureTests, anova, f_test
    from lintra_analysis.estimators.group_difference import DifferenceEstimate, difference
    from lintra_analysis.estimators.histogram import HistogramEstimate, histogram
    from lintra_analysis.estimators.instruments import InstrumentEstimate, iv
    from lintra_analysis.estimators.linear_score import LinearScore, linear_score
    from lintra_analysis.estimators.logit import logit
    from lintra_analysis.estimators.logit_estimate import LogisticEstimate
    from lintra_analysis.estimators.means import MeansEstimate, means
    from lintra_analysis.estimators.ordinary_slopes import ordinary_slopes
    from lintra_analysis.estimators.partial_correlation import PartialCorrelationEstimate, partial_correlation
    from lintra_analysis.estimators.path import RegressionPath, regression_path
    from lintra_analysis.estimators.pca import pca
    from lintra_analysis.estimators.pca_estimate import PcaEstimate
    from lintra_analysis.estimators.power_sums import PowerSumsEstimate, power_sums
    from lintra_analysis.estimators.regression import regression
    from lintra_analysis.estimators.regression_estimate import RegressionEstimate
    from lintra_analysis.estimators.survival import LogrankEstimate, SurvivalEstimate, logrank, survival
    from lintra_analysis.estimators.timeline import Timeline
    from lintra_analysis.estimators.trend import TrendEstimate, trend
    from lintra_analysis.estimators.wide import wide_components, wide_ridge, wide_variances
    from lintra_analysis.estimators.wide_estimate import WideComponents, WideRidge
    from lintra_analysis.releases.release import Release
    from lintra_analysis.synthetic.analysis import synthesize
    from lintra_analysis.synthetic.rows import SyntheticRows
    from lintra_analysis.trial.files.table import Readings, read_columns
    from lintra_analysis.trial.frame import trial
    from lintra_analysis.trial.stream import stream_trial

__all__ = [
    "AnalyzerClient",
    "ChiSquareEstimate",
    "CorrelationEstimate",
    "DifferenceEstimate",
    "ElasticNet",
    "FeatureTests",
    "HistogramEstimate",
    "InstrumentEstimate",
    "LinearScore",
    "LogisticEstimate",
    "LogrankEstimate",
    "MeansEstimate",
    "PartialCorrelationEstimate",
    "PcaEstimate",
    "PowerSumsEstimate",
    "Readings",
    "RegressionEstimate",
    "RegressionPath",
    "Release",
    "SurvivalEstimate",
    "SyntheticRows",
    "Timeline",
    "TrendEstimate",
    "WideComponents",
    "WideRidge",
    "WindowStream",
    "anova",
    "chi_square",
    "connect",
    "correlation",
    "difference",
    "elastic_net",
    "f_test",
    "histogram",
    "iv",
    "linear_score",
    "logit",
    "logrank",
    "means",
    "open_release",
    "ordinary_slopes",
    "partial_correlation",
    "pca",
    "power_sums",
    "read_columns",
    "regression",
    "regression_path",
    "stream_trial",
    "survival",
    "synthesize",
    "trend",
    "trial",
    "wide_components",
    "wide_ridge",
    "wide_variances",
]

_MODULES = {
    "AnalyzerClient": "access.rest_client",
    "ChiSquareEstimate": "estimators.chi_square",
    "CorrelationEstimate": "estimators.correlation",
    "DifferenceEstimate": "estimators.group_difference",
    "ElasticNet": "estimators.elastic_net",
    "FeatureTests": "estimators.feature_tests",
    "HistogramEstimate": "estimators.histogram",
    "InstrumentEstimate": "estimators.instruments",
    "LinearScore": "estimators.linear_score",
    "LogisticEstimate": "estimators.logit_estimate",
    "LogrankEstimate": "estimators.survival",
    "MeansEstimate": "estimators.means",
    "PartialCorrelationEstimate": "estimators.partial_correlation",
    "PcaEstimate": "estimators.pca_estimate",
    "PowerSumsEstimate": "estimators.power_sums",
    "RegressionEstimate": "estimators.regression_estimate",
    "RegressionPath": "estimators.path",
    "Release": "releases.release",
    "SurvivalEstimate": "estimators.survival",
    "SyntheticRows": "synthetic.rows",
    "Timeline": "estimators.timeline",
    "TrendEstimate": "estimators.trend",
    "WideComponents": "estimators.wide_estimate",
    "WideRidge": "estimators.wide_estimate",
    "WindowStream": "access.stream",
    "anova": "estimators.feature_tests",
    "chi_square": "estimators.chi_square",
    "connect": "access.rest_client",
    "correlation": "estimators.correlation",
    "difference": "estimators.group_difference",
    "elastic_net": "estimators.elastic_net",
    "f_test": "estimators.feature_tests",
    "histogram": "estimators.histogram",
    "iv": "estimators.instruments",
    "linear_score": "estimators.linear_score",
    "logit": "estimators.logit",
    "logrank": "estimators.survival",
    "means": "estimators.means",
    "open_release": "access.downloaded",
    "ordinary_slopes": "estimators.ordinary_slopes",
    "partial_correlation": "estimators.partial_correlation",
    "pca": "estimators.pca",
    "power_sums": "estimators.power_sums",
    "Readings": "trial.files.table",
    "read_columns": "trial.files.table",
    "regression": "estimators.regression",
    "regression_path": "estimators.path",
    "stream_trial": "trial.stream",
    "survival": "estimators.survival",
    "synthesize": "synthetic.analysis",
    "trend": "estimators.trend",
    "trial": "trial.frame",
    "wide_components": "estimators.wide",
    "wide_ridge": "estimators.wide",
    "wide_variances": "estimators.wide",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; public are: {', '.join(__all__)}")
    found: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
