"""Training of several networks on the same rows at once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fkd.core.arrays import Array, IntArray
from fkd.core.predictors import TAKEN_BATCHES, Perceptron
from fkd.rivals.neural.processor import denormals_are_zero, one_thread
from fkd.rivals.neural.stack import Architecture, Forward

# From last hidden layer (M, b, w), output (M, b), sensitive columns (b, l) to one value each (M,).
Penalty = Callable[[Tensor, Tensor, Tensor], Tensor]
# A density over fewer rows than this is noise: they join the batch before.
SMALLEST_BATCH = 32
TakeRows = Callable[[IntArray], Array]


@dataclass(frozen=True)
class Recipe:
    """Shape of the networks, length of their training, step of their optimiser."""

    widths: tuple[int, ...]
    epochs: int
    batch_rows: int
    learning_rate: float
    weight_decay: float


def batch_sizes(n: int, batch_rows: int) -> list[int]:
    """Return the sizes of the batches of n rows; a small rest joins the last full batch."""
    full, rest = divmod(n, batch_rows)
    sizes = [batch_rows] * full
    if rest and (rest >= min(SMALLEST_BATCH, batch_rows) or not full):
        return [*sizes, rest]
    return [*sizes[:-1], batch_rows + rest]


def train(
    X: Array | TakeRows,
    y: Array,
    S: Array,
    *,
    prices: Sequence[float],
    penalty: Penalty,
    recipe: Recipe,
    seed: int,
    dtype: torch.dtype = torch.float32,
    watch: Callable[[int, Tensor], None] | None = None,
) -> list[Perceptron]:
    """Return networks that minimise mean squared error + price·penalty, one per price.

    All start from the same weights, all see the same batches: they differ by their price alone,
    and none depends on which others are trained with it, to the last bit, on any processor.

    Parameters
    ----------
    X, y, S
        Training rows (n, d), or a function from positions to these rows, which is asked for a few
        batches at a time; target (n,), sensitive columns (n, l).
    prices
        The weight of the penalty, one per network.
    penalty
        Dependence of a batch, differentiable.
    recipe, seed
        How to train, from which weights in which order.
    dtype
        Precision of the training; what comes out is float64 in any case.
    watch
        Hears after each epoch its number with the losses (M,) of its last batch.
    """
    parts = [torch.tensor(A, dtype=dtype) for A in (y, S)]
    take = _taking(X, dtype)
    n, d = len(y), take(torch.arange(1)).shape[1]
    architecture = Architecture((d, *recipe.widths, 1))
    price = torch.tensor(prices, dtype=dtype)
    rng = torch.Generator().manual_seed(seed)
    flat = architecture.initial(rng).to(dtype).repeat(len(prices), 1).requires_grad_()
    adam = torch.optim.Adam(
        [flat], lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
    )
    sizes = batch_sizes(n, recipe.batch_rows)
    with one_thread(), denormals_are_zero():
        for epoch in range(recipe.epochs):
            order = torch.randperm(n, generator=rng)
            for x, t, s in _batches(order, sizes, (take, *(A.__getitem__ for A in parts))):
                Z, f = Forward.apply(flat, x, architecture)
                losses = (f - t).square().mean(dim=1) + price * penalty(Z, f, s)
                adam.zero_grad()
                losses.sum().backward()
                adam.step()
            if watch is not None:
                watch(epoch, losses.detach())
    return architecture.perceptrons(flat)


def _taking(X: Array | TakeRows, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Return how rows at some positions are had in the precision of the training."""
    if callable(X):
        return lambda positions: torch.tensor(X(positions.numpy()), dtype=dtype)
    return torch.tensor(X, dtype=dtype).__getitem__


def _batches(
    order: Tensor, sizes: Sequence[int], parts: Sequence[Callable[[Tensor], Tensor]]
) -> Iterator[tuple[Tensor, ...]]:
    """Yield the batches of an epoch, of which a few are taken at a time."""
    chunks = [sizes[i : i + TAKEN_BATCHES] for i in range(0, len(sizes), TAKEN_BATCHES)]
    for positions, chunk in zip(order.split([sum(c) for c in chunks]), chunks, strict=True):
        yield from zip(*(take(positions).split(chunk) for take in parts), strict=True)
