"""Ridge regression on fair features, for every strength at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from fkd.core.arrays import Array
from fkd.core.directions import Directions, Removals
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import ShiftedInverse
from fkd.core.moments import Moments
from fkd.core.parameters import positive
from fkd.core.predictors import MapExpansion


def ridge_coefficients(
    moments: Moments,
    removals: Removals,
    *,
    alpha: float,
    strengths: Iterable[float],
    fit_intercept: bool,
) -> dict[float, Array]:
    """Return beta by strength: the weights of ridge regression on the fair features.

    With D = (C + alpha·I)⁻¹ the solution is D c - W z (`FairInverse`), column by column of the
    directions. Those of a removal path are nested: column j adds one term to beta, and the first
    columns never depend on later ones. A shrinkage has the same directions at every strength, with
    other shares of each.
    """
    wanted = {strength: removals.at(strength) for strength in strengths}
    alpha = positive("alpha", alpha)
    C, c = moments.normal_equations(fit_intercept=fit_intercept)
    # Centred moments are made for this one use.
    D = ShiftedInverse.of(C, alpha, name="alpha", overwrite=fit_intercept)
    plain = D @ c
    V = removals.V[:, : max((removed.width for removed in wanted.values()), default=0)]
    DV = _applied(D, V, nested=removals.nested)
    if not removals.nested:
        return {
            strength: _betas(FairInverse.on(D, DV, alpha, removed, name="alpha"), plain, removed)[
                -1
            ]
            for strength, removed in wanted.items()
        }
    longest = max(wanted.values(), key=lambda removed: removed.width, default=removals.at(0))
    betas = _betas(FairInverse.on(D, DV, alpha, longest, name="alpha"), plain, longest)
    return {strength: betas[removed.width] for strength, removed in wanted.items()}


def _applied(D: ShiftedInverse, V: Array, *, nested: bool) -> Array:
    """Return D V."""
    if not nested:
        return D @ V
    # Column by column, so that a longer path does not change the columns before it.
    DV = np.empty(V.shape, order="F")
    for j, v in enumerate(V.T):
        DV[:, j] = D @ v
    return DV


def _betas(inverse: "FairInverse", plain: Array, removed: Directions) -> list[Array]:
    """Return beta after each of the directions, from the plain one."""
    found = [plain]
    roots = np.sqrt(removed.shares)
    for v, root, w, pivot in zip(removed.V.T, roots, inverse.W.T, inverse.pivots, strict=True):
        # With L of `FairInverse` this is z_j: beta holds the columns before j already.
        found.append(found[-1] - w * ((root * (v @ found[-1])) / pivot))
    return found


@dataclass(frozen=True)
class FairInverse:
    """The operator (C + a·P⁻¹)⁻¹ = D - W Wᵀ with P = I - V diag(d) Vᵀ, applied by ``@``.

    Where a direction is wholly removed that is (C + a·I)⁻¹ among weights orthogonal to it.
    """

    plain: ShiftedInverse  # D = (C + a·I)⁻¹
    W: Array  # D V d^½ L⁻ᵀ with d^½ VᵀDV d^½ + diag(1 - d)/a = L Lᵀ, (r, w)
    pivots: Array  # the diagonal of L, (w,)

    @classmethod
    def of(cls, C: Array, a: float, removed: Directions, *, name: str) -> "FairInverse":
        """Return the operator; `name` is that of `ShiftedInverse.of`."""
        D = ShiftedInverse.of(C, a, name=name)
        return cls.on(D, _applied(D, removed.V, nested=True), a, removed, name=name)

    @classmethod
    def on(
        cls, D: ShiftedInverse, DV: Array, a: float, removed: Directions, *, name: str
    ) -> "FairInverse":
        """Return the operator from D with D V."""
        r, w = removed.V.shape
        roots = np.sqrt(removed.shares)
        W, L = np.empty((r, w), order="F"), np.zeros((w, w))
        for j in range(w):
            v, Dv = roots[j] * removed.V[:, j], roots[j] * DV[:, j]
            before = roots[:j] * (removed.V[:, :j].T @ Dv)
            row = solve_triangular(L[:j, :j], before, lower=True) if j else np.empty(0)
            square = float(v @ Dv - row @ row) + float(removed.kept[j]) / a
            L[j, :j], L[j, j] = row, _pivot(square, a, name)
            W[:, j] = (Dv - W[:, :j] @ row) / L[j, j]
        return cls(D, W, L.diagonal().copy())

    def __matmul__(self, B: Array) -> Array:
        return np.asarray(self.plain @ B - self.W @ (self.W.T @ B))

    @property
    def log_determinant(self) -> float:
        """The logarithm of det(C + a·I) of the fair features, less w logarithms of a."""
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
    removals: Removals,
    settings: Sequence[tuple[float, float]],
    *,
    fit_intercept: bool = False,
) -> list[MapExpansion]:
    """Return one predictor per (strength, alpha) in `settings`, in order.

    Parameters
    ----------
    feature_map, moments, removals
        Of the training rows; a path must be at least as long as the largest strength.
    settings
        Pairs of a strength (the length of a path, the mu of a shrinkage) with the predictor's
        ridge alpha > 0. Each alpha costs one factorisation, which all its strengths share; no
        result depends on the other settings.
    fit_intercept
        Let the predictor have a free constant.
    """
    found: dict[tuple[float, float], Array] = {}
    for alpha in dict.fromkeys(alpha for _, alpha in settings):
        betas = ridge_coefficients(
            moments,
            removals,
            alpha=alpha,
            strengths=[strength for strength, a in settings if a == alpha],
            fit_intercept=fit_intercept,
        )
        found.update({(strength, alpha): beta for strength, beta in betas.items()})
    return [
        feature_map.expansion(beta, moments.intercept(beta) if fit_intercept else 0.0)
        for beta in (found[setting] for setting in settings)
    ]
