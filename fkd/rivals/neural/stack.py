"""Several networks of one shape, evaluated together."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from fkd.core.predictors import SELU_ALPHA, SELU_SCALE, Perceptron
from fkd.rivals.neural.apart import REGISTERS, apart, apart_like, multiply


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
