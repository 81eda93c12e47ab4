"""A bound from below on what any weights of a machine could reach, beside what its weights do."""

import numpy as np

from fkd.core.arrays import Array
from fkd.core.machines.iteration import Scales
from fkd.core.machines.machine_rows import MachineRows, RowPiece, panel_product


def objectives(
    rows: MachineRows, scales: Scales, W: Array, B: Array, b: Array
) -> tuple[Array, Array]:
    """Return primal (k,) and dual (k,) objectives of every machine at work, in double precision.

    The dual point is the iteration's multipliers a, which the loss keeps within [-C, C], in the
    half of the larger sum scaled down until their sum is 0, as a free constant wants it. Any such
    a bounds the objective from below by -½|P^½ Gᵀa|² - aᵀy - Σ sup{a x: x in the tube}.

    Parameters
    ----------
    rows, scales
        What is known of the rows, numbers of the machines.
    W, B, b
        Weights w of the fair features (r, k), the same on plain ones P^½ w (r, k), constants (k,).
    """
    shares = _balancing(rows, scales)
    losses, linear = np.zeros(len(b)), np.zeros(len(b))
    products = np.zeros_like(B)
    for block in rows.blocks():
        crew = block.crew
        own, weights, sums = scales.of(crew), B[:, crew], np.zeros((len(B), len(crew)))
        for piece in block.pieces:
            y, loss = piece.y - scales.level, own.loss(piece, np.float64, scaled=False)
            a = _multipliers(piece, own)
            a *= np.where(a > 0, shares[0, crew], shares[1, crew])
            G = piece.G.astype(np.float64)
            losses[crew] += loss.total(panel_product(G, weights) + b[crew] - y[:, None])
            linear[crew] += loss.support(a) + (a * y[:, None]).sum(axis=0)
            sums += panel_product(G.T, a)
        products[:, crew] += sums
    pairs = zip(rows.machines, products.T[:-1], strict=True)
    left = [machine.removed.features(h[None, :])[0] for machine, h in pairs]
    halves = np.array([float(h @ h) / 2 for h in left])
    squares = np.einsum("ij,ij->j", W, W)
    return squares[:-1] / 2 + losses[:-1], -halves - linear[:-1]


def _multipliers(piece: RowPiece, own: Scales) -> Array:
    """Return the multipliers of some rows under their machines, within [-C, C]."""
    p = piece.p.astype(np.float64)
    u = own.loss(piece, np.float64).multipliers(p, np.empty_like(p))
    most = own.loss(piece, np.float64, scaled=False).most
    u *= own.rho
    np.maximum(u, -most, out=u)
    return np.asarray(np.minimum(u, most, out=u))


def _balancing(rows: MachineRows, scales: Scales) -> Array:
    """Return the factors of positive, of negative multipliers with which their sum is 0, (2, k)."""
    sums = np.zeros((2, len(scales.C)))
    for block in rows.blocks(features=False):
        own = scales.of(block.crew)
        for piece in block.pieces:
            a = _multipliers(piece, own)
            halves = np.maximum(a, 0.0).sum(axis=0), np.maximum(-a, 0.0).sum(axis=0)
            sums[:, block.crew] += halves
    return np.asarray(sums.min(axis=0) / np.where(sums > 0, sums, 1.0))
