"""A fair network as one would write it first: one at a time, with the density as one tensor."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from fkd.baselines.network_training import LEAST_DEVIATION, Recipe, batch_sizes


def density_chi2(f: Tensor, s: Tensor, damping: float = 1e-10) -> Tensor:
    """Return chi-squared of (f, s) from a kernel density over all g x g x b differences."""
    b = len(f)
    h = b ** (-1 / 6)
    centers = torch.linspace(-2.5, 2.5, int(min(50, 5 / h)), dtype=f.dtype)
    grid = torch.stack(torch.meshgrid(centers, centers, indexing="ij"), dim=-1)
    data = torch.stack([_standard(f), _standard(s)], dim=-1)
    squared = (grid[:, :, None, :] - data).square().sum(dim=-1)  # (g, g, b)
    P = torch.exp(-squared / (2 * h**2)).mean(dim=-1) / (np.sqrt(2 * np.pi) * h) + damping
    P = P / P.sum()
    Q = P / torch.sqrt(P.sum(dim=1, keepdim=True) * P.sum(dim=0, keepdim=True))
    return Q.square().sum() - 1


def _standard(u: Tensor) -> Tensor:
    """Return u with mean zero, standard deviation one."""
    return (u - u.mean()) / (u.std() + LEAST_DEVIATION)


def plain_loop(
    X: np.ndarray,
    y: np.ndarray,
    S: np.ndarray,
    *,
    price: float,
    recipe: Recipe,
    seed: int,
    dtype: torch.dtype,
    watch: Callable[[int, Tensor], None],
) -> None:
    """Train one network; `watch` hears after each epoch the loss of its last batch."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for i, o in pairwise((X.shape[1], *recipe.widths)):
        layers += [nn.Linear(i, o), nn.SELU()]
    net = nn.Sequential(*layers, nn.Linear(recipe.widths[-1], 1)).to(dtype)
    adam = torch.optim.Adam(
        net.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    x, t, s = (torch.tensor(A, dtype=dtype) for A in (X, y, S[:, 0]))
    for epoch in range(recipe.epochs):
        for rows in torch.randperm(len(x)).split(batch_sizes(len(x), recipe.batch_rows)):
            f = net(x[rows])[:, 0]
            loss = (f - t[rows]).square().mean() + price * density_chi2(f, s[rows])
            adam.zero_grad()
            loss.backward()
            adam.step()
        watch(epoch, loss.detach())
