"""One pass of over-relaxed ADMM over all rows, for all machines at once."""

from dataclasses import dataclass

import numpy as np

from fkd.core.arrays import AnyArray, Array
from fkd.core.machines.machine_rows import MachineRows, Precision, RowPiece
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

    def loss(self, piece: RowPiece, dtype: Precision, *, scaled: bool = True) -> MarginLoss:
        """Return the losses of some rows, `scaled` as the multipliers of an iteration are."""
        C, rho, crew = self.C[piece.crew], self.rho[piece.crew], piece.crew
        y: AnyArray = piece.y.astype(dtype)
        most = C / rho if scaled else C
        return MarginLoss.of(self.kind, y, self.epsilon[crew], most, piece.weights)


@dataclass(frozen=True)
class PassSums:
    """Sums over rows of what the next step needs, by machine."""

    products: Array  # Gᵀ(v - f), (r, k)
    totals: Array  # 1ᵀ(v - f), (k,)
    fitted: Array  # |f - z|², (k,)
    moved: Array  # |z - z before|², (k,)


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
    r, k = B.shape
    sums = PassSums(np.zeros((r, k)), *(np.zeros(k) for _ in range(3)))
    ratio = scales.rho / rho
    for piece in rows.pieces():
        p, crew, dtype = piece.p, piece.crew, piece.p.dtype.type
        loss = scales.loss(piece, dtype)
        G = piece.G.astype(dtype, copy=False)
        x = G @ B[:, crew].astype(dtype)
        x += b[crew].astype(dtype)
        x -= (piece.y - scales.level).astype(dtype)[:, None]
        u = loss.multipliers(p, np.empty_like(p))
        z = p - u
        p += dtype(_OVER) * (x - z)
        loss.multipliers(p, u)
        after = p - u
        if (ratio[crew] != 1).any():
            u *= ratio[crew].astype(dtype)
            np.add(after, u, out=p)
        if residuals:
            z -= after
            sums.moved[crew] += np.einsum("ij,ij->j", z, z)
        after -= x
        if residuals:
            sums.fitted[crew] += np.einsum("ij,ij->j", after, after)
        after -= u
        sums.products[:, crew] += G.T @ after
        sums.totals[crew] += after.sum(axis=0)
    return sums
