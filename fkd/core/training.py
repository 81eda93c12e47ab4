"""Training rows with the feature maps, moments and removals that several fits share.

Estimators and named methods pass the same object to the same fitting functions: `fit_ridge`,
`fit_svr`, `fit_process`. A feature map and its moments are computed once per `KernelSettings`. The
moments of a shared map come from elsewhere (`SharedSums`): the pipeline streams them over row
blocks, and `partial_fit` adds them up over its calls.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from fkd.core.arrays import AnyArray, Array, IntArray, Precision, RowBlock, Rows, Source
from fkd.core.conditioning import FittedFunctions, Functions
from fkd.core.feature_maps import FeatureMap, KernelSettings
from fkd.core.moments import (
    BasisMoments,
    Moments,
    basis_moments,
    training_moments,
    weighted_moments,
)
from fkd.core.removal import RemovalPath, Removals, removal_path, shrinkage
from fkd.core.weights import UNWEIGHTED, Part, RowWeights, row_count, times_weights, weighted_mean

T = TypeVar("T")
# Ridge of a removal path by default, as a share of the sum of all squared features. Ten iterations
# then reduce the dependence of ridge regression for any number of rows, dimension and unit
# (docs/decisions/0009).
_RIDGE = 1e-3
# Largest size of features that are kept from pass to pass; larger ones are computed in each.
HELD_BYTES = 2**31


@dataclass(frozen=True)
class PathSettings:
    """A removal path: the directions that predict the sensitive columns, or functions of them."""

    ridge: float | None = None  # of the removal regression; None is `_RIDGE` of all squares
    center: bool = True  # centre the columns; functions are always centred
    functions: Functions | None = None  # None removes the columns themselves


@dataclass(frozen=True)
class ShrinkageSettings:
    """A shrinkage of the directions that covary with functions of the sensitive columns."""

    functions: Functions


@dataclass(frozen=True, eq=False)
class KnownRemoval:
    """Directions that were computed before, from the same rows under the same kernel."""

    removals: Removals
    functions: ClassVar[None] = None


# None removes nothing.
RemovalSettings = PathSettings | ShrinkageSettings | KnownRemoval | None


class SharedSums(Protocol):
    """A feature map that was not computed from the training rows alone, and sums under it."""

    def feature_map(self, kernel: KernelSettings) -> FeatureMap:
        """Return the shared map."""

    def moments(self, kernel: KernelSettings, part: Part) -> Moments:
        """Return the moments of the training rows, with the weights of one part."""

    def basis_moments(
        self, kernel: KernelSettings, functions: Functions, squares: float
    ) -> BasisMoments:
        """Return the products with functions of s; `squares` is the sum of all squared features."""

    def features(self, kernel: KernelSettings) -> Source:
        """Return the features of the training rows, block by block in single precision."""


@dataclass(frozen=True)
class Training:
    """Training rows and everything that is computed from them once."""

    X: Rows  # (n, d), or the kernel matrix (n, n) of a precomputed kernel
    y: Array  # (n,), or (n, t) for several targets
    S: Array  # (n, l)
    seed: Any = 0  # of landmarks and Fourier features
    weights: RowWeights = field(default=UNWEIGHTED, repr=False, compare=False)
    shared: SharedSums | None = field(default=None, repr=False, compare=False)
    # A kernel matrix that is stored elsewhere and read in passes, by gamma and landmarks.
    passes: Callable[[float, IntArray], Any] | None = field(default=None, repr=False, compare=False)
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def count(self) -> float:
        """The number of rows the predictor is fitted to, by their weights."""
        return row_count(len(self.y), self.weights.fit)

    @property
    def several(self) -> bool:
        """True if the target has several columns. Sums under a shared map are of one target."""
        return self.shared is None and self.y.ndim > 1

    def rows(self, positions: IntArray) -> Array:
        """Return some of the rows X, (k, d)."""
        return np.asarray(self.X[positions])

    def reading(self, passes: Callable[[float, IntArray], Any]) -> "Training":
        """Return the same rows with a kernel matrix that is stored elsewhere."""
        return replace(self, passes=passes)

    def part(self, rows: IntArray, *, precomputed: bool = False) -> "Training":
        """Return some of the rows as training rows of their own; the seed is 0."""
        X = self.X[rows][:, rows] if precomputed else self.X[rows]
        return Training(X, self.y[rows], self.S[rows], 0, self.weights.part(rows))

    def feature_map(self, kernel: KernelSettings) -> FeatureMap:
        """Return the feature map of these rows, or the shared one."""
        if kernel.approximation.shared:
            return self._shared.feature_map(kernel)
        return self.cached(kernel, lambda: kernel.feature_map(self.X, self.seed))

    def moments(self, kernel: KernelSettings, part: Part = "fit") -> Moments:
        """Return the moments with the (first) target; the weights are those of one part."""
        part = self.weights.alike_part(part)

        def compute() -> Moments:
            if kernel.approximation.shared:
                return self._shared.moments(kernel, part)
            first = self.y if self.y.ndim == 1 else self.y[:, 0]
            rows = self.X, self.S, first, self.weights.by(part)
            return training_moments(self.feature_map(kernel), *rows)

        return self.cached(("moments", kernel, part), compute)

    def target_moments(self, kernel: KernelSettings) -> list[Moments]:
        """Return the moments of the fit with each target."""
        moments = self.moments(kernel)
        if not self.several:
            return [moments]
        feature_map = self.feature_map(kernel)
        return [
            replace(
                moments,
                c=feature_map.training_adjoint(self.X, weighed),
                y=float(weighed.sum(axis=0)),
                yy=float(column @ weighed),
            )
            for column, weighed in zip(
                self.y.T, times_weights(self.y, self.weights.fit).T, strict=True
            )
        ]

    def basis_moments(self, kernel: KernelSettings, functions: Functions) -> BasisMoments:
        """Return the products of the features with functions of s, with the removal's weights."""

        def compute() -> BasisMoments:
            if kernel.approximation.shared:
                squares = float(self.moments(kernel, "removal").C.trace())
                return self._shared.basis_moments(kernel, functions, squares)
            w = self.weights.removal
            B, Z = functions.columns(self.S, self.y, w, self.X)(self.S, self.y, self.X)
            return basis_moments(self.feature_map(kernel), self.X, B, Z, w)

        return self.cached(("functions", kernel, functions), compute)

    def features(self, kernel: KernelSettings, dtype: Precision = np.float32) -> Source:
        """Return the features of the rows block by block; those of a shared map are single."""
        if kernel.approximation.shared:
            return self._shared.features(kernel)
        rows = self.X, self.y, self.weights.fit
        return feature_blocks(self.feature_map(kernel), *rows, dtype=dtype)

    def removals(
        self, kernel: KernelSettings, removal: RemovalSettings, strength: float
    ) -> Removals:
        """Return the directions that a removal finds, for every strength up to this one.

        A shrinkage covers all strengths.
        """
        if isinstance(removal, KnownRemoval):
            return removal.removals
        if removal is None:
            return RemovalPath.nothing(self.feature_map(kernel).rank)
        if isinstance(removal, ShrinkageSettings):
            return shrinkage(self.basis_moments(kernel, removal.functions))
        moments = self.moments(kernel, "removal")
        # Without any features every ridge finds nothing.
        ridge = _RIDGE * float(moments.C.trace()) or 1.0
        if removal.functions is not None:
            b = self.basis_moments(kernel, removal.functions).products()
            moments = replace(moments, b=b)
        return removal_path(
            moments,
            ridge=ridge if removal.ridge is None else removal.ridge,
            iterations=int(strength),
            center_sensitive=removal.functions is None and removal.center,
            independent=self.feature_map(kernel).independent,
        )

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what `compute` returned at the first call with this key."""
        if key not in self._cache:
            self._cache[key] = compute()
        found: T = self._cache[key]
        return found

    def discard_moments(self, kernel: KernelSettings) -> None:
        """Forget the moments of a map, which for an exact one are as large as the kernel matrix."""
        for part in ("fit", "removal", "once"):
            self._cache.pop(("moments", kernel, part), None)

    @property
    def _shared(self) -> SharedSums:
        if self.shared is None:
            raise ValueError(
                "approximation.shared must be False if no rows are reserved for a shared map, "
                "got True. Set folds.reserve"
            )
        return self.shared


def feature_blocks(
    feature_map: FeatureMap, X: Rows, y: Array, w: Array | None = None, *, dtype: Precision
) -> Source:
    """Return the features of training rows as blocks, which many rows compute in every pass."""

    def blocks() -> Iterator[RowBlock]:
        for rows, G in feature_map.training_slices(X):
            block: AnyArray = G.astype(dtype, copy=False)
            yield RowBlock(block, y[rows], weights=None if w is None else w[rows])

    if X.shape[0] * feature_map.rank * np.dtype(dtype).itemsize > HELD_BYTES:
        return blocks
    held = list(blocks())
    return lambda: held


@dataclass(frozen=True)
class RunningSums:
    """Sums over the rows of several calls, under the map and functions of the first rows."""

    map: FeatureMap
    functions: FittedFunctions | None
    origin: Array  # subtracted from S before summation, so that an offset costs no digits
    fit: Moments
    removal: Moments  # the same object if the weights of fit and removal are the same
    basis: BasisMoments | None

    @classmethod
    def from_rows(
        cls, training: Training, kernel: KernelSettings, removal: RemovalSettings, *, center: bool
    ) -> "RunningSums":
        """Return the sums of the first rows, which determine the map and the functions."""
        feature_map, w = kernel.feature_map(training.X, training.seed), training.weights.removal
        settings = None if removal is None else removal.functions
        functions = None if settings is None else settings.columns(training.S, training.y, w)
        origin = weighted_mean(training.S, w) if center else np.zeros(training.S.shape[1])
        return cls(feature_map, functions, origin, *_sums(feature_map, functions, origin, training))

    def add(self, training: Training) -> "RunningSums":
        """Return the sums over these rows as well."""
        if training.S.shape[1] != len(self.origin):
            raise ValueError(
                f"sensitive_features must have the {len(self.origin)} columns of the first rows, "
                f"got {training.S.shape[1]}"
            )
        fit, removal, basis = _sums(self.map, self.functions, self.origin, training)
        total, alike = self.fit + fit, self.fit is self.removal and fit is removal
        return replace(
            self,
            fit=total,
            removal=total if alike else self.removal + removal,
            basis=None if self.basis is None or basis is None else self.basis + basis,
        )

    def with_target(self, level: float, unit: float) -> "RunningSums":
        """Return the sums with the target (y - level) / unit."""
        fit = self.fit.with_target(level, unit)
        return replace(self, fit=fit, removal=fit if self.fit is self.removal else self.removal)

    def training(self) -> Training:
        """Return a training context without rows, whose sums are these."""
        nothing = np.empty((0, 0))
        weights = UNWEIGHTED if self.fit is self.removal else RowWeights(np.empty(0), np.empty(0))
        return Training(nothing, np.empty(0), nothing, weights=weights, shared=self)

    def feature_map(self, kernel: KernelSettings) -> FeatureMap:
        """Return the map of the first rows."""
        return self.map

    def moments(self, kernel: KernelSettings, part: Part) -> Moments:
        """Return the sums for one part."""
        return self.removal if part == "removal" else self.fit

    def basis_moments(
        self, kernel: KernelSettings, functions: Functions, squares: float
    ) -> BasisMoments:
        """Return the products with functions of s."""
        assert self.basis is not None
        return self.basis

    def features(self, kernel: KernelSettings) -> Source:
        """Refuse: no rows are kept."""
        raise NotImplementedError("sums of earlier rows have no features")


def _sums(
    feature_map: FeatureMap, functions: FittedFunctions | None, origin: Array, training: Training
) -> tuple[Moments, Moments, BasisMoments | None]:
    """Return the moments of the fit and of the removal, and the products with functions of s."""
    X, y, S, weights = training.X, training.y, training.S, training.weights
    fit, removal = weighted_moments(feature_map, X, S - origin, y, weights)
    if functions is None:
        return fit, removal, None
    B, Z = functions(S, y, X)
    return fit, removal, basis_moments(feature_map, X, B, Z, weights.removal)


def group_settings(settings: Sequence[Any], *names: str) -> list[list[int]]:
    """Return the positions of settings in groups that agree in the named attributes."""
    groups: dict[Any, list[int]] = {}
    for i, setting in enumerate(settings):
        groups.setdefault(tuple(getattr(setting, name) for name in names), []).append(i)
    return list(groups.values())
