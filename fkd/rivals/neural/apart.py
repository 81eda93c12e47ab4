"""Arrays of several networks whose numbers are those that each network would have alone.

A processor's library may round by where an array begins in memory, or by where its last numbers
fall into a vector register. Networks of a stack hence begin at whole registers, with a gap behind
each, so that no operation runs from one into the next: it treats each like the only one.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

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
