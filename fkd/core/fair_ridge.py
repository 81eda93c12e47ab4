"""Ridge regression on fair features, for every length of the removal path at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from fkd.core.arrays import Array
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import ShiftedInverse
from fkd.core.moments import Moments
from fkd.core.parameters import positive
from fkd.core.predictors import MapExpansion
from fkd.core.removal_path import RemovalPath


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
    U = path.U[:, : max(wanted, default=0)]
    # Centred moments are made for this one use.
    D = FairInverse.of(C, positive("alpha", alpha), U, name="alpha", overwrite=fit_intercept)
    beta = D.plain @ c
    found = {0: beta} if 0 in wanted else {}
    for j, (u, w, pivot) in enumerate(zip(U.T, D.W.T, D.pivots, strict=True), start=1):
        # uᵀ beta / pivot is z_j: beta is already orthogonal to the columns before j.
        beta = beta - w * ((u @ beta) / pivot)
        if j in wanted:
            found[j] = beta
    return found


@dataclass(frozen=True)
class FairInverse:
    """The operator of (C + a·I)⁻¹ among weights orthogonal to U: D - W Wᵀ, applied by ``@``."""

    plain: ShiftedInverse  # D = (C + a·I)⁻¹
    W: Array  # D U L⁻ᵀ with UᵀDU = L Lᵀ, (r, w)
    pivots: Array  # the diagonal of L, (w,)

    @classmethod
    def of(
        cls, C: Array, a: float, U: Array, *, name: str, overwrite: bool = False
    ) -> "FairInverse":
        """Return the operator; `name` and `overwrite` are those of `ShiftedInverse.of`."""
        D = ShiftedInverse.of(C, a, name=name, overwrite=overwrite)
        r, w = U.shape
        W, L = np.empty((r, w), order="F"), np.zeros((w, w))
        for j in range(w):
            u = U[:, j]
            Du = D @ u
            row = solve_triangular(L[:j, :j], U[:, :j].T @ Du, lower=True) if j else np.empty(0)
            L[j, :j], L[j, j] = row, _pivot(float(u @ Du - row @ row), a, name)
            W[:, j] = (Du - W[:, :j] @ row) / L[j, j]
        return cls(D, W, L.diagonal().copy())

    def __matmul__(self, B: Array) -> Array:
        return np.asarray(self.plain @ B - self.W @ (self.W.T @ B))

    @property
    def log_determinant(self) -> float:
        """The logarithm of det(C + a·I) among weights orthogonal to U."""
        diagonals = np.concatenate([self.plain.L.diagonal(), self.pivots])
        return 2 * float(np.log(diagonals).sum(axis=0))


def _pivot(square: float, a: float, name: str) -> float:
    """Return the next diagonal entry of L."""
    # UᵀDU is positive definite; only an a that rounding swallows makes it look otherwise.
    if not square > 0:
        raise ValueError(
            f"{name} must be large enough to be felt beside the features in float64, "
            f"got {a:g}; use a larger one"
        )
    return float(np.sqrt(square))


def ridge_expansions(
    feature_map: FeatureMap,
    moments: Moments,
    path: RemovalPath,
    settings: Sequence[tuple[int, float]],
    *,
    fit_intercept: bool = False,
) -> list[MapExpansion]:
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
    width = {m: path.width(m) for m, _ in settings}
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
