"""Ridge regression that pays for its dependence on the sensitive attributes.

Fair kernel learning of Pérez-Suay et al. (2017) adds mu·HSIC(f(X), S) to the ridge objective, with
a linear kernel on f, an RBF kernel K_s on S. Its closed form, (K + alpha·I + mu·H K_s H K)⁻¹ y, is
not symmetric; in the coordinates of a feature map it is, and all mu share one factorisation.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import lu_factor, lu_solve, solve

from fkd.core.arrays import Array
from fkd.core.feature_maps import FeatureMap
from fkd.core.kernels import Kernel
from fkd.core.linalg import ShiftedInverse, rank_cut
from fkd.core.moments import Moments
from fkd.core.parameters import positive
from fkd.core.predictors import MapExpansion
from fkd.core.row_weights import weighted_mean
from fkd.core.sensitive_basis import greedy_factor


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


def feature_products(feature_map: FeatureMap, X: Array, F: Array) -> Array:
    """Return T = GᵀF over the training rows X, (r, p)."""
    T, start = np.zeros((feature_map.rank, F.shape[1])), 0
    for G in feature_map.training_blocks(X):
        T += G.T @ F[start : start + len(G)]
        start += len(G)
    return T


def penalised_weights(
    C: Array, c: Array, T: Array, *, alpha: float, mus: Sequence[float]
) -> list[Array]:
    """Return beta = (C + alpha·I + mu·T Tᵀ)⁻¹ c for each mu.

    Woodbury's identity on D = (C + alpha·I)⁻¹ serves every mu; where T is too wide for it to save
    anything, each mu is solved on its own. No result depends on the other mu.

    Parameters
    ----------
    C, c
        Moments GᵀG (r, r), Gᵀy (r,).
    T
        Products Gᵀ F of the features with a factor of H K_s H, (r, p).
    alpha
        Ridge of the predictor, above 0.
    mus
        Prices of dependence, none of them negative.
    """
    r, p = T.shape
    if 2 * p > r:
        return [_direct(C, c, T, alpha, mu) for mu in mus]
    D = ShiftedInverse.of(C, positive("alpha", alpha))
    plain, B = D @ c, D @ T
    M, t = T.T @ B, T.T @ plain
    return [plain - mu * (B @ solve(np.eye(p) + mu * M, t, assume_a="pos")) for mu in mus]


def penalised_expansions(
    feature_map: FeatureMap,
    moments: Moments,
    T: Array,
    *,
    alpha: float,
    mus: Sequence[float],
    fit_intercept: bool,
) -> list[MapExpansion]:
    """Return one predictor per mu, all from one factorisation.

    Parameters
    ----------
    feature_map, moments
        Of the training rows.
    T, alpha, mus
        As in `penalised_weights`.
    fit_intercept
        Let the predictors have a free constant.
    """
    # The factor of H K_s H is centred, so T is the same for centred features.
    C, c = moments.normal_equations(fit_intercept=fit_intercept)
    return [
        feature_map.expansion(beta, moments.intercept(beta) if fit_intercept else 0.0)
        for beta in penalised_weights(C, c, T, alpha=alpha, mus=mus)
    ]


def _direct(C: Array, c: Array, T: Array, alpha: float, mu: float) -> Array:
    """Return beta for one mu, from a factorisation of its own."""
    A = C + mu * (T @ T.T)
    A.flat[:: len(A) + 1] += alpha
    return np.asarray(solve(A, c, assume_a="pos"))


def closed_form(K: Array, K_s: Array, y: Array, *, alpha: float, mu: float) -> Array:
    """Return coef = (K + alpha·I + mu·H K_s H K)⁻¹ y by LU, as published; predict by K_t coef."""
    centred = K_s - K_s.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    A = K + mu * (centred @ K)
    A.flat[:: len(A) + 1] += alpha
    return np.asarray(lu_solve(lu_factor(A), y))
