"""Ridge regression on fair features, for all strengths and ridges.

The weights on the features that minimise |y - G beta|² + alpha·betaᵀP⁻¹beta, with
P = I - V diag(d) Vᵀ of the removed directions, are beta = (C + alpha·P⁻¹)⁻¹ c for C = GᵀG and
c = Gᵀy. With D = (C + alpha·I)⁻¹

    (C + alpha·P⁻¹)⁻¹ = D - W Wᵀ,   W = D V d^½ L⁻ᵀ,   d^½ VᵀDV d^½ + diag(1 - d)/alpha = L Lᵀ.

A fully removed direction (d = 1) restricts beta to its orthogonal complement. The first columns of
W do not depend on later ones, so that each direction of a removal path adds one term to beta. One
factorisation of C + alpha·I therefore serves every strength. Centred moments give the regression
with an intercept.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fkd.core.arrays import Array, row_blocks
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import ShiftedInverse, solve_lower
from fkd.core.moments import Moments
from fkd.core.predictors import MapExpansion
from fkd.core.removal import Directions, Removals
from fkd.core.validation import positive

# Directions per panel.
_PANEL = 16


@dataclass(frozen=True)
class RidgeFamily:
    """Ridge regression with one alpha for every strength of a removal.

    It stores arrays of shape (r, w), neither moments nor their factor.
    """

    removals: Removals
    alpha: float
    plain: Array  # D c, the weights without removal, (r,)
    DV: Array  # D V, (r, w)

    def beta(self, strength: float) -> Array:
        """Return the weights at one strength, (r,)."""
        return self.betas(self.removals.at(strength))[-1]

    def betas(self, removed: Directions) -> list[Array]:
        """Return the weights after 0, 1, 2, ... of the directions."""
        W, pivots = fair_factor(self.DV, self.alpha, removed, name="alpha")
        found, roots = [self.plain], np.sqrt(removed.shares)
        for v, root, w, pivot in zip(removed.V.T, roots, W.T, pivots, strict=True):
            # Forward substitution: the factor of w is entry j of L⁻¹ d^½ VᵀD c.
            found.append(found[-1] - w * ((root * (v @ found[-1])) / pivot))
        return found


@dataclass(frozen=True)
class FairInverse:
    """The operator (C + a·P⁻¹)⁻¹ = D - W Wᵀ, applied by ``@``."""

    plain: ShiftedInverse  # D = (C + a·I)⁻¹
    W: Array  # D V d^½ L⁻ᵀ, (r, w)
    pivots: Array  # the diagonal of L, (w,)

    @classmethod
    def from_matrix(cls, C: Array, a: float, removed: Directions, *, name: str) -> "FairInverse":
        """Return the operator; `name` is the name of a in error messages."""
        D = ShiftedInverse.from_matrix(C, a, name=name)
        DV = _applied(D, removed.V, nested=True)
        return cls(D, *fair_factor(DV, a, removed, name=name))

    def __matmul__(self, B: Array) -> Array:
        return np.asarray(self.plain @ B - self.W @ (self.W.T @ B))

    @property
    def log_determinant(self) -> float:
        """The logarithm of det(C + a·I) of the fair features, minus w log a."""
        diagonals = np.concatenate([self.plain.L.diagonal(), self.pivots])
        return 2 * float(np.log(diagonals).sum(axis=0))


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
        Feature map, moments and removal of the training rows. A path must be at least as long as
        the largest strength.
    settings
        Pairs of a strength (the length of a path, the mu of a shrinkage) and a ridge alpha > 0.
        Each alpha costs one factorisation. No result depends on the other settings.
    fit_intercept
        Fit an intercept.
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


def ridge_coefficients(
    moments: Moments,
    removals: Removals,
    *,
    alpha: float,
    strengths: Iterable[float],
    fit_intercept: bool,
) -> dict[float, Array]:
    """Return the weights of ridge regression on the fair features, by strength.

    The strengths of a removal path share one sequence of weights. A shrinkage has the same
    directions at every strength with different shares, and is solved once per strength.
    """
    wanted = {strength: removals.at(strength) for strength in strengths}
    width = max((removed.width for removed in wanted.values()), default=0)
    (family,) = ridge_families(
        [moments], removals, alpha=alpha, width=width, fit_intercept=fit_intercept
    )
    if not removals.nested:
        return {strength: family.beta(strength) for strength in wanted}
    longest = max(wanted.values(), key=lambda removed: removed.width, default=removals.at(0))
    betas = family.betas(longest)
    return {strength: betas[removed.width] for strength, removed in wanted.items()}


def ridge_families(
    targets: Sequence[Moments],
    removals: Removals,
    *,
    alpha: float,
    width: int,
    fit_intercept: bool,
) -> list[RidgeFamily]:
    """Return the regressions of several targets on the same features.

    Parameters
    ----------
    targets
        Moments of the training rows with each target, which differ in `c` and `y` only.
    removals, alpha
        The removal, ridge of the predictor.
    width
        Number of directions of the largest strength.
    fit_intercept
        Fit an intercept.
    """
    alpha = positive("alpha", alpha)
    C, c = targets[0].normal_equations(fit_intercept=fit_intercept)
    # Centred moments are a copy, which may be overwritten.
    D = ShiftedInverse.from_matrix(C, alpha, name="alpha", overwrite=fit_intercept)
    DV = _applied(D, removals.V[:, :width], nested=removals.nested)
    others = [m.c - m.g * (m.y / m.n) if fit_intercept else m.c for m in targets[1:]]
    return [RidgeFamily(removals, alpha, D @ product, DV) for product in (c, *others)]


def _applied(D: ShiftedInverse, V: Array, *, nested: bool) -> Array:
    """Return D V."""
    if not nested:
        return D @ V
    # Panels of one width, the last one padded with zeros: a longer path does not change the columns
    # before it, not even in the last bit.
    DV = np.empty(V.shape, order="F")
    for columns in row_blocks(V.shape[1], _PANEL):
        panel = np.zeros((len(V), _PANEL), order="F")
        width = columns.stop - columns.start
        panel[:, :width] = V[:, columns]
        DV[:, columns] = (D @ panel)[:, :width]
    return DV


def fair_factor(DV: Array, a: float, removed: Directions, *, name: str) -> tuple[Array, Array]:
    """Return W = D V d^½ L⁻ᵀ and the diagonal of L, from D V."""
    r, w = removed.V.shape
    roots = np.sqrt(removed.shares)
    W, L = np.zeros((r, w), order="F"), np.zeros((w, w))
    for columns in row_blocks(w, _PANEL):
        j, width = columns.start, columns.stop - columns.start
        V, DVj = (np.zeros((r, _PANEL), order="F") for _ in range(2))
        V[:, :width] = removed.V[:, columns] * roots[columns]
        DVj[:, :width] = DV[:, columns] * roots[columns]
        # L in the rows of this panel, left of its diagonal block.
        before = roots[:j, None] * (removed.V[:, :j].T @ DVj)
        rows = solve_lower(L[:j, :j], before) if j else before
        square = V.T @ DVj - rows.T @ rows
        # Padding columns get 1 on the diagonal.
        square[np.diag_indices(_PANEL)] += np.append(
            removed.kept[columns] / a, np.ones(_PANEL - width)
        )
        corner = _cholesky(square, a, name)
        L[columns, :j], L[columns, columns] = rows[:, :width].T, corner[:width, :width]
        W[:, columns] = solve_lower(corner, (DVj - W[:, :j] @ rows).T).T[:, :width]
    return W, L.diagonal().copy()


def _cholesky(square: Array, a: float, name: str) -> Array:
    """Return the lower factor of a panel's diagonal block, in which no column affects earlier ones.

    The block is positive definite unless `a` is below the rounding error of the features.
    """
    L = np.zeros_like(square)
    for j in range(len(square)):
        column = square[:, j] - L[:, :j] @ L[j, :j]
        pivot = float(column[j])
        if not pivot > 0:
            raise ValueError(
                f"{name} must be larger than the rounding error of the features in float64, "
                f"got {a:g}. Use a larger value"
            )
        L[j:, j] = column[j:] / np.sqrt(pivot)
    return L
