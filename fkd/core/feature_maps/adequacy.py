"""How many landmarks are enough, what fewer of them would change."""

from dataclasses import dataclass

import numpy as np

from fkd.core.arrays import Array, IntArray
from fkd.core.feature_maps.landmark_maps import NystroemMap
from fkd.core.feature_maps.landmarks import rp_cholesky
from fkd.core.kernels import Kernel
from fkd.core.linalg import ShiftedInverse


@dataclass(frozen=True)
class Adequacy:
    """So many landmarks with the errors that are to be expected of them."""

    landmarks: int
    unexplained: float  # share of k(x, x) that lies outside their span, mean over other rows
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
    found = rp_cholesky(kernel, X, np.arange(len(X)), most, rng=rng, accuracy=accuracy)
    others = np.setdiff1d(np.arange(len(X)), found)
    order = rng.permutation(others if len(others) > 1 else np.arange(len(X)))
    trained, tested = np.array_split(order, 2)
    whole = NystroemMap.of(kernel, X, found)
    G = whole.transform(X[order])
    unexplained = 1.0 - np.einsum("ij,ij->", G, G) / kernel.diag(X[order]).sum(axis=0)
    pairs = (found, found[: -(-len(found) // 2)])
    f, g = (_predicted(kernel, X, y, landmarks, trained, tested, alpha) for landmarks in pairs)
    spread = float(f.std())
    halved = float(np.sqrt(np.mean((f - g) ** 2))) / spread if spread > 0 else 0.0
    return Adequacy(len(found), max(float(unexplained), 0.0), halved)


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
