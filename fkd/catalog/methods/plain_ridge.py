"""Ridge regression without any removal, on whatever a training fold holds."""

from typing import Protocol

from fkd.catalog.methods.kernel_settings import OnKernel, effective_ridge, kernel_of
from fkd.core.feature_maps import FeatureMap
from fkd.core.moments import Moments
from fkd.core.predictors import MapExpansion
from fkd.core.removal import RemovalPath
from fkd.core.ridge import RidgeSetting, fit_ridge, ridge_expansions
from fkd.core.training import RemovalSettings, Training


class OnRidge(OnKernel, Protocol):
    """Parameters that decide a kernel ridge regression."""

    @property
    def alpha(self) -> float:
        """Ridge of the predictor."""

    @property
    def fit_intercept(self) -> bool:
        """Whether the predictor has a free constant."""


def ridge_setting(
    training: Training, p: OnRidge, removal: RemovalSettings, strength: float
) -> RidgeSetting:
    """Return the ridge regression of a setting after a removal."""
    kernel = kernel_of(p)
    alpha = effective_ridge(p.alpha, p, training.moments(kernel).n)
    return RidgeSetting(kernel, removal, strength, alpha, p.fit_intercept)


def plain_ridge(training: Training, p: OnRidge) -> MapExpansion:
    """Return kernel ridge regression of y on X, from the factorisation that settings share."""
    (model,) = fit_ridge(training, [ridge_setting(training, p, None, 0)])
    return model.expansion


def ridge_on(feature_map: FeatureMap, moments: Moments, p: OnRidge) -> MapExpansion:
    """Return ridge regression on the features of a map, from its moments alone."""
    path = RemovalPath.nothing(feature_map.rank)
    alpha = effective_ridge(p.alpha, p, moments.n)
    (fitted,) = ridge_expansions(
        feature_map, moments, path, [(0, alpha)], fit_intercept=p.fit_intercept
    )
    return fitted
