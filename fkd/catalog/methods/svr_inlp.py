"""Support vector regression on inputs after linear removal (SVR-INLP)."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn.svm import SVR

from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.core.arrays import Array
from fkd.core.linalg import project
from fkd.core.predictors import ProjectedExpansion
from fkd.core.removal import RemovalPath
from fkd.core.svr import LIBSVM_STEPS, LIBSVM_TOL
from fkd.core.training import Training
from fkd.rivals.nullspace import inlp_path, svr_on_left


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
        svr = SVR(
            kernel="precomputed",
            C=p.C,
            epsilon=p.epsilon,
            cache_size=1000,
            tol=LIBSVM_TOL,
            max_iter=LIBSVM_STEPS,
        )
        yield svr_on_left(training.X, training.y, U, svr, p.gamma, training.weights.fit)


def _path(training: Training, iterations: int, ridge: float, center: bool) -> RemovalPath:
    """Return the removed directions of the inputs."""
    return inlp_path(
        training.X,
        training.S,
        training.weights.removal,
        ridge=ridge,
        iterations=iterations,
        center_sensitive=center,
    )


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
    weighs="each",
)
