"""Ridge regression that pays for its dependence on the sensitive attributes.

Fair kernel learning of Pérez-Suay et al. (2017) adds mu·HSIC(f(X), S) to the ridge objective, with
a linear kernel on f, an RBF kernel K_s on S. Its closed form, (K + alpha·I + mu·H K_s H K)⁻¹ y, is
not symmetric; in the coordinates of a feature map it is shrinkage (`fkd.core.removal`) by the
functions of s that make up K_s, hence needs sums over rows alone.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from fkd.core.arrays import Array
from fkd.core.feature_maps import FeatureMap
from fkd.core.kernels import Kernel
from fkd.core.linalg import rank_cut
from fkd.core.moments import BasisMoments, Moments, basis_moments
from fkd.core.predictors import MapExpansion
from fkd.core.removal import fkl_penalty, ridge_mu, shrinkage
from fkd.core.ridge import ridge_expansions
from fkd.core.sensitive_basis import greedy_factor
from fkd.core.validation import positive
from fkd.core.weights import weighted_mean


def sensitive_factor(S: Array, gamma: float, w: Array | None = None) -> Array:
    """Return F (n, p) with F Fᵀ = H K_s H to rounding, K_s the RBF kernel of the rows of S.

    H centres by the mean of rows that count w times.
    """
    kernel = Kernel("rbf", positive("gamma_s", gamma))
    _, F = greedy_factor(kernel, S, size=len(S), cut=rank_cut(len(S), 1.0))
    if w is None:
        F -= F.mean(axis=1, keepdims=True)
    else:
        F -= weighted_mean(F.T, w)[:, None]
    return F.T


def dependence_sums(
    feature_map: FeatureMap, X: Array, S: Array, gamma: float, w: Array | None = None
) -> BasisMoments:
    """Return the products of the features of training rows X with a factor of H K_s H."""
    return basis_moments(feature_map, X, sensitive_factor(S, gamma, w), w=w)


def penalised_expansions(
    feature_map: FeatureMap,
    moments: Moments,
    sums: BasisMoments,
    *,
    alpha: float,
    mus: Sequence[float],
    fit_intercept: bool,
) -> list[MapExpansion]:
    """Return one predictor per mu, with weights (GᵀG + alpha·I + mu·n² T Tᵀ)⁻¹ Gᵀy.

    That is ridge regression on features shrunk by their covariance T with a factor of K_s: all mu
    share one factorisation, none depends on the others.

    Parameters
    ----------
    feature_map, moments
        Of the training rows.
    sums
        Products of their features with functions of s whose inner products are K_s.
    alpha
        Ridge of the predictor, above 0.
    mus
        Prices of dependence, none of them negative.
    fit_intercept
        Let the predictors have a free constant.
    """
    n = sums.n
    pairs = [(ridge_mu(fkl_penalty(mu, n=n), n=n, alpha=alpha), alpha) for mu in mus]
    return ridge_expansions(
        feature_map, moments, shrinkage(sums), pairs, fit_intercept=fit_intercept
    )


def closed_form(K: Array, K_s: Array, y: Array, *, alpha: float, mu: float) -> Array:
    """Return coef = (K + alpha·I + mu·H K_s H K)⁻¹ y by LU, as published; predict by K_t coef."""
    centred = K_s - K_s.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    A = K + mu * (centred @ K)
    A.flat[:: len(A) + 1] += alpha
    return np.asarray(lu_solve(lu_factor(A), y))
