"""Training of several networks at once by PyTorch, in one stack of weights.

The networks of a stack differ in the penalty on dependence only. Elementwise operations run over
the whole stack, which makes training several times faster. The result of a network does not depend
on the other networks of its stack, in any bit, because

- matrices are multiplied one network at a time, by the same routine for any number of networks;
- the arrays of each network start at a vector register and end with a gap, so that the same
  instructions process the same elements: the last elements of an array can be rounded differently;
- training runs on one thread.
"""

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

# The last hidden layer (M, b, w), output (M, b) and sensitive columns (b, l) of a batch are mapped
# to one differentiable value per network, (M,).
Dependence = Callable[[Tensor, Tensor, Tensor], Tensor]
# Returns the rows at some positions.
TakeRows = Callable[[IntArray], Array]

# PyTorch aligns every new array to this many bytes, the width of the widest vector register.
_ALIGNMENT = 64
# A number of elements that fills whole registers in any precision, also several at once.
_REGISTERS = 64
# A density estimate from fewer rows is noise. They are added to the batch before.
SMALLEST_BATCH = 32
# Added to standard deviations, so that an almost constant prediction does not divide by zero.
LEAST_DEVIATION = 1e-9
# Keeps the derivative of the square root finite if two distributions coincide.
LEAST_DISCREPANCY = 1e-12


@dataclass(frozen=True)
class Recipe:
    """Widths of the hidden layers, length of the training, parameters of Adam."""

    widths: tuple[int, ...]
    epochs: int
    batch_rows: int
    learning_rate: float
    weight_decay: float


def train(
    X: Array | TakeRows,
    y: Array,
    S: Array,
    *,
    penalties: Sequence[float],
    dependence: Dependence,
    recipe: Recipe,
    seed: int,
    dtype: torch.dtype = torch.float32,
    watch: Callable[[int, Tensor], None] | None = None,
) -> list[Perceptron]:
    """Return one network per penalty that minimises mean squared error + penalty·dependence.

    All networks start from the same weights and see the same batches.

    Parameters
    ----------
    X, y, S
        Training rows (n, d), or a function that returns the rows at some positions and is called
        for a few batches at a time; target (n,), sensitive columns (n, l).
    penalties
        The weight of dependence in the loss of each network.
    dependence
        Dependence of a batch.
    recipe, seed
        How to train; seed of the initial weights and of the order of rows.
    dtype
        Precision of the training. The weights are returned in float64.
    watch
        Called after each epoch with its number and the losses (M,) of its last batch.
    """
    parts = [_rows_at(A, dtype) for A in (X, y, S)]
    n, d = len(y), parts[0](torch.arange(1)).shape[1]
    architecture = Architecture((d, *recipe.widths, 1))
    rng = torch.Generator().manual_seed(seed)
    flat = architecture.initial(rng).to(dtype).repeat(len(penalties), 1).requires_grad_()
    adam = torch.optim.Adam(
        [flat], lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
    )
    weights = torch.tensor(penalties, dtype=dtype)
    with one_thread(), denormals_are_zero():
        for epoch in range(recipe.epochs):
            order = torch.randperm(n, generator=rng)
            for x, t, s in _batches(order, batch_sizes(n, recipe.batch_rows), parts):
                Z, f = Forward.apply(flat, x, architecture)
                losses = (f - t).square().mean(dim=1) + weights * dependence(Z, f, s)
                adam.zero_grad()
                losses.sum().backward()
                adam.step()
            if watch is not None:
                watch(epoch, losses.detach())
    return architecture.perceptrons(flat)


def batch_sizes(n: int, batch_rows: int) -> list[int]:
    """Return the sizes of the batches of n rows. A small rest is added to the last full batch."""
    full, rest = divmod(n, batch_rows)
    sizes = [batch_rows] * full
    if rest and (rest >= min(SMALLEST_BATCH, batch_rows) or not full):
        return [*sizes, rest]
    return [*sizes[:-1], batch_rows + rest]


