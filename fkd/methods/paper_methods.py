"""The algorithms as printed in the paper, to compare with `krr_fkd` and `svr_fkd`.

`krr_fkd_printed` runs the recursion of Algorithm 1 on kernel matrices. `krr_fkd_nystroem` and
`svr_fkd_nystroem` use the Nystroem inverse of Algorithm 2; the former reads the kernel matrix in
passes, so that it may be stored on a cluster.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from scipy.linalg import solve

from fkd.core.arrays import Array, IntArray
from fkd.core.feature_maps import KernelSettings
from fkd.core.kernels import Kernel
from fkd.core.predictors import KernelExpansion, Predictor
from fkd.core.svr import SVRSetting, fit_svr
from fkd.core.training import KnownRemoval, Training
from fkd.methods.declaration import Cost, Method, number
from fkd.methods.kernel_methods import FKD_PUBLISHED, SVR_FKD_PUBLISHED
from fkd.paper.algorithm1 import recursion
from fkd.paper.algorithm2 import (
    TILE_ROWS,
    DualRidge,
    KernelPasses,
    KernelRows,
    chunked_dual_path,
    dual_ridge,
    nystroem_path,
)

# Up to this many training rows a kernel matrix that is read in passes is computed once and kept.
WHOLE_ROWS = 10_000
# Usual number of passes of a predictor if the landmarks are a twentieth of the rows.
_PASSES = 60


@dataclass(frozen=True)
class Printed:
    """Algorithm 1: RBF width, ridges of the predictor and of the removal, iterations."""

    iterations: int = number(0, at_least=0)
    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    ridge: float = number(0.1, above=0)


@dataclass(frozen=True)
class NystroemInverse:
    """Algorithm 2: the share of the rows that are landmarks of the inverse, iterations, ridge."""

    iterations: int = number(0, at_least=0)
    fraction: float = number(0.25, above=0, at_most=1)
    gamma: float = number(0.05, above=0)
    ridge: float = number(0.1, above=0)
    center_sensitive: bool = False

    def landmarks(self, training: Training) -> IntArray:
        """Return the landmarks, the same in all iterations."""
        n, rng = len(training.X), np.random.default_rng(training.seed)
        size = max(1, round(self.fraction * n))
        return np.sort(rng.choice(n, size=size, replace=False))

    def columns(self, training: Training) -> Array:
        """Return the sensitive columns to remove, (n, l)."""
        S = training.S
        return np.asarray(S - S.mean(axis=0)) if self.center_sensitive else S


@dataclass(frozen=True)
class NystroemRidge(NystroemInverse):
    """Ridge regression after Algorithm 2."""

    alpha: float = number(0.25, above=0)
    fit_intercept: bool = False


@dataclass(frozen=True)
class NystroemSVR(NystroemInverse):
    """Support vector regression after Algorithm 2."""

    ridge: float = number(0.05, above=0)
    C: float = number(0.75, above=0)
    epsilon: float = number(0.01, at_least=0)


def _printed_key(p: Printed) -> Hashable:
    """Return the key of the recursion, which settings of any length share."""
    return ("printed", p.gamma, p.ridge)


def _path_key(p: NystroemInverse) -> Hashable:
    """Return the key of a path, which settings of any length share."""
    return (type(p).__name__, p.gamma, p.ridge, p.fraction, p.center_sensitive)


def _fit_printed(training: Training, settings: Sequence[Printed]) -> Iterator[KernelExpansion]:
    """Yield the predictors as soon as each is fitted, those of one recursion in one run of it."""
    found: dict[Printed, KernelExpansion] = {}
    runs = {
        key: _recursion(training, [p for p in settings if _printed_key(p) == key])
        for key in dict.fromkeys(map(_printed_key, settings))
    }
    for p in settings:
        # No further than needed: if a late step fails, the settings before it are not lost.
        while p not in found:
            found.update([next(runs[_printed_key(p)])])
        yield found[p]


def _recursion(
    training: Training, group: Sequence[Printed]
) -> Iterator[tuple[Printed, KernelExpansion]]:
    """Yield settings with their predictors along one recursion, shortest first."""
    X, first = training.X, group[0]
    K = Kernel("rbf", first.gamma).gram(X)
    longest = max(p.iterations for p in group)
    steps = recursion(K, training.S, ridge=first.ridge, iterations=longest)
    for m, (K_m, T_m) in enumerate(steps):
        for p in (p for p in group if p.iterations == m):
            # As printed: K_m need not be symmetric.
            a = solve(K_m + p.alpha * np.eye(len(X)), training.y)
            yield p, KernelExpansion("rbf", p.gamma, 3, 1.0, X, T_m @ a)


def _printed_cost(settings: Sequence[Printed], n: int, d: int) -> Cost:
    """Return the cost of an inverse and three products per iteration, in seven matrices."""
    longest = max(p.iterations for p in settings)
    return Cost(8.0 * longest * n**3 + 2.0 * n * n * d, 56.0 * n * n)


def kernel_passes(training: Training, gamma: float, landmarks: IntArray) -> KernelPasses:
    """Return the RBF kernel matrix of the training rows, to be read in passes."""
    if training.passes is not None:
        passes: KernelPasses = training.passes(gamma, landmarks)
        return passes
    kernel = Kernel("rbf", gamma)
    if len(training.X) > WHOLE_ROWS:
        return KernelRows(kernel, training.X, landmarks)
    return KernelRows(Kernel("precomputed"), kernel.gram(training.X), landmarks)


def _fit_ridge(training: Training, settings: Sequence[NystroemRidge]) -> Iterator[Predictor]:
    """Yield the predictors, those of one path from the same passes over the kernel matrix."""
    found: dict[NystroemRidge, Predictor] = {}
    for key in dict.fromkeys(map(_path_key, settings)):
        group = [p for p in settings if _path_key(p) == key]
        first = group[0]
        K = kernel_passes(training, first.gamma, first.landmarks(training))
        longest = max(p.iterations for p in group)
        S = first.columns(training)
        path = chunked_dual_path(K, S, ridge=first.ridge, iterations=longest)
        wanted = [DualRidge(p.iterations, p.alpha, p.fit_intercept) for p in group]
        for p, w in zip(group, dual_ridge(K, path, training.y, wanted), strict=True):
            expansion = KernelExpansion("rbf", p.gamma, 3, 1.0, training.X, w.coef, w.intercept)
            found[p] = expansion
    yield from (found[p] for p in settings)


def _ridge_cost(settings: Sequence[NystroemRidge], n: int, d: int) -> Cost:
    """Return the cost of the kernel, once if it is kept, and of products with it in passes."""
    paths = {_path_key(p): p for p in settings}
    q = max(max(1, round(p.fraction * n)) for p in paths.values())
    longest = max(p.iterations for p in settings)
    columns = sum(1 + p.fit_intercept for p in settings)
    per_path = 1.0 * n**2 * d + longest * 2.0 * n * (n + q**2) + 10.0 * q**3
    passes = _PASSES * columns * (2.0 * n**2 + 4.0 * n * q)
    # A larger matrix is held in tiles, together with the landmarks' rows of them.
    held = n**2 if n <= WHOLE_ROWS else 4.0 * TILE_ROWS**2
    return Cost(
        flops=len(paths) * per_path + passes,
        bytes=8.0 * (held + n * d + 3.0 * TILE_ROWS * q + 4.0 * q**2 + 20.0 * n),
    )


def _fit_svr(training: Training, settings: Sequence[NystroemSVR]) -> Iterator[Predictor]:
    """Yield the predictors as soon as each is fitted, neighbours with one path from it."""
    for _, members in groupby(settings, key=_path_key):
        group = list(members)
        first = group[0]
        kernel = KernelSettings(gamma=first.gamma)
        path = nystroem_path(
            np.concatenate(list(training.feature_map(kernel).training_blocks(training.X))),
            first.columns(training),
            ridge=first.ridge,
            iterations=max(p.iterations for p in group),
            landmarks=first.landmarks(training),
        )
        removal = KnownRemoval(path)
        wanted = [SVRSetting(kernel, removal, p.iterations, p.C, p.epsilon) for p in group]
        yield from (model.predictor for model in fit_svr(training, wanted))


METHODS = (
    Method(
        name="krr_fkd_printed",
        title="KRR-FKD as printed",
        parameters=Printed,
        fit=_fit_printed,
        strength="iterations",
        shared=_printed_key,
        cost=_printed_cost,
        published=FKD_PUBLISHED,
    ),
    Method(
        name="krr_fkd_nystroem",
        title="KRR-FKD, Nystroem inverse",
        parameters=NystroemRidge,
        fit=_fit_ridge,
        strength="iterations",
        shared=_path_key,
        published=FKD_PUBLISHED,
        cost=_ridge_cost,
        in_passes=True,
    ),
    Method(
        name="svr_fkd_nystroem",
        title="SVR-FKD, Nystroem inverse",
        parameters=NystroemSVR,
        fit=_fit_svr,
        strength="iterations",
        shared=_path_key,
        published=SVR_FKD_PUBLISHED,
    ),
)
