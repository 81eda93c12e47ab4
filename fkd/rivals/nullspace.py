"""Iterative null-space projection of inputs, with support vector regression on what is left."""

import numpy as np
from sklearn.svm import SVR

from fkd.core.arrays import Array
from fkd.core.feature_maps import IdentityMap
from fkd.core.kernels import Kernel
from fkd.core.linalg import project
from fkd.core.moments import training_moments
from fkd.core.predictors import KernelExpansion, ProjectedExpansion
from fkd.core.removal import RemovalPath, removal_path


def inlp_path(
    X: Array,
    S: Array,
    w: Array | None = None,
    *,
    ridge: float,
    iterations: int,
    center_sensitive: bool,
) -> RemovalPath:
    """Return the directions of the inputs that iterative null-space projection removes.

    Parameters
    ----------
    X, S
        Training rows (n, d), sensitive columns (n, l).
    w
        How many rows each counts for, (n,); None is one.
    ridge, iterations, center_sensitive
        As in `fkd.core.removal.removal_path`.
    """
    inputs = IdentityMap(X.shape[1])
    # The path does not know the target.
    moments = training_moments(inputs, X, S, np.zeros(len(X)), w)
    return removal_path(
        moments,
        ridge=ridge,
        iterations=iterations,
        center_sensitive=center_sensitive,
        independent=inputs.independent,
    )


def svr_on_left(
    X: Array, y: Array, U: Array, svr: SVR, gamma: float, w: Array | None = None
) -> ProjectedExpansion:
    """Return the RBF machine on inputs without the directions U, its support vectors as centres.

    Parameters
    ----------
    X, y
        Training rows (n, d) with their target (n,).
    U
        Orthonormal directions (d, w), in row order.
    svr
        The machine, of a precomputed kernel.
    gamma
        Width of the kernel.
    w
        How many rows each counts for, (n,); None is one.
    """
    left = project(X, U)
    # The transpose of the symmetric matrix has the row order that libsvm reads without a copy.
    svr.fit(Kernel("rbf", gamma).gram(left).T, y, sample_weight=w)
    # A target within epsilon of a constant needs no support: any one row with weight 0 stands in.
    support = svr.support_ if len(svr.support_) else np.array([0])
    coef = svr.dual_coef_[0] if len(svr.support_) else np.zeros(1)
    inner = KernelExpansion("rbf", gamma, 3, 1.0, left[support], coef, float(svr.intercept_[0]))
    return ProjectedExpansion(inner, U)
