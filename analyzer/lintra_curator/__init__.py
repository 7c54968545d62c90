"""Mechanisms for somebody who holds the rows: what stands here is public, documented and stable, and nothing else is.

A session keeps a budget; every other function makes one release, with a claim of its own. Loaded when first used.

| name | gives |
| --- | --- |
| `BudgetSession` | releases from one's own table under one budget |
| `curator_claim` | the claim to calibrate to |
| `BoundedTable`, `plain_columns` | rows that lie within a public bound, and their columns |
| `GaussianNoise`, `GaussianProjection`, `WishartNoise`, `InverseWishartDraw` | a second moment, by `release` |
| `random_projection` | a sketch of the rows |
| `private_least_squares` | the coefficients of a regression |
| `logistic_regression` | those of a logistic one |
| `calibrate`, `calibrated_draw`, `Sensitivity` | noise for a release that scatters by itself |
| `release_ron_gauss`, `release_ron_gauss_pure`, `mapped_column`, `category_column` | synthetic rows |
| `privacy_profile`, `PrivacyProfile` | how far two Gaussian laws can be told apart |
| `BudgetExceededError`, `CalibrationError` | what is refused |
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lintra_curator.calibrated.calibrated_gaussian import Sensitivity, calibrate, calibrated_draw
    from lintra_curator.calibrated.logistic_regression import logistic_regression
    from lintra_curator.claims.claim import CalibrationError, curator_claim
    from lintra_curator.least_squares.private_least_squares import private_least_squares
    from lintra_curator.ndis.profile import PrivacyProfile, privacy_profile
    from lintra_curator.projection.random_projection import random_projection
    from lintra_curator.ron_gauss.pure import release_ron_gauss_pure
    from lintra_curator.ron_gauss.ron_gauss import category_column, mapped_column, release_ron_gauss
    from lintra_curator.second_moment.bounded_table import BoundedTable, plain_columns
    from lintra_curator.second_moment.gaussian_noise import GaussianNoise
    from lintra_curator.second_moment.inverse_wishart import InverseWishartDraw
    from lintra_curator.second_moment.projection import GaussianProjection
    from lintra_curator.second_moment.wishart_noise import WishartNoise
    from lintra_curator.session import BudgetExceededError, BudgetSession

__all__ = [
    "BoundedTable",
    "BudgetExceededError",
    "BudgetSession",
    "CalibrationError",
    "GaussianNoise",
    "GaussianProjection",
    "InverseWishartDraw",
    "PrivacyProfile",
    "Sensitivity",
    "WishartNoise",
    "calibrate",
    "calibrated_draw",
    "category_column",
    "curator_claim",
    "logistic_regression",
    "mapped_column",
    "plain_columns",
    "privacy_profile",
    "private_least_squares",
    "random_projection",
    "release_ron_gauss",
    "release_ron_gauss_pure",
]

_HOMES = {
    "BoundedTable": "second_moment.bounded_table",
    "BudgetExceededError": "session",
    "CalibrationError": "claims.claim",
    "GaussianNoise": "second_moment.gaussian_noise",
    "GaussianProjection": "second_moment.projection",
    "InverseWishartDraw": "second_moment.inverse_wishart",
    "PrivacyProfile": "ndis.profile",
    "Sensitivity": "calibrated.calibrated_gaussian",
    "BudgetSession": "session",
    "WishartNoise": "second_moment.wishart_noise",
    "calibrate": "calibrated.calibrated_gaussian",
    "calibrated_draw": "calibrated.calibrated_gaussian",
    "category_column": "ron_gauss.ron_gauss",
    "curator_claim": "claims.claim",
    "private_least_squares": "least_squares.private_least_squares",
    "logistic_regression": "calibrated.logistic_regression",
    "mapped_column": "ron_gauss.ron_gauss",
    "plain_columns": "second_moment.bounded_table",
    "privacy_profile": "ndis.profile",
    "random_projection": "projection.random_projection",
    "release_ron_gauss": "ron_gauss.ron_gauss",
    "release_ron_gauss_pure": "ron_gauss.pure",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"lintra_curator has no public name {name!r}; see lintra_curator.__all__")
    return getattr(importlib.import_module(f"lintra_curator.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
