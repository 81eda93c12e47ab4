"""Ridge regression on fair features, for every length of the removal path at once."""

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.linalg import solve_triangular

from fkd.arrays import Array
from fkd.expansion import Predictor
from fkd.feature_maps import FeatureMap
from fkd.linalg import ShiftedInverse
from fkd.moments import Moments
from fkd.path import RemovalPath
from fkd.validation import positive, whole


def ridge_coefficients(
    moments: Moments, path: RemovalPath, *, alpha: float, widths: Iterable[int], fit_intercept: bool
) -> dict[int, Array]:
    """Return beta by number of removed columns: ridge weights orthogonal to U[:, :width].

    With D = (C + alpha·I)⁻¹ and U_wᵀ D U_w = L Lᵀ the solution is beta_w = D c - W_w z_w, where
    W = D U L⁻ᵀ, z = L⁻¹ Uᵀ D c. L is nested, hence column j adds one term to beta, and the first
    columns never depend on later ones.
    """
    wanted = set(widths)
    C, c = moments.normal_equations(fit_intercept=fit_intercept)
    D = ShiftedInverse.of(C, positive("alpha", alpha), name="alpha")
    beta = D @ c
    found = {0: beta} if 0 in wanted else {}
    w_max = max(wanted, default=0)
    W = np.empty((len(c), w_max), order="F")
    L = np.zeros((w_max, w_max))
    for j in range(w_max):
        u = path.U[:, j]
        Du = D @ u
        row = solve_triangular(L[:j, :j], path.U[:, :j].T @ Du, lower=True) if j else np.empty(0)
        pivot = _pivot(float(u @ Du - row @ row), alpha)
        L[j, :j], L[j, j] = row, pivot
        W[:, j] = (Du - W[:, :j] @ row) / pivot
        # uᵀ beta / pivot is z_j: beta is already orthogonal to the columns before j.
        beta = beta - W[:, j] * ((u @ beta) / pivot)
        if j + 1 in wanted:
            found[j + 1] = beta
    return found


def _pivot(square: float, alpha: float) -> float:
    """Return the next diagonal entry of L."""
    # UᵀDU is positive definite; only an alpha that rounding swallows makes it look otherwise.
    if not square > 0:
        raise ValueError(
            "alpha must be large enough to be felt beside the features in float64, "
            f"got {alpha:g}; use a larger one"
        )
    return float(np.sqrt(square))


def ridge_expansions(
    feature_map: FeatureMap,
    moments: Moments,
    path: RemovalPath,
    settings: Sequence[tuple[int, float]],
    *,
    fit_intercept: bool = False,
) -> list[Predictor]:
    """Return one predictor per (m, alpha) in `settings`, in order.

    Parameters
    ----------
    feature_map, moments, path
        Of the training rows; the path must be at least as long as the largest m.
    settings
        Pairs of removal length m with predictor ridge alpha > 0. Each alpha costs one
        factorisation, which all its m share; no result depends on the other settings.
    fit_intercept
        Let the predictor have a free constant.
    """
    width = {m: path.ends[min(whole("iterations", m, low=0), path.effective)] for m, _ in settings}
    found = {}
    for alpha in dict.fromkeys(alpha for _, alpha in settings):
        betas = ridge_coefficients(
            moments,
            path,
            alpha=alpha,
            widths=[width[m] for m, a in settings if a == alpha],
            fit_intercept=fit_intercept,
        )
        found.update({(w, alpha): beta for w, beta in betas.items()})
    chosen = [found[width[m], alpha] for m, alpha in settings]
    return [
        feature_map.expansion(beta, moments.intercept(beta) if fit_intercept else 0.0)
        for beta in chosen
    ]
