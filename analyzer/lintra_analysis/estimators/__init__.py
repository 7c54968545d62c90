"""Estimators: post-processing of a release, free of privacy cost, each with its error."""

from lintra_analysis.estimators.coefficients import Coefficient, StandardError
from lintra_analysis.estimators.correlation import CorrelationEstimate, correlation
from lintra_analysis.estimators.estimates import Estimate, Measured
from lintra_analysis.estimators.low_rank import LowRankEstimate, low_rank
from lintra_analysis.estimators.means import MeansEstimate, means
from lintra_analysis.estimators.moments import MomentsEstimate, moments
from lintra_analysis.estimators.path import RegressionPath, regression_path
from lintra_analysis.estimators.pca import PcaEstimate, pca
from lintra_analysis.estimators.quantities import Quantity
from lintra_analysis.estimators.regression import RegressionEstimate, regression
from lintra_analysis.estimators.ridge import RidgeEstimate, ridge
from lintra_analysis.estimators.tables import Tabular

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
