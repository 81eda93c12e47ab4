"""Ridge regression that pays for its dependence on the sensitive attributes.

Fair kernel learning of Pérez-Suay et al. (2017) adds mu·HSIC(f(X), S) to the ridge objective, with
a linear kernel on f, an RBF kernel K_s on S. Its closed form, (K + alpha·I + mu·H K_s H K)⁻¹ y, is
not symmetric; in the coordinates of a feature map it is shrinkage (`fkd.core.removal`) by the
functions of s that make up K_s, hence needs sums over rows alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from fkd.baselines.base import KernelRival, in_range
from fkd.core.arrays import Array
from fkd.core.docstrings import fill_docstring
from fkd.core.feature_maps import FeatureMap
from fkd.core.kernels import Kernel
from fkd.core.linalg import rank_cut
from fkd.core.moments import BasisMoments, Moments, basis_moments
from fkd.core.predictors import MapExpansion
from fkd.core.removal import fkl_penalty, ridge_mu, shrinkage
from fkd.core.ridge import ridge_expansions
from fkd.core.sensitive_basis import greedy_factor
from fkd.core.validation import boolean, not_negative, positive
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


@fill_docstring
class FairKernelLearning(KernelRival):
    """Kernel ridge regression that pays for its dependence on the sensitive features.

    Minimises |y - f|² + alpha |f|² + mu n² HSIC(f, S), HSIC with a linear kernel on the prediction
    and an RBF kernel on the sensitive columns in units of their training range.

    Parameters
    ----------
    kernel
        ``"rbf"``, ``"laplacian"``, ``"polynomial"``, ``"linear"``, or a function of two blocks of
        rows that returns their kernel matrix.
    mu
        Price of dependence, not negative, as published: it is not divided by the number of rows.
    alpha
        Ridge of the predictor, above 0.
    gamma_s
        Width of the kernel on the sensitive columns, these in units of their training range.
    fit_intercept
        Let the predictor have a free constant; the published form has none.
    {kernel_parameters}

    Attributes
    ----------
    expansion_ : predictor
        The fitted predictor as plain arrays.

    References
    ----------
    Pérez-Suay et al. (2017), "Fair Kernel Learning", ECML PKDD.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.rivals import FairKernelLearning
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> y = X[:, 0] + X[:, 1]
    >>> leaning = [
    ...     abs(np.corrcoef(model.fit(X, y, sensitive_features=X[:, 0]).predict(X), X[:, 0])[0, 1])
    ...     for model in (FairKernelLearning(mu=0), FairKernelLearning(mu=100))
    ... ]
    >>> bool(leaning[1] < 0.2 * leaning[0])
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        mu: float = 1.0,
        alpha: float = 1.0,
        gamma_s: float = 0.05,
        fit_intercept: bool = True,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        approximation: str = "exact",
        landmarks: int | None = None,
        landmark_method: str = "rpcholesky",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            approximation=approximation,
            landmarks=landmarks,
            landmark_method=landmark_method,
            random_state=random_state,
        )
        self.mu = mu
        self.alpha = alpha
        self.gamma_s = gamma_s
        self.fit_intercept = fit_intercept

    def fit(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Return self, fitted to these rows.

        Parameters
        ----------
        X, y
            Training rows (n, d) with their target (n,).
        sensitive_features
            One or several columns (n,) or (n, l). Required.
        sample_weight
            How many rows each row counts for, (n,), not negative; None is one each. A whole number
            is a row repeated, 0 one that is not there.
        """
        mu, alpha = not_negative("mu", self.mu), positive("alpha", self.alpha)
        X, y, S, w = self._rows(X, y, sensitive_features, sample_weight)
        # Before any sum: an offset costs no digits.
        level = float(weighted_mean(y, w)) if boolean("fit_intercept", self.fit_intercept) else 0.0
        feature_map, moments = self._reduced(X, y - level, S, w)
        (found,) = penalised_expansions(
            feature_map,
            moments,
            dependence_sums(feature_map, X, in_range(S), self.gamma_s, w),
            alpha=alpha,
            mus=[mu],
            fit_intercept=self.fit_intercept,
        )
        self.expansion_ = replace(found, intercept=found.intercept + level)
        return self
