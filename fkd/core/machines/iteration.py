"""One pass of over-relaxed ADMM over all rows, for all machines at once."""

from dataclasses import dataclass, replace

import numpy as np

from fkd.core.arrays import AnyArray, Array, IntArray
from fkd.core.machines.machine_rows import MachineRows, Precision, RowPiece, panel_product
from fkd.core.machines.margin_loss import Loss, MarginLoss

# How far a step goes beyond the point that it aims at.
_OVER = 1.6


@dataclass(frozen=True)
class Scales:
    """Numbers of each machine, the last one standing for none."""

    kind: Loss
    C: Array
    epsilon: Array
    rho: Array  # multipliers are rho times the scaled ones
    level: float  # which targets are counted from

    def of(self, crew: IntArray) -> "Scales":
        """Return those of some machines, in this order."""
        return replace(self, C=self.C[crew], epsilon=self.epsilon[crew], rho=self.rho[crew])

    def loss(self, piece: RowPiece, dtype: Precision, *, scaled: bool = True) -> MarginLoss:
        """Return the losses of some rows, `scaled` as the multipliers of an iteration are."""
        y: AnyArray = piece.y.astype(dtype)
        most = self.C / self.rho if scaled else self.C
        return MarginLoss.of(self.kind, y, self.epsilon, most, piece.weights)


@dataclass(frozen=True)
class PassSums:
    """Sums over rows of what the next step needs, by machine."""

    products: Array  # Gᵀ(v - f), (r, k)
    totals: Array  # 1ᵀ(v - f), (k,)
    fitted: Array  # |f - z|², (k,)
    moved: Array  # |z - z before|², (k,)

    @classmethod
    def none(cls, r: int, k: int) -> "PassSums":
        """Return the sums over no rows."""
        return cls(np.zeros((r, k)), *(np.zeros(k) for _ in range(3)))

    def add(self, part: "PassSums", crew: IntArray) -> None:
        """Add those of some rows, whose columns are these machines."""
        for name in ("products", "totals", "fitted", "moved"):
            getattr(self, name)[..., crew] += getattr(part, name)


def advance(
    rows: MachineRows, scales: Scales, B: Array, b: Array, rho: Array, *, residuals: bool
) -> PassSums:
    """Return the sums after one iteration of every row, whose multipliers are then scaled by rho.

    With f the fitted values, z those that the loss prefers, u the scaled multipliers, a row knows
    p = z + u - y: z and u are the two parts into which the loss splits it. The step aims at
    v = z - u. Sums are taken of v - f, which is small where v itself is not: rounding of features
    then does not move the point at which the iteration rests.

    Parameters
    ----------
    rows, scales
        What is known of the rows, numbers of the machines.
    B, b
        Weights (r, k), constants (k,).
    rho
        The scale of multipliers from here on.
    residuals
        Whether to sum how far the iteration is from resting.
    """
    sums, dtype = PassSums.none(*B.shape), rows.dtype
    for block in rows.blocks():
        crew = block.crew
        part, ratio = PassSums.none(len(B), len(crew)), scales.rho[crew] / rho[crew]
        weights, constants = B[:, crew].astype(dtype), b[crew].astype(dtype)
        own = scales.of(crew)
        for piece in block.pieces:
            G = piece.G.astype(dtype, copy=False)
            x = panel_product(G, weights)
            x += constants
            x -= (piece.y - scales.level).astype(dtype)[:, None]
            aim = _moved(piece.p, x, own.loss(piece, dtype), ratio, part if residuals else None)
            part.products[:] += panel_product(G.T, aim)
            part.totals[:] += aim.sum(axis=0)
        sums.add(part, crew)
    return sums


def _moved(
    p: AnyArray, x: AnyArray, loss: MarginLoss, ratio: Array, residuals: PassSums | None
) -> AnyArray:
    """Return v - f of some rows after their p moved; x = f - y.

    Multipliers are scaled by `ratio` at last; `residuals` are summed where they are asked for.
    """
    dtype = p.dtype.type
    u = loss.multipliers(p, np.empty_like(p))
    z = p - u
    step = x - z
    step *= dtype(_OVER)
    p += step
    loss.multipliers(p, u)
    after: AnyArray = np.subtract(p, u, out=step)
    if (ratio != 1).any():
        u *= ratio.astype(dtype)
        np.add(after, u, out=p)
    if residuals is not None:
        z -= after
        residuals.moved[:] += np.einsum("ij,ij->j", z, z)
    after -= x
    if residuals is not None:
        residuals.fitted[:] += np.einsum("ij,ij->j", after, after)
    after -= u
    return after
