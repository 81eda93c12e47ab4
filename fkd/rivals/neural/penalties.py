"""Differentiable dependence between what networks say of a batch, or how they see it, with S."""

import math

import torch
from torch import Tensor

from fkd.measures.hgr import DAMPING, GRID_REACH, LARGEST_GRID
from fkd.rivals.neural.apart import exponential, product

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
