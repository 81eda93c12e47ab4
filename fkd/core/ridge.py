"""Ridge regression on fair features, for every strength at once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array

from fkd.core.arrays import BLOCK_ROWS, AnyArray, Array, Rows, row_blocks
from fkd.core.feature_maps import FeatureMap
from fkd.core.kernels import Kernel
from fkd.core.linalg import ShiftedInverse, solve_lower
from fkd.core.moments import Moments
from fkd.core.predictors import FourierExpansion, KernelExpansion, MapExpansion
from fkd.core.removal import Directions, Removals
from fkd.core.validation import positive

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
    width = max((removed.width for removed in wanted.values()), default=0)
    (family,) = ridge_families(
        [moments], removals, alpha=alpha, width=width, fit_intercept=fit_intercept
    )
    if not removals.nested:
        return {strength: family.beta(strength) for strength in wanted}
    longest = max(wanted.values(), key=lambda removed: removed.width, default=removals.at(0))
    betas = family.betas(longest)
    return {strength: betas[removed.width] for strength, removed in wanted.items()}


@dataclass(frozen=True)
class RidgeFamily:
    """Ridge regression of one alpha on fair features, for every strength of a removal.

    What it keeps is thin, (r, w): neither moments nor their factor are needed any more.
    """

    removals: Removals
    alpha: float
    plain: Array  # D c with D = (C + alpha·I)⁻¹, the weights where nothing is removed, (r,)
    DV: Array  # D V, (r, w)

    def beta(self, strength: float) -> Array:
        """Return the weights at one strength, (r,)."""
        return self.betas(self.removals.at(strength))[-1]

    def betas(self, removed: Directions) -> list[Array]:
        """Return the weights after each of the directions, from the plain ones."""
        W, pivots = fair_factor(self.DV, self.alpha, removed, name="alpha")
        found, roots = [self.plain], np.sqrt(removed.shares)
        for v, root, w, pivot in zip(removed.V.T, roots, W.T, pivots, strict=True):
            # With L of `FairInverse` this is z_j: beta holds the columns before j already.
            found.append(found[-1] - w * ((root * (v @ found[-1])) / pivot))
        return found


def ridge_families(
    targets: Sequence[Moments],
    removals: Removals,
    *,
    alpha: float,
    width: int,
    fit_intercept: bool,
) -> list[RidgeFamily]:
    """Return the regressions of several targets, which differ in their moments by `c` and `y`.

    Parameters
    ----------
    targets
        Moments of the training rows with each target.
    removals, alpha
        What may be removed, ridge of the predictor.
    width
        Of the directions, how many the greatest strength takes.
    fit_intercept
        Let the predictors have a free constant.
    """
    alpha = positive("alpha", alpha)
    C, c = targets[0].normal_equations(fit_intercept=fit_intercept)
    # Centred moments are made for this one use.
    D = ShiftedInverse.from_matrix(C, alpha, name="alpha", overwrite=fit_intercept)
    DV = _applied(D, removals.V[:, :width], nested=removals.nested)
    others = [m.c - m.g * (m.y / m.n) if fit_intercept else m.c for m in targets[1:]]
    return [RidgeFamily(removals, alpha, D @ product, DV) for product in (c, *others)]


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


@dataclass(frozen=True)
class FairInverse:
    """The operator (C + a·P⁻¹)⁻¹ = D - W Wᵀ with P = I - V diag(d) Vᵀ, applied by ``@``.

    Where a direction is wholly removed that is (C + a·I)⁻¹ among weights orthogonal to it.
    """

    plain: ShiftedInverse  # D = (C + a·I)⁻¹
    W: Array  # D V d^½ L⁻ᵀ with d^½ VᵀDV d^½ + diag(1 - d)/a = L Lᵀ, (r, w)
    pivots: Array  # the diagonal of L, (w,)

    @classmethod
    def from_matrix(cls, C: Array, a: float, removed: Directions, *, name: str) -> "FairInverse":
        """Return the operator; `name` is that of `ShiftedInverse.from_matrix`."""
        D = ShiftedInverse.from_matrix(C, a, name=name)
        return cls.from_inverse(D, _applied(D, removed.V, nested=True), a, removed, name=name)

    @classmethod
    def from_inverse(
        cls, D: ShiftedInverse, DV: Array, a: float, removed: Directions, *, name: str
    ) -> "FairInverse":
        """Return the operator from D with D V."""
        return cls(D, *fair_factor(DV, a, removed, name=name))

    def __matmul__(self, B: Array) -> Array:
        return np.asarray(self.plain @ B - self.W @ (self.W.T @ B))

    @property
    def log_determinant(self) -> float:
        """The logarithm of det(C + a·I) of the fair features, less w logarithms of a."""
        diagonals = np.concatenate([self.plain.L.diagonal(), self.pivots])
        return 2 * float(np.log(diagonals).sum(axis=0))


def fair_factor(DV: Array, a: float, removed: Directions, *, name: str) -> tuple[Array, Array]:
    """Return W = D V d^½ L⁻ᵀ with the diagonal of L, d^½ VᵀDV d^½ + diag(1 - d)/a = L Lᵀ."""
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
        rows = solve_lower(L[:j, :j], before) if j else before
        square = V.T @ DVj - rows.T @ rows
        # Zeros that fill up a panel get ones on the diagonal.
        square[np.diag_indices(_PANEL)] += np.append(
            removed.kept[columns] / a, np.ones(_PANEL - width)
        )
        corner = _corner(square, a, name)
        L[columns, :j], L[columns, columns] = rows[:, :width].T, corner[:width, :width]
        W[:, columns] = solve_lower(corner, (DVj - W[:, :j] @ rows).T).T[:, :width]
    return W, L.diagonal().copy()


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


@dataclass(frozen=True)
class TargetExpansions:
    """f(x) = (f₁(x), ..., f_k(x)): one expansion per target."""

    parts: tuple[MapExpansion, ...]

    def predict(self, X: Any) -> Array:
        """Return one column of predictions per target, (n, k), each as its part alone has it."""
        shared = self._on_one_set_of_centers()
        if shared is None:
            return np.column_stack([part.predict(X) for part in self.parts])
        first, coefs = shared
        k = Kernel(first.kernel, first.gamma, first.degree, first.coef0)
        A: Rows = X if isinstance(X, csr_array) else np.asarray(X, dtype=np.float64)
        out = np.empty((A.shape[0], len(coefs)))
        for rows in row_blocks(A.shape[0], BLOCK_ROWS):
            K = k(A[rows], first.centers)
            for j, coef in enumerate(coefs):
                # One product per target: one with several columns would round by their number.
                out[rows, j] = K @ coef
        return np.asarray(out + np.array([part.intercept for part in self.parts]))

    def _on_one_set_of_centers(self) -> tuple[KernelExpansion, list[Array]] | None:
        """Return what is shared with the weights of each, None where nothing is."""
        first, *_ = self.parts
        if not isinstance(first, KernelExpansion):
            return None
        same = [p for p in self.parts if isinstance(p, KernelExpansion)]
        if any(p.centers is not first.centers for p in same):
            return None
        return first, [p.coef for p in same]

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays of all parts, numbered."""
        return {
            f"{i}.{name}": value
            for i, part in enumerate(self.parts)
            for name, value in part.arrays().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the expansions that `arrays` was taken from."""
        numbered: dict[int, dict[str, AnyArray]] = {}
        for key, value in arrays.items():
            i, _, name = key.partition(".")
            numbered.setdefault(int(i), {})[name] = value
        return cls(tuple(_part(numbered[i]) for i in sorted(numbered)))


def _part(arrays: Mapping[str, AnyArray]) -> MapExpansion:
    kind = KernelExpansion if "kernel" in arrays else FourierExpansion
    return kind.from_arrays(arrays)
