"""Estimators: post-processing of a release, free of privacy cost, each with its error."""

from lintra_analyzer.estimators.coefficients import Coefficient, StandardError
from lintra_analyzer.estimators.correlation import CorrelationEstimate, correlation
from lintra_analyzer.estimators.estimates import Estimate, Measured
from lintra_analyzer.estimators.low_rank import LowRankEstimate, low_rank
from lintra_analyzer.estimators.means import MeansEstimate, means
from lintra_analyzer.estimators.moments import MomentsEstimate, moments
from lintra_analyzer.estimators.path import RegressionPath, regression_path
from lintra_analyzer.estimators.pca import PcaEstimate, pca
from lintra_analyzer.estimators.quantities import Quantity
from lintra_analyzer.estimators.regression import RegressionEstimate, regression
from lintra_analyzer.estimators.ridge import RidgeEstimate, ridge
from lintra_analyzer.estimators.tables import Tabular

__all__ = [
    "Coefficient",
    "CorrelationEstimate",
    "Estimate",
    "LowRankEstimate",
    "MeansEstimate",
    "Measured",
    "MomentsEstimate",
    "PcaEstimate",
    "Quantity",
    "RegressionEstimate",
    "RegressionPath",
    "RidgeEstimate",
    "StandardError",
    "Tabular",
    "correlation",
    "low_rank",
    "means",
    "moments",
    "pca",
    "regression",
    "regression_path",
    "ridge",
]
