"""Ridge regression on fair features, for every strength at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fkd.core.arrays import Array, row_blocks
from fkd.core.directions import Directions, Removals
from fkd.core.feature_maps import FeatureMap
from fkd.core.linalg import ShiftedInverse, solved_lower
from fkd.core.moments import Moments
from fkd.core.parameters import positive
from fkd.core.predictors import MapExpansion

# Directions that are worked on at a time.
_PANEL = 16


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
    # Panels of one width, the last one filled up with zeros: a longer path does not change the
    # columns before it, not even in the last bit.
    DV = np.empty(V.shape, order="F")
    for columns in row_blocks(V.shape[1], _PANEL):
        panel = np.zeros((len(V), _PANEL), order="F")
        width = columns.stop - columns.start
        panel[:, :width] = V[:, columns]
        DV[:, columns] = (D @ panel)[:, :width]
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
        W, L = np.zeros((r, w), order="F"), np.zeros((w, w))
        for columns in row_blocks(w, _PANEL):
            j, width = columns.start, columns.stop - columns.start
            V, DVj = (np.zeros((r, _PANEL), order="F") for _ in range(2))
            V[:, :width] = removed.V[:, columns] * roots[columns]
            DVj[:, :width] = DV[:, columns] * roots[columns]
            # What the columns before know of these: L of the panel's rows, left of its corner.
            before = roots[:j, None] * (removed.V[:, :j].T @ DVj)
            rows = solved_lower(L[:j, :j], before) if j else before
            square = V.T @ DVj - rows.T @ rows
            # Zeros that fill up a panel get ones on the diagonal.
            square[np.diag_indices(_PANEL)] += np.append(
                removed.kept[columns] / a, np.ones(_PANEL - width)
            )
            corner = _corner(square, a, name)
            L[columns, :j], L[columns, columns] = rows[:, :width].T, corner[:width, :width]
            W[:, columns] = solved_lower(corner, (DVj - W[:, :j] @ rows).T).T[:, :width]
        return cls(D, W, L.diagonal().copy())

    def __matmul__(self, B: Array) -> Array:
        return np.asarray(self.plain @ B - self.W @ (self.W.T @ B))

    @property
    def log_determinant(self) -> float:
        """The logarithm of det(C + a·I) of the fair features, less w logarithms of a."""
        diagonals = np.concatenate([self.plain.L.diagonal(), self.pivots])
        return 2 * float(np.log(diagonals).sum(axis=0))


def _corner(square: Array, a: float, name: str) -> Array:
    """Return the lower factor of a panel's corner, each column as it would be without later ones.

    The corner is positive definite; only an `a` that rounding swallows makes it look otherwise.
    """
    L = np.zeros_like(square)
    for j in range(len(square)):
        column = square[:, j] - L[:, :j] @ L[j, :j]
        pivot = float(column[j])
        if not pivot > 0:
            raise ValueError(
                f"{name} must be large enough to be felt beside the features in float64, "
                f"got {a:g}; use a larger one"
            )
        L[j:, j] = column[j:] / np.sqrt(pivot)
    return L


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
