"""KRR-FKD whose removal uses the paper's Nystroem inverse (Algorithm 2), K read in passes."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from fkd.catalog.methods import krr_fkd
from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.cost import Cost
from fkd.catalog.methods.method_declaration import Method
from fkd.catalog.methods.nystroem_inverse import (
    WHOLE_ROWS,
    inverse_landmarks,
    kernel_passes,
    removed_columns,
)
from fkd.core.predictors import KernelExpansion, Predictor
from fkd.core.training import Training
from fkd.paper.kernel_tiles import TILE_ROWS, chunked_dual_path
from fkd.paper.ridge_in_passes import DualRidge, dual_ridge

# Passes that a predictor takes where landmarks are a twentieth of a census.
_USUAL_PASSES = 60


@dataclass(frozen=True)
class Parameters:
    """Those of KRR-FKD, with the share of the rows that stand for all in the inverse."""

    iterations: int = number(0, at_least=0)
    fraction: float = number(0.25, above=0, at_most=1)
    gamma: float = number(0.05, above=0)
    alpha: float = number(0.25, above=0)
    ridge: float = number(0.1, above=0)
    fit_intercept: bool = False
    center_sensitive: bool = False


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors, those of one path from the same passes over the kernel matrix."""
    groups: dict[Hashable, list[Parameters]] = {}
    for p in settings:
        groups.setdefault(_shared(p), []).append(p)
    found: dict[Parameters, Predictor] = {}
    for group in groups.values():
        found |= zip(group, _fitted(training, group), strict=True)
    yield from (found[p] for p in settings)


def _fitted(training: Training, group: Sequence[Parameters]) -> list[KernelExpansion]:
    """Return the predictors of settings that share a path."""
    first = group[0]
    K = kernel_passes(training, first.gamma, inverse_landmarks(training, first))
    path = chunked_dual_path(
        K,
        removed_columns(training, first),
        ridge=first.ridge,
        iterations=max(p.iterations for p in group),
    )
    wanted = [DualRidge(p.iterations, p.alpha, p.fit_intercept) for p in group]
    return [
        KernelExpansion("rbf", first.gamma, 3, 1.0, training.X, w.coef, w.intercept)
        for w in dual_ridge(K, path, training.y, wanted)
    ]


def _shared(p: Parameters) -> Hashable:
    """Return the key of a path, which settings of any length and ridge share."""
    return ("nystroem inverse in passes", p.gamma, p.ridge, p.fraction, p.center_sensitive)


def _cost(settings: Sequence[Parameters], n: int, d: int) -> Cost:
    """Return what settings cost: the kernel once where it is kept, products with it in passes."""
    paths = {_shared(p): p for p in settings}
    q = max(max(1, round(p.fraction * n)) for p in paths.values())
    longest = max(p.iterations for p in settings)
    columns = sum(1 + p.fit_intercept for p in settings)
    per_path = 1.0 * n**2 * d + longest * 2.0 * n * (n + q**2) + 10.0 * q**3
    passes = _USUAL_PASSES * columns * (2.0 * n**2 + 4.0 * n * q)
    # Beyond what is held whole, tiles of K with the landmarks' rows of them.
    held = n**2 if n <= WHOLE_ROWS else 4.0 * TILE_ROWS**2
    return Cost(
        flops=len(paths) * per_path + passes,
        bytes=8.0 * (held + n * d + 3.0 * TILE_ROWS * q + 4.0 * q**2 + 20.0 * n),
    )


METHOD = Method(
    name="krr_fkd_nystroem",
    title="KRR-FKD, Nystroem inverse",
    parameters=Parameters,
    fit=_fit,
    strength="iterations",
    shared=_shared,
    published=krr_fkd.METHOD.published,
    cost=_cost,
    in_passes=True,
)
