"""The state of the processor in which networks are trained."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from fkd.core.arrays import Array, IntArray
from fkd.core.predictors import SELU_ALPHA, SELU_SCALE, TAKEN_BATCHES, Perceptron
from fkd.measures.hgr import DAMPING, GRID_REACH, LARGEST_GRID

_lock = Lock()
_inside: list[int] = []  # the thread count to go back to, once per block that is open


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the block on one thread, so that a seed decides every bit.

    The count belongs to the process: where threads train side by side, blocks overlap, so the last
    one that ends restores it.
    """
    with _lock:
        _inside.append(_inside[0] if _inside else torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            before = _inside.pop()
            if not _inside:
                torch.set_num_threads(before)


@contextmanager
def denormals_are_zero() -> Iterator[None]:
    """Run the block with numbers below the normal range taken as zero, on this thread alone.

    Weight decay shrinks the weights of idle units without end. From some hundred epochs on they
    are denormal, which the processor handles ten times slower than any other number.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


# PyTorch begins every new array at a multiple of this; no vector register is wider.
_REGISTER_BYTES = 64
# Numbers that fill whole registers in any precision, also several at once.
REGISTERS = 64


def apart(M: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return an empty array (M, i, j) for a shape (i, j), with a gap behind each of the M parts."""
    i, j = shape
    return _empty((M, i, j), (j, 1), dtype)


def _empty(shape: tuple[int, int, int], inner: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return an empty array of M parts with these strides inside each."""
    _, i, j = shape
    step = (i * j // REGISTERS + 1) * REGISTERS  # above i·j: there is a gap at any size
    return torch.empty_strided(shape, (step, *inner), dtype=dtype)


def apart_like(A: Tensor) -> Tensor:
    """Return an empty array of the shape of A, with a gap behind each part."""
    return apart(len(A), A.shape[1:], A.dtype)


def multiply(A: Tensor, B: Tensor, out: Tensor, *, plus: Tensor | None = None) -> Tensor:
    """Return A B, or `plus` + A B, for each network: (M, i, k) times (M, k, j) into (M, i, j).

    All must begin at the same place of a register for each network. One product at a time: a batch
    of one matrix, or one whose results do not lie side by side, is given to other routines than a
    batch of several.
    """
    operands = (A, B, out) if plus is None else (A, B, out, plus)
    # Parts without the bookkeeping of gradients, which none of these has, cost half as much.
    parts = [[T] if len(out) == 1 else T.unsafe_chunk(len(out)) for T in operands]
    for a, b, o, *c in zip(*parts, strict=True):
        if c:
            torch.baddbmm(c[0], a, b, out=o)
        else:
            torch.bmm(a, b, out=o)
    return out


def at_registers(A: Tensor) -> Tensor:
    """Return A, or a copy whose parts begin at registers, rows and columns in the same order."""
    M, i, j = A.shape
    step, *inner = A.stride()
    whole = M == 1 or step * A.itemsize % _REGISTER_BYTES == 0  # one network's step means nothing
    dense = inner in ([j, 1], [1, i])
    if dense and whole and A.data_ptr() % _REGISTER_BYTES == 0:
        return A
    return _empty((M, i, j), inner if dense else (j, 1), A.dtype).copy_(A)


def product(A: Tensor, B: Tensor, *, plus: Tensor | None = None) -> Tensor:
    """Return A B, or `plus` + A B, for each network, differentiable."""
    return _Product.apply(A, B, plus)


def exponential(A: Tensor) -> Tensor:
    """Return exp(A) for each network, differentiable."""
    return _Exponential.apply(A)


class _Product(torch.autograd.Function):
    """plus + A B with its gradient."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor, plus: Tensor | None) -> Tensor:
        """Return the products (M, i, j)."""
        A, B = at_registers(A), at_registers(B)
        ctx.save_for_backward(A, B)
        return multiply(A, B, apart(len(A), (A.shape[1], B.shape[2]), A.dtype), plus=plus)

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients by A, by B, by what was added."""
        A, B = ctx.saved_tensors
        G = at_registers(G)
        by_A, by_B, by_plus = ctx.needs_input_grad
        return (
            multiply(G, B.mT, apart_like(A)) if by_A else None,
            multiply(A.mT, G, apart_like(B)) if by_B else None,
            G if by_plus else None,
        )


class _Exponential(torch.autograd.Function):
    """exp(A) with its gradient."""

    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Tensor:
        """Return the exponentials in the shape of A."""
        E = torch.exp(at_registers(A), out=apart_like(A))
        ctx.save_for_backward(E)
        return E

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> Tensor:
        """Return the gradient by A."""
        (E,) = ctx.saved_tensors
        return G * E


# Keeps the standard deviation of an almost constant prediction from dividing by zero.
LEAST_DEVIATION = 1e-9
# Keeps the slope of the square root finite where two distributions coincide.
LEAST_DISCREPANCY = 1e-12


def chi2(f: Tensor, S: Tensor) -> Tensor:
    """Return chi-squared of each network's output with S, the mean over sensitive columns.

    The density estimate of Mary et al. (2019), whose chi-squared bounds HGR² from above: see
    `fkd.measures.hgr`. The kernel is separable, so the g x g density is one product of g x b
    matrices; its normalisation cancels.

    Parameters
    ----------
    f
        Outputs of M networks on a batch, (M, b).
    S
        Sensitive columns of the batch, (b, l).

    Returns
    -------
    Tensor
        One value per network, (M,).
    """
    b, l = S.shape
    h = b ** (-1 / 6)
    g = int(min(LARGEST_GRID, 5 / h))
    centers = torch.linspace(-GRID_REACH, GRID_REACH, g, dtype=f.dtype)
    A = exponential(_log_bumps(centers, _standardise(f), h))  # (M, g, b)
    B = _log_bumps(centers, _standardise(S.T), h).exp().reshape(l * g, b)
    P = product(A, B.T.expand(len(f), b, l * g)).view(-1, g, l, g)
    P = P + DAMPING * b * h * math.sqrt(2 * math.pi)
    rows, columns = P.sum(dim=3, keepdim=True), P.sum(dim=1, keepdim=True)
    return (P.square() / rows / columns).sum(dim=(1, 3)).mean(dim=1) - 1


def _standardise(U: Tensor) -> Tensor:
    """Return rows of mean zero, standard deviation one."""
    return (U - U.mean(dim=1, keepdim=True)) / (U.std(dim=1, keepdim=True) + LEAST_DEVIATION)


def _log_bumps(centers: Tensor, U: Tensor, h: float) -> Tensor:
    """Return -(c - u)² / 2h² for each row of U, (rows, g, b)."""
    return ((centers[:, None] - U[:, None, :]) / h).square() * -0.5


def eipm(Z: Tensor, S: Tensor, *, bandwidth_s: float, bandwidth_z: float) -> Tensor:
    """Return the mean over rows of MMD(Z near s, all Z), for each network.

    The integral probability metric of Kong et al. (2025): row i sees the others weighted by how
    near their s is. Leaving itself out is essential, else each row would see itself alone where
    the bandwidth is small.

    Parameters
    ----------
    Z
        Representations of a batch by M networks, (M, b, w).
    S
        Sensitive columns of the batch, (b, l).
    bandwidth_s, bandwidth_z
        Standard deviations of the Gaussian kernels on S, on Z.

    Returns
    -------
    Tensor
        One value per network, (M,), at most sqrt(2).
    """
    M, b, _ = Z.shape
    near = (S[:, None] - S).square().sum(dim=2) / (-2 * bandwidth_s**2)
    R = near.fill_diagonal_(-torch.inf).softmax(dim=1) - 1 / b
    # Centred first: the squared distances then lose no digits to a common offset.
    Z = (Z - Z.mean(dim=1, keepdim=True)) / bandwidth_z
    half = Z.square().sum(dim=2) / 2
    K = exponential(product(Z, Z.mT, plus=-(half[:, :, None] + half[:, None, :])))
    squared = (product(R.expand(M, b, b), K) * R).sum(dim=2)
    return squared.clamp(min=LEAST_DISCREPANCY).sqrt().mean(dim=1)


@dataclass(frozen=True)
class Architecture:
    """Sizes of the fully connected layers: inputs, hidden widths, one output."""

    sizes: tuple[int, ...]

    @property
    def length(self) -> int:
        """The number of weights, padded to whole vector registers.

        An optimiser treats the last few numbers of an array by other instructions, which round
        differently, so a network's numbers would depend on whether another one stands behind it.
        """
        plain = sum((i + 1) * o for i, o in pairwise(self.sizes))
        return -(-plain // REGISTERS) * REGISTERS

    def layers(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return weights (M, i, o) with biases (M, 1, o) per layer, as views of `flat`."""
        views, start = [], 0
        for i, o in pairwise(self.sizes):
            middle, end = start + i * o, start + (i + 1) * o
            W, b = flat[:, start:middle].view(-1, i, o), flat[:, middle:end].view(-1, 1, o)
            views.append((W, b))
            start = end
        return views

    def initial(self, rng: torch.Generator) -> Tensor:
        """Return one network (1, length), drawn as PyTorch draws its linear layers."""
        flat = torch.zeros(1, self.length)
        for W, b in self.layers(flat):
            bound = W.shape[1] ** -0.5
            # Linear layers hold their weights transposed: drawn so, equal seeds give equal nets.
            W.copy_(torch.empty(*W.mT.shape).uniform_(-bound, bound, generator=rng).mT)
            b.uniform_(-bound, bound, generator=rng)
        return flat

    def perceptrons(self, flat: Tensor) -> list[Perceptron]:
        """Return each network of the stack as plain arrays."""
        layers = [(W.double().numpy(), b.double().numpy()) for W, b in self.layers(flat.detach())]
        return [
            Perceptron(
                tuple(W[k].copy() for W, _ in layers), tuple(b[k, 0].copy() for _, b in layers)
            )
            for k in range(len(flat))
        ]


class Forward(torch.autograd.Function):
    """Last hidden layer with output of every network on one batch, with a gradient by hand.

    Half the time of automatic differentiation: it neither keeps what SELU needs twice nor gathers
    the gradients of views into one array.
    """

    @staticmethod
    def forward(
        ctx: Any, flat: Tensor, X: Tensor, architecture: Architecture
    ) -> tuple[Tensor, ...]:
        """Return Z (M, b, w) with f (M, b) of rows X (b, d)."""
        *hidden, (w, c) = architecture.layers(flat)
        Z = [X.expand(len(flat), *X.shape)]
        for W, b in hidden:
            A = apart(len(flat), (len(X), W.shape[2]), flat.dtype)
            Z.append(_selu_(multiply(Z[-1], W, A, plus=b)))
        ctx.save_for_backward(flat, *Z)
        ctx.architecture = architecture
        ctx.set_materialize_grads(False)
        # A matrix with one column would go to another routine for one network than for several.
        return Z[-1], (Z[-1] * w.mT).sum(dim=2) + c[:, 0]

    @staticmethod
    def backward(ctx: Any, dZ: Tensor | None, df: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient in the layout of `flat`."""
        flat, *Z = ctx.saved_tensors
        grad = torch.zeros_like(flat)
        weights, gradients = ctx.architecture.layers(flat), ctx.architecture.layers(grad)
        df = df[:, :, None]
        dw, dc = gradients[-1]
        torch.sum(Z[-1] * df, dim=1, out=dw[:, :, 0])
        torch.sum(df, dim=1, keepdim=True, out=dc)
        delta = df * weights[-1][0].mT
        if dZ is not None:
            delta += dZ
        for k in range(len(weights) - 2, -1, -1):
            delta = _selu_gradient(delta, Z[k + 1])
            dW, db = gradients[k]
            multiply(Z[k].mT, delta, dW)
            torch.sum(delta, dim=1, keepdim=True, out=db)
            if k:
                delta = multiply(delta, weights[k][0].mT, apart_like(Z[k]))
        return grad, None, None


def _selu_(A: Tensor) -> Tensor:
    """Return SELU of A, written over A; the exponential is several times faster than expm1."""
    negative = torch.clamp(A, max=0, out=apart_like(A))
    negative.exp_().sub_(1).mul_(SELU_SCALE * SELU_ALPHA)
    return A.clamp_(min=0).mul_(SELU_SCALE).add_(negative)


def _selu_gradient(delta: Tensor, Z: Tensor) -> Tensor:
    """Return the gradient before SELU, from the one behind it with SELU's own output."""
    return torch.ops.aten.elu_backward.grad_input(
        delta, SELU_ALPHA, SELU_SCALE, 1.0, True, Z, grad_input=apart_like(Z)
    )


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
