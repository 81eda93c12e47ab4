"""Kernel ridge regression on the fair kernel of the printed recursion, to compare with ours."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve

from fkd.expansion import KernelExpansion
from fkd.kernels import Kernel
from fkd.literal import recursion
from fkd.methods.cost import Cost
from fkd.methods.declaration import Method, Training, number


@dataclass(frozen=True)
class Parameters:
    """RBF width, ridge of the predictor, ridge of the removal, number of removal iterations."""

    iterations: int = number(0, at_least=0)
    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    ridge: float = number(0.1, above=0)


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[KernelExpansion]:
    """Yield the predictors, those of one recursion from one walk along it."""
    found: dict[Parameters, KernelExpansion] = {}
    for gamma, ridge in dict.fromkeys((p.gamma, p.ridge) for p in settings):
        group = [p for p in settings if (p.gamma, p.ridge) == (gamma, ridge)]
        found |= _walk(training, gamma, ridge, group)
    yield from (found[p] for p in settings)


def _walk(
    training: Training, gamma: float, ridge: float, group: Sequence[Parameters]
) -> dict[Parameters, KernelExpansion]:
    """Return the predictors along one recursion."""
    X, found = training.X, dict[Parameters, KernelExpansion]()
    K = Kernel("rbf", gamma).gram(X)
    longest = max(p.iterations for p in group)
    for m, (K_m, T_m) in enumerate(recursion(K, training.S, ridge=ridge, iterations=longest)):
        for p in (p for p in group if p.iterations == m):
            # As printed: the matrix is taken as it comes, symmetric or not.
            a = solve(K_m + p.alpha * np.eye(len(X)), training.y)
            found[p] = KernelExpansion("rbf", gamma, 3, 1.0, X, T_m @ a)
    return found


def _cost(settings: Sequence[Parameters], n: int, d: int) -> Cost:
    """Return the cost of an inverse with six products of n rows each per iteration."""
    longest = max(p.iterations for p in settings)
    return Cost(14.0 * longest * n**3 + 2.0 * n * n * d, 56.0 * n * n)


METHOD = Method(
    name="krr_fkd_printed",
    title="KRR-FKD as printed",
    parameters=Parameters,
    fit=_fit,
    strength="iterations",
    shared=lambda p: ("printed", p.gamma, p.ridge),
    cost=_cost,
)
