"""Ridge regression on a fair kernel matrix that is read in passes, for many settings at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fkd.core.arrays import Array
from fkd.core.validation import positive
from fkd.paper.conjugate_gradients import BUDGET, solve_systems
from fkd.paper.kernel_tiles import KernelPasses
from fkd.paper.landmark_ridge import LandmarkFeatures, LandmarkInverse, precondition
from fkd.paper.nystroem_removal import DualPath


@dataclass(frozen=True)
class DualWeights:
    """f(x) = k(x, X)·coef + intercept."""

    coef: Array  # (n,)
    intercept: float


@dataclass(frozen=True)
class DualRidge:
    """One setting of ridge regression: iterations of the removal, ridge, a constant or none."""

    iterations: int
    alpha: float
    fit_intercept: bool = False

    def __str__(self) -> str:
        """Return what a setting is called where it cannot be solved."""
        return f"alpha={self.alpha:g} (iterations={self.iterations})"


def dual_ridge(
    K: KernelPasses,
    path: DualPath,
    y: Array,
    settings: Sequence[DualRidge],
    *,
    budget: int = BUDGET,
) -> list[DualWeights]:
    """Return the weights of each setting, (K_m + alpha·I)⁻¹ y as an expansion on the rows of K.

    By conjugate gradients with the landmarks' own inverse as preconditioner. A pass over K serves
    all settings; none of them changes another one's numbers.

    Parameters
    ----------
    K
        The kernel matrix of the training rows.
    path
        What was removed from it, at least as long as any setting asks for.
    y
        Target, (n,).
    settings
        What is wanted; a constant is fitted unpenalised.
    budget
        Passes over K after which a setting counts as unsolvable.
    """
    for p in settings:
        positive("alpha", p.alpha)
    heads = [path.head(p.iterations) for p in settings]
    features = LandmarkFeatures.of(K, len(y))
    removed = features.removed(path)
    inverses = [
        LandmarkInverse(features.lam, removed[: len(head.ends) - 1], p.alpha)
        for p, head in zip(settings, heads, strict=True)
    ]

    def apply(which: Sequence[int], panels: Sequence[Array]) -> list[Array]:
        parts = zip(which, panels, K.products(panels), strict=True)
        return [KP - heads[i].F @ (heads[i].F.T @ P) + settings[i].alpha * P for i, P, KP in parts]

    ones = np.ones_like(y)
    solved = solve_systems(
        apply,
        [np.column_stack([y, ones] if p.fit_intercept else [y]) for p in settings],
        precondition=lambda which, R: precondition(features, [inverses[i] for i in which], R),
        names=[str(p) for p in settings],
        budget=budget,
    )
    return [_weights(head, X) for head, X in zip(heads, solved, strict=True)]


def _weights(path: DualPath, X: Array) -> DualWeights:
    """Return the expansion of a solution; its second column is the constant's."""
    beta, intercept = X[:, 0], 0.0
    if X.shape[1] > 1:
        # The constant is free: what is left over must have the mean zero.
        intercept = float(X[:, 0].sum(axis=0) / X[:, 1].sum(axis=0))
        beta = X[:, 0] - intercept * X[:, 1]
    return DualWeights(beta - path.A @ (path.F.T @ beta), intercept)