def _rows_at(A: Array | TakeRows, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Return a function that returns the rows of A at some positions in a precision."""
    if callable(A):
        return lambda positions: torch.tensor(A(positions.numpy()), dtype=dtype)
    return torch.tensor(A, dtype=dtype).__getitem__


def _batches(
    order: Tensor, sizes: Sequence[int], parts: Sequence[Callable[[Tensor], Tensor]]
) -> Iterator[tuple[Tensor, ...]]:
    """Yield the batches of an epoch. Rows are gathered for a few batches at a time."""
    chunks = [sizes[i : i + TAKEN_BATCHES] for i in range(0, len(sizes), TAKEN_BATCHES)]
    for positions, chunk in zip(order.split([sum(c) for c in chunks]), chunks, strict=True):
        yield from zip(*(rows_at(positions).split(chunk) for rows_at in parts), strict=True)


_lock = Lock()
_thread_counts: list[int] = []  # the count to restore, once per open block


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the block on one thread, so that its result is reproducible.

    The count belongs to the process. Blocks of several threads may overlap, and the last one that
    ends restores the count.
    """
    with _lock:
        _thread_counts.append(_thread_counts[0] if _thread_counts else torch.get_num_threads())
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            before = _thread_counts.pop()
            if not _thread_counts:
                torch.set_num_threads(before)


@contextmanager
def denormals_are_zero() -> Iterator[None]:
    """Run the block with denormal numbers replaced by zero, on this thread only.

    Weight decay shrinks the weights of idle units exponentially. After some hundred epochs they
    are denormal, and processors are ten times slower with denormal numbers.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def chi2(f: Tensor, S: Tensor) -> Tensor:
    """Return chi-squared of each network's output with S, the mean over sensitive columns.

    It is computed from the density estimate of Mary et al. (2019) and bounds HGR² from above, see
    `fkd.measures.hgr`. The kernel is separable: the g x g density is a product of g x b matrices.
    Its normalisation cancels.

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
    A = exponential(_log_bumps(centers, _standardised(f), h))  # (M, g, b)
    B = _log_bumps(centers, _standardised(S.T), h).exp().reshape(l * g, b)
    P = product(A, B.T.expand(len(f), b, l * g), None).view(-1, g, l, g)
    P = P + DAMPING * b * h * math.sqrt(2 * math.pi)
    rows, columns = P.sum(dim=3, keepdim=True), P.sum(dim=1, keepdim=True)
    return (P.square() / rows / columns).sum(dim=(1, 3)).mean(dim=1) - 1


def _standardised(U: Tensor) -> Tensor:
    """Return the rows of U with mean 0 and standard deviation 1."""
    return (U - U.mean(dim=1, keepdim=True)) / (U.std(dim=1, keepdim=True) + LEAST_DEVIATION)


def _log_bumps(centers: Tensor, U: Tensor, h: float) -> Tensor:
    """Return -(c - u)² / 2h² for each row of U, (rows, g, b)."""
    return ((centers[:, None] - U[:, None, :]) / h).square() * -0.5


def eipm(Z: Tensor, S: Tensor, *, bandwidth_s: float, bandwidth_z: float) -> Tensor:
    """Return the mean over rows of MMD(Z near s, all Z) for each network.

    This is the integral probability metric of Kong et al. (2025). Each row compares the other rows,
    weighted by the closeness of their s, with all rows. The row itself has weight 0: with a small
    bandwidth it would otherwise be the only one near its s.

    Parameters
    ----------
    Z
        Representations of a batch by M networks, (M, b, w).
    S
        Sensitive columns of the batch, (b, l).
    bandwidth_s, bandwidth_z
        Standard deviations of the Gaussian kernels on S and on Z.

    Returns
    -------
    Tensor
        One value per network, (M,), at most sqrt(2).
    """
    M, b, _ = Z.shape
    near = (S[:, None] - S).square().sum(dim=2) / (-2 * bandwidth_s**2)
    R = near.fill_diagonal_(-torch.inf).softmax(dim=1) - 1 / b
    # Centred first, so that a common offset costs the squared distances no digits.
    Z = (Z - Z.mean(dim=1, keepdim=True)) / bandwidth_z
    half = Z.square().sum(dim=2) / 2
    K = exponential(product(Z, Z.mT, -(half[:, :, None] + half[:, None, :])))
    squared = (product(R.expand(M, b, b), K, None) * R).sum(dim=2)
    return squared.clamp(min=LEAST_DISCREPANCY).sqrt().mean(dim=1)


@dataclass(frozen=True)
class Architecture:
    """Sizes of the fully connected layers: inputs, hidden widths, one output.

    The weights of M networks are an array `flat` (M, length).
    """

    sizes: tuple[int, ...]

    @property
    def length(self) -> int:
        """The number of weights, padded to whole vector registers."""
        plain = sum((i + 1) * o for i, o in pairwise(self.sizes))
        return -(-plain // _REGISTERS) * _REGISTERS

    def layers(self, flat: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return weights (M, i, o) and biases (M, 1, o) of each layer as views of `flat`."""
        views, start = [], 0
        for i, o in pairwise(self.sizes):
            middle, end = start + i * o, start + (i + 1) * o
            W, b = flat[:, start:middle].view(-1, i, o), flat[:, middle:end].view(-1, 1, o)
            views.append((W, b))
            start = end
        return views

    def initial(self, rng: torch.Generator) -> Tensor:
        """Return the weights (1, length) of one network, drawn like PyTorch's linear layers."""
        flat = torch.zeros(1, self.length)
        for W, b in self.layers(flat):
            bound = W.shape[1] ** -0.5
            # PyTorch stores weights transposed. In its order equal seeds give equal networks.
            W.copy_(torch.empty(*W.mT.shape).uniform_(-bound, bound, generator=rng).mT)
            b.uniform_(-bound, bound, generator=rng)
        return flat

    def perceptrons(self, flat: Tensor) -> list[Perceptron]:
        """Return each network of the stack as plain arrays."""
        layers = [(W.numpy(), b.numpy()) for W, b in self.layers(flat.detach().double())]
        return [
            Perceptron(
                tuple(W[k].copy() for W, _ in layers), tuple(b[k, 0].copy() for _, b in layers)
            )
            for k in range(len(flat))
        ]


class Forward(torch.autograd.Function):
    """Last hidden layer and output of every network on one batch, with an explicit gradient.

    It takes half the time of automatic differentiation, which stores the input of SELU too and
    collects the gradients of views in one array.
    """

    @staticmethod
    def forward(
        ctx: Any, flat: Tensor, X: Tensor, architecture: Architecture
    ) -> tuple[Tensor, ...]:
        """Return Z (M, b, w) and f (M, b) of rows X (b, d)."""
        *hidden, (w, c) = architecture.layers(flat)
        Z = [X.expand(len(flat), *X.shape)]
        for W, b in hidden:
            A = empty_stack((len(flat), len(X), W.shape[2]), flat.dtype)
            Z.append(_selu_(multiply(Z[-1], W, A, plus=b)))
        ctx.save_for_backward(flat, *Z)
        ctx.architecture = architecture
        ctx.set_materialize_grads(False)
        # A product with a matrix of one column uses another routine for one network than for
        # several.
        return Z[-1], (Z[-1] * w.mT).sum(dim=2) + c[:, 0]

    @staticmethod
    def backward(ctx: Any, dZ: Tensor | None, df: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient by `flat`."""
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
                delta = multiply(delta, weights[k][0].mT, empty_stack(Z[k].shape, Z[k].dtype))
        return grad, None, None


def _selu_(A: Tensor) -> Tensor:
    """Return SELU of A, written over A. The exponential is several times faster than expm1."""
    negative = torch.clamp(A, max=0, out=empty_stack(A.shape, A.dtype))
    negative.exp_().sub_(1).mul_(SELU_SCALE * SELU_ALPHA)
    return A.clamp_(min=0).mul_(SELU_SCALE).add_(negative)


def _selu_gradient(delta: Tensor, Z: Tensor) -> Tensor:
    """Return the gradient by the input of SELU, from that by its output and the output Z."""
    return torch.ops.aten.elu_backward.grad_input(
        delta, SELU_ALPHA, SELU_SCALE, 1.0, True, Z, grad_input=empty_stack(Z.shape, Z.dtype)
    )


def empty_stack(
    shape: Sequence[int], dtype: torch.dtype, strides: Sequence[int] | None = None
) -> Tensor:
    """Return an empty array (M, i, j) of M matrices that start at registers and end with a gap.

    `strides` are those within a matrix, by default those of rows.
    """
    _, i, j = shape
    step = (i * j // _REGISTERS + 1) * _REGISTERS  # above i·j: there is a gap for any size
    return torch.empty_strided(shape, (step, *(strides or (j, 1))), dtype=dtype)


def aligned(A: Tensor) -> Tensor:
    """Return A, or a copy with the same order of rows and columns, with matrices at registers."""
    M, i, j = A.shape
    step, *strides = A.stride()
    dense = strides in ([j, 1], [1, i])
    # The step of a single matrix has no meaning.
    whole = M == 1 or step * A.itemsize % _ALIGNMENT == 0
    if dense and whole and A.data_ptr() % _ALIGNMENT == 0:
        return A
    return empty_stack(A.shape, A.dtype, strides if dense else None).copy_(A)


def multiply(A: Tensor, B: Tensor, out: Tensor, *, plus: Tensor | None = None) -> Tensor:
    """Write A B, or `plus` + A B, of each network to `out`: (M, i, k) times (M, k, j).

    The operands must be `aligned`. Matrices are multiplied one at a time, since PyTorch passes
    batches of one matrix, or of results with gaps, to other routines than other batches.
    """
    operands = (A, B, out) if plus is None else (A, B, out, plus)
    # Without gradients, splitting costs half as much by `unsafe_chunk`.
    parts = [[T] if len(out) == 1 else T.unsafe_chunk(len(out)) for T in operands]
    for a, b, o, *c in zip(*parts, strict=True):
        if c:
            torch.baddbmm(c[0], a, b, out=o)
        else:
            torch.bmm(a, b, out=o)
    return out


class _Product(torch.autograd.Function):
    """A B + plus of each network, or A B if plus is None, with its gradient."""

    @staticmethod
    def forward(ctx: Any, A: Tensor, B: Tensor, plus: Tensor | None) -> Tensor:
        """Return the products (M, i, j)."""
        A, B = aligned(A), aligned(B)
        ctx.save_for_backward(A, B)
        return multiply(A, B, empty_stack((*A.shape[:2], B.shape[2]), A.dtype), plus=plus)

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients by A, B and plus."""
        A, B = ctx.saved_tensors
        G = aligned(G)
        by_A, by_B, by_plus = ctx.needs_input_grad
        return (
            multiply(G, B.mT, empty_stack(A.shape, A.dtype)) if by_A else None,
            multiply(A.mT, G, empty_stack(B.shape, B.dtype)) if by_B else None,
            G if by_plus else None,
        )


class _Exponential(torch.autograd.Function):
    """exp(A) of each network with its gradient."""

    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Tensor:
        """Return the exponentials in the shape of A."""
        E = torch.exp(aligned(A), out=empty_stack(A.shape, A.dtype))
        ctx.save_for_backward(E)
        return E

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> Tensor:
        """Return the gradient by A."""
        (E,) = ctx.saved_tensors
        return G * E


product, exponential = _Product.apply, _Exponential.apply
