"""How many landmarks are enough, what fewer of them would change."""

from dataclasses import dataclass

import numpy as np

from fkd.core.arrays import Array, IntArray
from fkd.core.feature_maps.landmark_maps import NystroemMap
from fkd.core.feature_maps.landmarks import rp_cholesky
from fkd.core.kernels import Kernel
from fkd.core.linalg import ShiftedInverse

# One of so many rows is set apart, to see what landmarks from the others leave of it.
_JUDGED = 8
# Landmarks are picked until they explain so many times more of the rows that they come from than is
# asked for of others.
_FURTHER = 4


@dataclass(frozen=True)
class Adequacy:
    """So many landmarks with the errors that are to be expected of them."""

    landmarks: int
    unexplained: float  # share of k(x, x) that lies outside their span, mean over fresh rows
    halved: float  # change of predictions with half of them, in deviations of the predictions


def adequate_landmarks(
    kernel: Kernel,
    X: Array,
    y: Array,
    *,
    accuracy: float,
    most: int,
    alpha: float,
    rng: np.random.Generator,
) -> Adequacy:
    """Return the smallest number of landmarks that leaves at most `accuracy` unexplained.

    Parameters
    ----------
    kernel, X, y
        Of a sample of rows (n, d) with their target (n,).
    accuracy
        Share of k(x, x) that may lie outside the landmarks' span.
    most
        The largest number that is affordable, which may explain less.
    alpha
        Ridge, on these rows, of the regression whose predictions are compared.
    rng
        Draws landmarks, then the rows that the comparison is made on.
    """
    order = rng.permutation(len(X))
    # Rows that could have become landmarks are explained better than any others will be.
    judged, offered = np.split(order, [max(1, len(X) // _JUDGED)])
    picked = rp_cholesky(kernel, X, offered, most, rng=rng, accuracy=accuracy / _FURTHER)
    left = _unexplained(kernel, X, offered[picked], judged)
    enough = np.flatnonzero(left <= accuracy)
    q = int(enough[0]) + 1 if len(enough) else len(left)
    found = offered[picked[:q]]
    trained, tested = np.array_split(_others(order, found), 2)
    pairs = (found, found[: -(-len(found) // 2)])
    f, g = (_predicted(kernel, X, y, landmarks, trained, tested, alpha) for landmarks in pairs)
    spread = float(f.std())
    halved = float(np.sqrt(np.mean((f - g) ** 2))) / spread if spread > 0 else 0.0
    return Adequacy(q, max(float(left[q - 1]), 0.0), halved)


def _unexplained(kernel: Kernel, X: Array, landmarks: IntArray, judged: IntArray) -> Array:
    """Return the share of k(x, x) that the first 1, 2, ... landmarks leave of other rows."""
    # Each feature is what one landmark adds to those before.
    G = NystroemMap.of(kernel, X, landmarks).transform(X[judged])
    explained = np.cumsum(np.einsum("ij,ij->j", G, G))
    return np.asarray(1.0 - explained / kernel.diag(X[judged]).sum(axis=0))


def _others(order: IntArray, found: IntArray) -> IntArray:
    """Return the rows that are no landmarks, all where fewer than two would be left."""
    others = order[~np.isin(order, found)]
    return others if len(others) > 1 else order


def _predicted(
    kernel: Kernel,
    X: Array,
    y: Array,
    landmarks: IntArray,
    trained: IntArray,
    tested: IntArray,
    alpha: float,
) -> Array:
    """Return the predictions of ridge regression on landmarks, from other rows."""
    feature_map = NystroemMap.of(kernel, X, landmarks)
    G = feature_map.transform(X[trained])
    level = y[trained].mean()
    share = len(trained) / len(X)  # of the ridge: half the rows
    beta = ShiftedInverse.of(G.T @ G, share * alpha, name="alpha") @ (G.T @ (y[trained] - level))
    return np.asarray(level + feature_map.transform(X[tested]) @ beta)
