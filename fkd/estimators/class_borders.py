"""Borders between classes in a fair kernel's space."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from sklearn.svm import SVC

from fkd.core.arrays import BLOCK_ROWS, Array, IntArray, Rows, row_blocks
from fkd.core.removal import FairFeatures, FairKernel
from fkd.core.svm import Machine, Solution
from fkd.estimators.many_rows import batched_solutions, tell_gaps


class ClassBorders(Protocol):
    """What tells classes 0, 1, ... apart."""

    @property
    def fair(self) -> FairFeatures:
        """What is left of the kernel."""

    @property
    def n_iter(self) -> int:
        """Steps of the solver, the most of any pair of classes."""

    @property
    def gap(self) -> float | None:
        """The greatest certified duality gap of any pair, None where libsvm found them."""

    def decisions(self, X: Rows) -> Array:
        """Return the signed distance to the border (k,), or one score per class (k, c)."""

    def classes(self, X: Rows) -> IntArray:
        """Return the number of each row's class."""


@dataclass(frozen=True)
class KernelBorders:
    """Borders as combinations of training rows."""

    fair: FairKernel
    svc: SVC

    @classmethod
    def of(cls, fair: FairKernel, y: Array, svc: SVC, w: Array | None = None) -> "KernelBorders":
        """Return the borders between the classes y of the kernel's own rows, counted w times."""
        svc.set_params(kernel="precomputed").fit(fair.gram(), y, sample_weight=w)
        return cls(fair, svc)

    @property
    def n_iter(self) -> int:
        """Steps of the solver, the most of any pair of classes."""
        return int(self.svc.n_iter_.max())

    @property
    def gap(self) -> None:
        """None: libsvm tells none."""
        return None

    def decisions(self, X: Rows) -> Array:
        """Return the signed distance to the border (k,), or one score per class (k, c)."""
        return np.asarray(self.svc.decision_function(self.fair.block(X)))

    def classes(self, X: Rows) -> IntArray:
        """Return the number of each row's class."""
        return np.asarray(self.svc.predict(self.fair.block(X))).astype(np.intp)


@dataclass(frozen=True)
class FeatureBorders:
    """Borders as weights of fair features: no kernel matrix is formed, no training row kept."""

    fair: FairFeatures
    W: Array  # one row per pair of classes, (p, r)
    constants: Array  # (p,)
    n_iter: int
    gap: float | None = None

    @classmethod
    def of(
        cls, fair: FairFeatures, X: Rows, y: Array, svc: SVC, w: Array | None = None
    ) -> "FeatureBorders":
        """Return the borders between the classes y of the map's rows X, counted w times."""
        svc.set_params(kernel="linear").fit(fair.training_features(X), y, sample_weight=w)
        return cls(fair, svc.coef_, svc.intercept_, int(svc.n_iter_.max()))

    @classmethod
    def batched(
        cls,
        fair: FairFeatures,
        X: Rows,
        y: Array,
        C: float,
        *,
        tol: float,
        max_iter: int,
        weights: Array | None = None,
    ) -> "FeatureBorders":
        """Return the same borders from passes over the rows of each pair of classes."""
        found: dict[str, Solution] = {}
        pairs = _class_pairs(int(y.max()) + 1)
        for i, j in pairs:
            rows = (y == i) | (y == j)
            # Of two classes the second is the positive one, of several pairs the first of each.
            signs = np.where(y[rows] == (j if len(pairs) == 1 else i), 1.0, -1.0)
            machine = Machine(C, fair.removed)
            (found[f"the border of classes {i} and {j}"],) = batched_solutions(
                fair.feature_map,
                X[rows],
                signs,
                [machine],
                loss="hinge",
                tol=tol,
                max_iter=max_iter,
                weights=None if weights is None else weights[rows],
            )
        tell_gaps(found.items(), tol)
        W, constants = (
            np.stack([getattr(solution, name) for solution in found.values()])
            for name in ("w", "intercept")
        )
        worst = max(solution.gap for solution in found.values())
        passes = max(solution.iterations for solution in found.values())
        return cls(fair, W, constants, passes, worst)

    def decisions(self, X: Rows) -> Array:
        """Return the signed distance to the border (k,), or one score per class (k, c)."""
        pairs = self._pairs(X)
        if pairs.shape[1] == 1:
            return np.asarray(pairs[:, 0])
        votes, clear = self._votes(pairs)
        return votes + clear

    def classes(self, X: Rows) -> IntArray:
        """Return the number of each row's class."""
        pairs = self._pairs(X)
        if pairs.shape[1] == 1:
            return (pairs[:, 0] > 0).astype(np.intp)
        return np.asarray(self._votes(pairs)[0].argmax(axis=1))

    def _pairs(self, X: Rows) -> Array:
        """Return what each pair's border says, (k, p)."""
        blocks = row_blocks(X.shape[0], BLOCK_ROWS)
        return np.concatenate([self.fair.features(X[b]) @ self.W.T for b in blocks]) + (
            self.constants
        )

    def _votes(self, pairs: Array) -> tuple[Array, Array]:
        """Return how many borders speak for each class, (k, c), with how clearly they do.

        The second, of the form that scikit-learn gives it, lies within a third: it decides only
        between classes of equally many votes.
        """
        c = int(np.sqrt(2 * pairs.shape[1])) + 1
        votes, sums = np.zeros((len(pairs), c)), np.zeros((len(pairs), c))
        for said, (i, j) in zip(pairs.T, _class_pairs(c), strict=True):
            votes[:, i] += said >= 0
            votes[:, j] += said < 0
            sums[:, i] += said
            sums[:, j] -= said
        return votes, sums / (3 * (np.abs(sums) + 1))


def _class_pairs(c: int) -> list[tuple[int, int]]:
    """Return pairs of c classes in libsvm's order."""
    return [(i, j) for i in range(c) for j in range(i + 1, c)]
