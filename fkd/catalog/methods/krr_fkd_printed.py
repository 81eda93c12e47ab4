"""Kernel ridge regression on the fair kernel of the printed recursion, to compare with ours."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve

from fkd.catalog.methods import krr_fkd
from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.cost import Cost
from fkd.catalog.methods.method_declaration import Method
from fkd.core.kernels import Kernel
from fkd.core.predictors import KernelExpansion
from fkd.core.training import Training
from fkd.paper.printed import recursion


@dataclass(frozen=True)
class Parameters:
    """RBF width, ridge of the predictor, ridge of the removal, number of removal iterations."""

    iterations: int = number(0, at_least=0)
    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    ridge: float = number(0.1, above=0)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[KernelExpansion]:
    """Yield the predictors as soon as each is fitted, those of one recursion from one walk."""
    found: dict[Parameters, KernelExpansion] = {}
    walks = {
        key: _walk(training, [p for p in settings if _shared(p) == key])
        for key in dict.fromkeys(map(_shared, settings))
    }
    for p in settings:
        # No further than needed: where a late step fails, the settings before it are not lost.
        while p not in found:
            found.update([next(walks[_shared(p)])])
        yield found[p]


def _walk(
    training: Training, group: Sequence[Parameters]
) -> Iterator[tuple[Parameters, KernelExpansion]]:
    """Yield settings with their predictors along one recursion, shortest first."""
    X, first = training.X, group[0]
    K = Kernel("rbf", first.gamma).gram(X)
    longest = max(p.iterations for p in group)
    steps = recursion(K, training.S, ridge=first.ridge, iterations=longest)
    for m, (K_m, T_m) in enumerate(steps):
        for p in (p for p in group if p.iterations == m):
            # As printed: the matrix is taken as it comes, symmetric or not.
            a = solve(K_m + p.alpha * np.eye(len(X)), training.y)
            yield p, KernelExpansion("rbf", p.gamma, 3, 1.0, X, T_m @ a)


def _shared(p: Parameters) -> Hashable:
    """Return the key of the recursion, which settings of any length share."""
    return ("printed", p.gamma, p.ridge)


def _cost(settings: Sequence[Parameters], n: int, d: int) -> Cost:
    """Return the cost of an inverse with three products per iteration, in seven matrices."""
    longest = max(p.iterations for p in settings)
    return Cost(8.0 * longest * n**3 + 2.0 * n * n * d, 56.0 * n * n)


METHOD = Method(
    name="krr_fkd_printed",
    title="KRR-FKD as printed",
    parameters=Parameters,
    fit=_fit,
    strength="iterations",
    shared=_shared,
    cost=_cost,
    published=krr_fkd.METHOD.published,
)
