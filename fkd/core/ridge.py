"""Ridge regression on fair features, for all strengths and ridges.

The weights on the features that minimise |y - G beta|² + alpha·betaᵀP⁻¹beta, with
P = I - V diag(d) Vᵀ of the removed directions, are beta = (C + alpha·P⁻¹)⁻¹ c for C = GᵀG and
c = Gᵀy. With D = (C + alpha·I)⁻¹

    (C + alpha·P⁻¹)⁻¹ = D - W Wᵀ,   W = D V d^½ L⁻ᵀ,   d^½ VᵀDV d^½ + diag(1 - d)/alpha = L Lᵀ.

A fully removed direction (d = 1) restricts beta to its orthogonal complement. The first columns of
W do not depend on later ones, so that each direction of a removal path adds one term to beta. One
factorisation of C + alpha·I therefore serves every strength. Centred moments give the regression
with an intercept.

`fit_ridge` is the entry: it fits several settings to training rows and shares what they have in
common. `FairKernelRidge` calls it with one setting, the methods krr, krr_fkd, krr_fks and krr_fkl
with many.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fkd.core.arrays import Array, Rows, row_blocks
from fkd.core.feature_maps import ExactMap, FeatureMap, KernelSettings
from fkd.core.kernels import Kernel
from fkd.core.linalg import ShiftedInverse, solve_lower
from fkd.core.moments import Moments
from fkd.core.predictors import KernelExpansion, MapExpansion, TargetExpansions
from fkd.core.removal import Directions, RemovalPath, Removals, Shrinkage, ridge_mu
from fkd.core.training import RemovalSettings, Training, group_settings
from fkd.core.validation import positive

# Directions per panel.
_PANEL = 16


@dataclass(frozen=True)
class RidgeSetting:
    """Kernel ridge regression after a removal."""

    kernel: KernelSettings
    removal: RemovalSettings
    strength: float  # iterations of a path, penalty of a shrinkage
    alpha: float  # ridge of the predictor, above 0
    fit_intercept: bool = False


@dataclass(frozen=True)
class RidgeModel:
    """A fitted regression, and those of all other strengths."""

    predictor: MapExpansion | TargetExpansions
    solution: "RidgeSolution"

    @property
    def expansion(self) -> MapExpansion:
        """The predictor of a single target."""
        assert not isinstance(self.predictor, TargetExpansions)
        return self.predictor

    def scores(self, X: Rows) -> Array:
        """Return the predictions, (k, targets)."""
        return self.predictor.predict(X).reshape(X.shape[0], -1)

    @property
    def removals(self) -> Removals:
        """The removed directions of every strength."""
        return self.solution.removals


def fit_ridge(training: Training, settings: Sequence[RidgeSetting]) -> list[RidgeModel]:
    """Fit kernel ridge regressions to training rows, and return one model per setting, in order.

    Settings with the same kernel share its feature map and moments, those with the same removal
    its directions, and those with the same alpha the factorisation. No model depends on the other
    settings.
    """
    found: dict[int, RidgeModel] = {}
    for group in group_settings(settings, "kernel", "removal"):
        first = settings[group[0]]
        longest = max(settings[i].strength for i in group)
        removals = training.removals(first.kernel, first.removal, longest)
        feature_map = training.feature_map(first.kernel)
        targets = training.target_moments(first.kernel)
        chosen = [settings[i] for i in group]
        for part in group_settings(chosen, "alpha", "fit_intercept"):
            strengths = [chosen[j].strength for j in part]
            solution = RidgeSolution.from_moments(
                feature_map,
                targets,
                removals,
                alpha=chosen[part[0]].alpha,
                strength=max(strengths),
                fit_intercept=chosen[part[0]].fit_intercept,
                several=training.several,
            )
            for j, predictor in zip(part, solution.predictors(strengths), strict=True):
                found[group[j]] = RidgeModel(predictor, solution)
    return [found[i] for i in range(len(settings))]


@dataclass(frozen=True)
class _Centres:
    """Weights of kernel values: f(x) = k(x, Z)·beta."""

    kernel: Kernel
    centers: Rows  # Z, (r, d)

    def expansion(self, beta: Array, intercept: float = 0.0) -> KernelExpansion:
        """Return f(x) = k(x, Z)·beta + intercept."""
        k = self.kernel
        return KernelExpansion(k.name, k.gamma, k.degree, k.coef0, self.centers, beta, intercept)


@dataclass(frozen=True)
class RidgeSolution:
    """Regressions of one alpha on one or several targets, at every strength."""

    coordinates: FeatureMap | _Centres
    families: tuple["RidgeFamily", ...]  # one per target
    n: float
    g: Array  # sum of the features over the training rows, (r,)
    sums: tuple[float, ...]  # of each target
    fit_intercept: bool
    several: bool  # True if the target is a matrix

    @classmethod
    def from_moments(
        cls,
        feature_map: FeatureMap,
        targets: Sequence[Moments],
        removals: Removals,
        *,
        alpha: float,
        strength: float,
        fit_intercept: bool,
        several: bool = False,
    ) -> "RidgeSolution":
        """Return the regressions up to a strength, from the moments with each target."""
        alpha, n = positive("alpha", alpha), targets[0].n
        width = removals.at(_inner(removals, strength, n, alpha)).width
        families = ridge_families(
            targets, removals, alpha=alpha, width=width, fit_intercept=fit_intercept
        )
        sums = tuple(moments.y for moments in targets)
        return cls(
            feature_map, tuple(families), n, targets[0].g, sums, fit_intercept, several=several
        )

    @property
    def removals(self) -> Removals:
        """The removed directions of every strength."""
        return self.families[0].removals

    def predictors(self, strengths: Sequence[float]) -> list[MapExpansion | TargetExpansions]:
        """Return the predictor of each strength."""
        alpha = self.families[0].alpha
        inner = [_inner(self.removals, strength, self.n, alpha) for strength in strengths]
        columns = []
        for family, y in zip(self.families, self.sums, strict=True):
            betas = family.by_strength(inner)
            columns.append([self._expansion(betas[strength], y) for strength in inner])
        return [
            TargetExpansions(parts) if self.several else parts[0]
            for parts in zip(*columns, strict=True)
        ]

    def _expansion(self, beta: Array, y: float) -> MapExpansion:
        intercept = (y - float(self.g @ beta)) / self.n if self.fit_intercept else 0.0
        return self.coordinates.expansion(beta, intercept)

    def thin(self) -> "RidgeSolution":
        """Return the same without the factor of an exact map, which is as large as its kernel.

        With K = L Lᵀ, weights of features are Lᵀ times those of kernel values. Directions v become
        L v, whose products with the latter are those of v with the former.
        """
        exact = self.coordinates
        if not isinstance(exact, ExactMap):
            return self
        families = tuple(
            replace(
                family,
                removals=_multiplied(family.removals, exact.L),
                plain=exact.dual(family.plain),
                DV=exact.dual(family.DV),
            )
            for family in self.families
        )
        centres = _Centres(exact.kernel, exact.centers)
        return replace(self, coordinates=centres, families=families, g=exact.L @ self.g)


def _inner(removals: Removals, strength: float, n: float, alpha: float) -> float:
    """Return the strength of the removal: iterations, or the mu of a penalty."""
    return strength if removals.nested else ridge_mu(strength, n=n, alpha=alpha)


def _multiplied(removals: Removals, L: Array) -> Removals:
    """Return the removal with its directions multiplied by L."""
    V = np.asfortranarray(L @ removals.V)
    if isinstance(removals, RemovalPath):
        return replace(removals, U=V)
    assert isinstance(removals, Shrinkage)
    return replace(removals, V=V)


@dataclass(frozen=True)
class RidgeFamily:
    """Ridge regression with one alpha for every strength of a removal.

    It stores arrays of shape (r, w), neither moments nor their factor.
    """

    removals: Removals
    alpha: float
    plain: Array  # D c, the weights without removal, (r,)
    DV: Array  # D V, (r, w)

    def by_strength(self, strengths: Iterable[float]) -> dict[float, Array]:
        """Return the weights at each strength, (r,).

        The strengths of a removal path share one sequence of weights. A shrinkage has the same
        directions at every strength with different shares, and is solved once per strength.
        """
        wanted = {strength: self.removals.at(strength) for strength in strengths}
        if not self.removals.nested:
            return {strength: self.betas(removed)[-1] for strength, removed in wanted.items()}
        longest = max(wanted.values(), key=lambda removed: removed.width)
        betas = self.betas(longest)
        return {strength: betas[removed.width] for strength, removed in wanted.items()}

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
    """Return the weights of ridge regression on the fair features, by strength."""
    strengths = list(strengths)
    width = max((removals.at(strength).width for strength in strengths), default=0)
    (family,) = ridge_families(
        [moments], removals, alpha=alpha, width=width, fit_intercept=fit_intercept
    )
    return family.by_strength(strengths) if strengths else {}


def ridge_families(
    targets: Sequence[Moments], removals: Removals, *, alpha: float, width: int, fit_intercept: bool
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
