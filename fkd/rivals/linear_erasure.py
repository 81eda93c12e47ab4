"""Closed-form linear erasure of sensitive columns from features."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fkd.core.arrays import Array
from fkd.core.feature_maps import FeatureMap
from fkd.core.moments import Moments
from fkd.core.predictors import LinearCorrection, MapExpansion
from fkd.core.removal import RemovalPath
from fkd.core.ridge import ridge_coefficients

if TYPE_CHECKING:  # importing it needs PyTorch, which only an erasure does
    from concept_erasure import LeaceFitter

# A direction of the standardised columns that features predict with a smaller correlation than
# this is rounding error, such as the second of two equal columns.
LEAST_CORRELATION = 1e-9


def leace(G: Array, S: Array) -> LinearCorrection:
    """Return the smallest affine change of G after which no linear model can predict S from it.

    LEACE of Belrose et al. (2023), as the package concept-erasure computes it, with its shrinkage
    of the covariance. Its cap on the trace is off, because a capped change erases in part.

    Parameters
    ----------
    G
        Features of the training rows, (n, r).
    S
        Sensitive columns, (n, l), each of which varies.
    """
    import torch

    # The package cuts correlations at an absolute size, hence the common unit.
    standard = (S - S.mean(axis=0)) / S.std(axis=0)
    fitter = _fitter(G.shape[1], S.shape[1])
    return _solved(lambda: fitter.update(torch.tensor(G), torch.tensor(standard)))


def leace_of_sums(moments: Moments, deviations: Array) -> LinearCorrection:
    """Return the change of `leace` from sums over rows, as which they may have streamed by.

    Parameters
    ----------
    moments
        Of the training rows, each of which counts once.
    deviations
        Standard deviation of each sensitive column, (l,).
    """
    import torch

    C, _ = moments.normal_equations(fit_intercept=True)
    fitter = _fitter(len(C), len(deviations))
    fitter.n = torch.tensor(round(moments.n))
    fitter.mean_x = torch.tensor(moments.g / moments.n)
    fitter.sigma_xx_ = torch.tensor(C)
    fitter.sigma_xz_ = torch.tensor(moments.sensitive(center=True) / deviations)
    return _solved(lambda: fitter)


def _fitter(r: int, l: int) -> "LeaceFitter":
    """Return the package's sums of nothing."""
    import torch
    from concept_erasure import LeaceFitter

    return LeaceFitter(
        r, l, dtype=torch.float64, svd_tol=LEAST_CORRELATION, constrain_cov_trace=False
    )


def _solved(fit: "Callable[[], LeaceFitter]") -> LinearCorrection:
    """Return what the package makes of its sums."""
    from fkd.rivals.neural.processor import one_thread

    with one_thread():
        eraser = fit().eraser
    return LinearCorrection(
        mean=eraser.bias.numpy(),
        R=np.ascontiguousarray(eraser.proj_right.mT.numpy()),
        L=eraser.proj_left.numpy(),
    )


def erased_ridge(
    feature_map: FeatureMap,
    correction: LinearCorrection,
    moments: Moments,
    *,
    alpha: float,
    fit_intercept: bool,
) -> MapExpansion:
    """Return ridge regression on erased features, written on the plain ones.

    Parameters
    ----------
    feature_map, correction
        Map of the training rows, what erases the sensitive columns from its features.
    moments
        Of the erased features.
    alpha, fit_intercept
        Ridge of the predictor, whether it has a free constant.
    """
    beta = ridge_coefficients(
        moments,
        RemovalPath.nothing(feature_map.rank),
        alpha=alpha,
        strengths=[0],
        fit_intercept=fit_intercept,
    )[0]
    intercept = moments.intercept(beta) if fit_intercept else 0.0
    plain, constant = correction.pulled_back(beta)
    return feature_map.expansion(plain, intercept + constant)
