"""Support vector regression on inputs after linear removal (SVR-INLP)."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn.svm import SVR

from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.training_fold import Training
from fkd.core.arrays import Array
from fkd.core.feature_maps import IdentityMap
from fkd.core.kernels import Kernel
from fkd.core.linalg import project
from fkd.core.moments import training_moments
from fkd.core.predictors import KernelExpansion, ProjectedExpansion
from fkd.core.removal_path import RemovalPath, removal_path
from fkd.estimators.support_vector_regression import LIBSVM_STEPS, LIBSVM_TOL


@dataclass(frozen=True)
class Parameters:
    """Removal iterations with their ridge; RBF width, penalty, insensitive width."""

    iterations: int = number(0, at_least=0)
    gamma: float = number(0.05, above=0)
    C: float = number(0.5, above=0)
    epsilon: float = number(0.005, at_least=0)
    ridge: float = number(0.05, above=0)
    center_sensitive: bool = False


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[ProjectedExpansion]:
    """Yield the predictors as soon as each is fitted, settings of one path from one run of it."""
    longest = max((p.iterations for p in settings), default=0)

    @cache
    def path(ridge: float, center: bool) -> RemovalPath:
        return _path(training, longest, ridge, center)

    for p in settings:
        U = np.ascontiguousarray(path(p.ridge, p.center_sensitive).at(p.iterations).V)
        yield ProjectedExpansion(_svr(project(training.X, U), training.y, p), U)


def _path(training: Training, iterations: int, ridge: float, center: bool) -> RemovalPath:
    """Return the directions of the inputs that iterative null-space projection removes."""
    feature_map = IdentityMap(training.X.shape[1])
    moments = training_moments(feature_map, training.X, training.S, training.y)
    return removal_path(
        moments,
        ridge=ridge,
        iterations=iterations,
        center_sensitive=center,
        independent=feature_map.independent,
    )


def _svr(X: Array, y: Array, p: Parameters) -> KernelExpansion:
    """Return the RBF machine on these rows, with its support vectors as centres."""
    K = Kernel("rbf", p.gamma).gram(X)
    svr = SVR(
        kernel="precomputed",
        C=p.C,
        epsilon=p.epsilon,
        cache_size=1000,
        tol=LIBSVM_TOL,
        max_iter=LIBSVM_STEPS,
    )
    # The transpose of the symmetric matrix has the row order that libsvm reads without a copy.
    svr.fit(K.T, y)
    # A target within epsilon of a constant needs no support: any one row with weight 0 stands in.
    support = svr.support_ if len(svr.support_) else np.array([0])
    coef = svr.dual_coef_[0] if len(svr.support_) else np.zeros(1)
    return KernelExpansion("rbf", p.gamma, 3, 1.0, X[support], coef, float(svr.intercept_[0]))


def _represent(training: Training, p: Parameters, X: Array) -> Array:
    """Return X - (X U) Uᵀ, the inputs that are left."""
    U = _path(training, p.iterations, p.ridge, p.center_sensitive).at(p.iterations).V
    return project(X, U)


def _shared(p: Parameters) -> Hashable:
    """Return the key of the removal path, which settings of any length share."""
    return ("inlp", p.ridge, p.center_sensitive)


METHOD = Method(
    name="svr_inlp",
    title="SVR-INLP",
    parameters=Parameters,
    fit=_fit,
    strength="iterations",
    shared=_shared,
    represent=_represent,
    published={"acs_income": Published(grid={"iterations": (0, 60, 100, 160, 180, 200)})},
)
