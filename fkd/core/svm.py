"""Losses that are zero on an interval, linear beyond it.

With x = f - y the loss is C times the distance of x from [low, high]: the tube [-epsilon, epsilon]
of regression, [0, inf) or (-inf, 0] of a hinge for a row of class 1 or -1.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

import numpy as np

from fkd.core.arrays import AnyArray, Array, IntArray, row_blocks
from fkd.core.linalg import EPS, project
from fkd.core.moments import Moments
from fkd.core.removal import Directions
from fkd.core.ridge import fair_factor
from fkd.core.validation import not_negative, positive, whole

Loss = Literal["tube", "hinge"]


@dataclass(frozen=True)
class MarginLoss:
    """The losses of some rows under several machines, in one precision."""

    low: AnyArray  # (k,) of each machine, or (rows, 1)
    high: AnyArray
    most: AnyArray  # C over the scale of the multipliers, (k,) or (rows, k)

    @classmethod
    def of(
        cls, kind: Loss, y: AnyArray, epsilon: Array, most: Array, weights: Array | None
    ) -> "MarginLoss":
        """Return the losses of rows y in the precision of y.

        Parameters
        ----------
        kind, y, epsilon
            Which loss; targets (rows,), half widths of the tube (k,).
        most, weights
            Greatest multiplier of a row (k,), factors of it (rows,) or None.
        """
        limits = most if weights is None else weights[:, None] * most
        if kind == "tube":
            low, high = -epsilon, epsilon
        else:
            low = np.where(y > 0, 0.0, -np.inf)[:, None]
            high = np.where(y > 0, np.inf, 0.0)[:, None]
        return cls(*(part.astype(y.dtype, copy=False) for part in (low, high, limits)))

    def multipliers(self, p: AnyArray, out: AnyArray) -> AnyArray:
        """Return u = p - prox(p), which is the loss's slope at prox(p), written to `out`."""
        # Bounds of a column each: np.clip takes five times as long as the two halves of it.
        np.maximum(p, self.low, out=out)
        np.minimum(out, self.high, out=out)
        np.subtract(p, out, out=out)
        np.maximum(out, -self.most, out=out)
        return np.asarray(np.minimum(out, self.most, out=out))

    def total(self, x: Array) -> Array:
        """Return the sum over rows of each machine's loss at x = f - y, (k,)."""
        distance = np.abs(x - np.clip(x, self.low, self.high))
        return np.asarray((self.most * distance).sum(axis=0))

    def support(self, a: Array) -> Array:
        """Return the sum over rows of sup a·x over x in [low, high], (k,).

        Multipliers of a hinge have the sign for which that is 0.
        """
        low, high = (np.where(np.isinf(side), 0.0, side) for side in (self.low, self.high))
        return np.asarray(np.maximum(a * low, a * high).sum(axis=0))


# Of the loss of a constant, an objective that is as good as 0: its digits are rounding's.
NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class Machine:
    """One support vector machine: min ½|w|² + C Σ loss over the rows of a fold.

    Its weights w act on the fair features G P^½ that `removed` leaves, beside a free constant.
    """

    C: float
    removed: Directions
    epsilon: float = 0.0  # half width of the tube; the hinge has none
    fold: int = 0  # whose rows it is trained on

    def __post_init__(self) -> None:
        """Refuse what would be no machine."""
        positive("C", self.C)
        not_negative("epsilon", self.epsilon)


class MachineOutcome(Enum):
    """How a machine came out; the text is what to do about it."""

    CERTIFIED = "its duality gap is certified, nothing is to be done"
    SPENT = "lower C; where max_iter and tol are yours to set, raise one of them"


@dataclass(frozen=True)
class Solution:
    """A machine's weights with the two numbers that say how good they are.

    No weights have an objective below `dual`, these have `primal`: the distance of the two, by the
    larger of their magnitudes, is the relative gap. Where both are next to nothing beside the loss
    of a constant, as within a tube that holds all targets, it is taken by a share of that.
    """

    w: Array  # weights of the fair features, (r,)
    beta: Array  # P^½ w, (r,): f(x) = G(x)·beta + intercept
    intercept: float
    primal: float
    dual: float
    unit: float  # C times rows times the deviation of the target
    iterations: int
    outcome: MachineOutcome

    @property
    def gap(self) -> float:
        """(primal - dual) / max(|primal|, |dual|, `NEGLIGIBLE` unit)."""
        size = max(abs(self.primal), abs(self.dual), NEGLIGIBLE * self.unit)
        return (self.primal - self.dual) / size


def complaint(machines: Sequence[tuple[str, Solution]], tol: float) -> str | None:
    """Return which of several named machines missed the gap, as a sentence with its cure."""
    missed = [(name, found) for name, found in machines if found.outcome is MachineOutcome.SPENT]
    if not missed:
        return None
    name, worst = max(missed, key=lambda pair: pair[1].gap)
    others = f" ({len(missed)} of {len(machines)} machines miss theirs)" if len(missed) > 1 else ""
    return (
        f"the relative duality gap of {name} must fall to {tol:g}, but was {worst.gap:.2g} after "
        f"{worst.iterations} iterations{others}; {worst.outcome.value}"
    )


@dataclass(frozen=True)
class RowBlock:
    """Features of some rows with their target, all of them in the same folds.

    Rows that different machines are trained on stand in different blocks: a machine skips the
    blocks that are not its own, instead of multiplying by zeros.
    """

    G: AnyArray  # (k, r), single or double precision
    y: Array  # (k,); -1 or 1 for a hinge
    folds: tuple[int, ...] = (0,)
    weights: Array | None = None  # (k,), factors of C; None is 1 of each


# Each call yields the same blocks in the same order.
Source = Callable[[], Iterable[RowBlock]]


Precision = type[np.floating[Any]]
# Rows that are worked on at a time: what they need stays in the level-2 cache.
PASS_ROWS = 512
# Machines are columns, padded to a multiple of this width and multiplied in panels of it. A BLAS
# may round a column differently in a matrix of another width, or at another place in a wide one
# (OpenBLAS: single precision on Haswell and Zen, small matrices with AVX-512). In panels of 16 the
# numbers of a machine do not depend on the others.
WIDTH = 16


@dataclass
class _Block:
    """A block of rows between two passes."""

    y: Array  # (k,)
    weights: Array | None  # (k,)
    crew: IntArray  # the machine of each column, (w,)
    p: AnyArray  # (k, w): fitted value + scaled multiplier - y, from which both follow


@dataclass(frozen=True)
class RowPiece:
    """Some rows of a block, as views: writing to `p` changes what is known of them."""

    G: AnyArray  # (k, r); no rows where features were not asked for
    y: Array
    weights: Array | None
    p: AnyArray


@dataclass(frozen=True)
class CrewRows:
    """Rows with the machines that are at work on them, in pieces."""

    crew: IntArray  # the machine of each column
    pieces: Iterable[RowPiece]


class MachineRows:
    """All rows of a source, one number for each of their machines.

    Parameters
    ----------
    source, machines
        Rows, those that are trained on them.
    dtype
        Precision of what is kept of each row.
    """

    def __init__(self, source: Source, machines: Sequence[Machine], dtype: Precision) -> None:
        self.source, self.machines, self.dtype = source, machines, dtype
        self._blocks: list[_Block] = []
        for block in source():
            crew = self._crew(block, np.ones(len(machines), dtype=bool))
            p: AnyArray = np.zeros((len(block.y), len(crew)), dtype=dtype)
            self._blocks.append(_Block(block.y, block.weights, crew, p))

    def _crew(self, block: RowBlock, active: AnyArray) -> IntArray:
        """Return the machines that a block trains, filled up by one that is none."""
        found = [j for j, m in enumerate(self.machines) if active[j] and m.fold in block.folds]
        return filled(np.array(found, dtype=np.intp), len(self.machines))

    def count(self) -> IntArray:
        """Return how many rows each machine has."""
        found = np.zeros(len(self.machines) + 1, dtype=np.intp)
        for block in self._blocks:
            found[block.crew] += len(block.y)
        return found[:-1]

    def level(self) -> float:
        """Return the mean target of the first rows: from it, targets lose few digits."""
        return float(self._blocks[0].y[:PASS_ROWS].mean(axis=0))

    def blocks(self, *, features: bool = True) -> Iterator[CrewRows]:
        """Yield all rows that a machine is at work on, in order, with their features or without."""
        blocks = self.source() if features else [None] * len(self._blocks)
        for block, known in zip(blocks, self._blocks, strict=True):
            if len(known.crew):
                yield CrewRows(known.crew, _pieces(known, None if block is None else block.G))

    def let_go(self, active: AnyArray) -> None:
        """Forget the rows of machines that are done, where that makes matrices narrower."""
        for known in self._blocks:
            stay = np.flatnonzero(np.append(active, False)[known.crew])
            crew = filled(known.crew[stay], len(self.machines))
            if len(crew) < len(known.crew):
                p = np.zeros((len(known.y), len(crew)), dtype=known.p.dtype)
                p[:, : len(stay)] = known.p[:, stay]
                known.crew, known.p = crew, p


def _pieces(known: _Block, G: AnyArray | None) -> Iterator[RowPiece]:
    """Yield the rows of a block, some at a time."""
    for rows in row_blocks(len(known.y), PASS_ROWS):
        weights = None if known.weights is None else known.weights[rows]
        features = np.empty((0, 0)) if G is None else G[rows]
        yield RowPiece(features, known.y[rows], weights, known.p[rows])


def filled(columns: IntArray, none: int) -> IntArray:
    """Return columns filled up to a multiple of `WIDTH` by one that stands for none."""
    return np.append(columns, np.full(-len(columns) % WIDTH, none))


def panel_product(A: AnyArray, B: AnyArray) -> AnyArray:
    """Return A @ B, `WIDTH` columns of B at a time."""
    product: AnyArray = np.empty((len(A), B.shape[1]), dtype=np.result_type(A, B))
    for panel in row_blocks(B.shape[1], WIDTH):
        np.matmul(A, B[:, panel], out=product[:, panel])
    return product


@dataclass(frozen=True)
class FoldBasis:
    """Centred moments of a fold's rows in their eigenbasis, in which every penalty is a number."""

    n: int
    mean: Array  # of the features, (r,)
    values: Array  # eigenvalues of the centred GᵀG, (r,)
    vectors: Array  # (r, r)
    start: Array  # Qᵀ Gᵀ(y - mean y), (r,)
    level: float  # mean y
    deviation: float  # of y, 1 where it is constant

    @classmethod
    def of(cls, moments: Moments) -> "FoldBasis":
        """Return the basis of moments; one eigendecomposition."""
        C, c = moments.normal_equations(fit_intercept=True)
        values, Q = np.linalg.eigh(C)
        n, level = round(moments.n), moments.y / moments.n  # each row counts once here
        deviation = float(np.sqrt(max(moments.yy / n - level**2, 0.0)))
        # Of a constant rounding may leave some.
        varies = deviation > np.sqrt(EPS) * abs(level)
        values = np.maximum(values, 0.0)
        found = deviation if varies else 1.0
        return cls(n, moments.g / n, values, Q, Q.T @ c, level, found)


@dataclass
class FairStep:
    """beta = (C + a·P⁻¹)⁻¹ t of one machine in the eigenbasis of C, a changing as it goes.

    With a = 1/rho that is the minimum of ½|w|² + rho/2 |G beta - v|² for t = Gᵀv, all centred.
    """

    basis: FoldBasis
    removed: Directions  # in the eigenbasis
    a: float = 0.0
    W: Array = field(default_factory=lambda: np.empty((0, 0)))

    @classmethod
    def of(cls, basis: FoldBasis, removed: Directions) -> "FairStep":
        """Return the step of a machine on the features that `removed` leaves."""
        V = np.asfortranarray(basis.vectors.T @ removed.V)
        return cls(basis, Directions(V, removed.shares, removed.kept))

    def shift(self, a: float) -> None:
        """Take another a: division by the eigenvalues, a thin factor for what is removed."""
        DV = self.removed.V / (self.basis.values + a)[:, None]
        self.a, (self.W, _) = a, fair_factor(DV, a, self.removed, name="1 / C")

    def weights(self, t: Array) -> Array:
        """Return beta of t."""
        return np.asarray(t / (self.basis.values + self.a) - self.W @ (self.W.T @ t))

    def point(self, t: Array) -> tuple[Array, Array]:
        """Return w with beta = P^½ w of t, in the basis of the features.

        What is left of w along a direction is taken from the gradient: beta hardly has any of it
        where hardly anything is left, and dividing by that would divide rounding by it.
        """
        beta, V = self.weights(t), self.removed.V
        across = project(beta[None, :], V)[0]
        gradient = V.T @ (t - self.basis.values * beta) / self.a
        along = np.sqrt(self.removed.kept) * gradient
        beta = across + V @ (np.sqrt(self.removed.kept) * along)
        Q = self.basis.vectors
        return Q @ (across + V @ along), Q @ beta


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


# Passes between two certificates, of which one costs as much as two passes in single precision.
CHECK_EVERY = 10
# Passes between two changes of rho, until it stays: under one that never rests gaps hardly fall.
BALANCE_EVERY, BALANCE_UNTIL = 5, 50
# A change of rho costs a factor of what is removed: small ones are not worth it, large ones rash.
_LEAST_CHANGE, _MOST_CHANGE = 1.1, 5.0


class MachineBatch:
    """Over-relaxed ADMM of several machines.

    Parameters
    ----------
    rows, bases
        What is known of their rows, moments of each fold.
    kind
        Their loss.
    rho
        Where the scale of multipliers begins, (k,), one more standing for no machine.
    """

    def __init__(
        self, rows: MachineRows, bases: Sequence[FoldBasis], kind: Loss, rho: Array
    ) -> None:
        machines, none = rows.machines, 0.0
        self.rows, self.bases = rows, bases
        self.steps = [FairStep.of(bases[m.fold], m.removed) for m in machines]
        self.active = np.ones(len(machines), dtype=bool)
        C, epsilon = ([getattr(m, name) for m in machines] for name in ("C", "epsilon"))
        # The sign of a class must stay what it is.
        level = 0.0 if kind == "hinge" else rows.level()
        self.scales = Scales(kind, np.array([*C, none]), np.array([*epsilon, none]), rho, level)
        r, k = len(bases[0].mean), len(rho)
        self.B, self.b = np.zeros((r, k)), np.zeros(k)
        # Where all multipliers are 0 the fitted values aim at the target itself.
        self.T = np.stack([*(bases[m.fold].start for m in machines), np.zeros(r)], axis=1)
        self.means = np.array([*(bases[m.fold].level - level for m in machines), none])
        self._shift(np.ones(len(machines), dtype=bool))

    def solved(self, tol: float, max_iter: int) -> list[Solution]:
        """Return the solutions in the order of the machines."""
        found: dict[int, Solution] = {}
        rho = self.scales.rho
        for iteration in range(1, max_iter + 1):
            self._step()
            balance = iteration % BALANCE_EVERY == 0 and iteration < BALANCE_UNTIL
            sums = advance(self.rows, self.scales, self.B, self.b, rho, residuals=balance)
            self._aim(sums)
            changed, self.scales = rho != self.scales.rho, replace(self.scales, rho=rho)
            self._shift(changed[:-1])
            if iteration % CHECK_EVERY == 0 or iteration == max_iter:
                found |= self._certified(iteration, tol)
                if not self.active.any():
                    break
            if balance:
                rho = self._balanced(sums)
        return [found[j] for j in range(len(self.steps))]

    def _shift(self, changed: Array) -> None:
        """Let the steps of these machines know their rho."""
        for j in np.flatnonzero(changed & self.active):
            self.steps[j].shift(1.0 / float(self.scales.rho[j]))

    def _folds(self) -> Iterator[tuple[FoldBasis, IntArray]]:
        """Yield each fold with its machines that are at work, filled up as in every product."""
        folds = np.array([m.fold for m in self.rows.machines])
        for fold in np.unique(folds[self.active]):
            columns = np.flatnonzero(self.active & (folds == fold))
            yield self.bases[fold], filled(columns, len(folds))

    def _step(self) -> None:
        """Move the fitted values as close as |w|² lets them to what they aim at."""
        for basis, columns in self._folds():
            hats = np.zeros((len(basis.mean), len(columns)))
            for i, j in enumerate(columns[columns < len(self.steps)]):
                hats[:, i] = self.steps[j].weights(self.T[:, j])
            # Rounded as the pass will read them, so that the next step corrects it.
            B = panel_product(basis.vectors, hats).astype(self.rows.dtype).astype(np.float64)
            self.B[:, columns] = B
            self.b[columns] = self.means[columns] - basis.mean @ B

    def _aim(self, sums: PassSums) -> None:
        """Take what the fitted values aim at from a pass: their products with it, its mean."""
        for basis, columns in self._folds():
            B, totals, Q = self.B[:, columns], sums.totals[columns], basis.vectors
            away = sums.products[:, columns] - np.outer(basis.mean, totals)
            self.T[:, columns] = panel_product(Q.T, away) + basis.values[:, None] * panel_product(
                Q.T, B
            )
            self.means[columns] = self.b[columns] + basis.mean @ B + totals / basis.n

    def _balanced(self, sums: PassSums) -> Array:
        """Return rho under which both residuals would be alike."""
        with np.errstate(divide="ignore", invalid="ignore"):
            change = (sums.fitted / sums.moved) ** 0.25
        change = np.where(np.isfinite(change) & (change > 0), change, 1.0)
        change = np.clip(change, 1 / _MOST_CHANGE, _MOST_CHANGE)
        small = np.maximum(change, 1 / change) < _LEAST_CHANGE
        return np.where(small, 1.0, change) * self.scales.rho

    def _certified(self, iteration: int, tol: float) -> dict[int, Solution]:
        """Return what the machines at work have reached; those that met the gap rest."""
        chosen = np.flatnonzero(self.active)
        W, B, b = np.zeros_like(self.B), np.zeros_like(self.B), np.zeros_like(self.b)
        for j in chosen:
            W[:, j], B[:, j] = self.steps[j].point(self.T[:, j])
            b[j] = self.means[j] - float(self.steps[j].basis.mean @ B[:, j])
        primal, dual = objectives(self.rows, self.scales, W, B, b)
        found = {}
        for j in chosen:
            values = float(b[j]) + self.scales.level, float(primal[j]), float(dual[j])
            weights, basis = (W[:, j].copy(), B[:, j].copy()), self.steps[j].basis
            unit = float(self.scales.C[j]) * basis.n * basis.deviation
            solution = Solution(*weights, *values, unit, iteration, MachineOutcome.SPENT)
            if solution.gap <= tol:
                solution = replace(solution, outcome=MachineOutcome.CERTIFIED)
                self.active[j] = False
            found[int(j)] = solution
        self.rows.let_go(self.active)
        return found


# A relative gap that says enough of a machine's errors for choosing among machines.
GAP = 1e-3
ITERATIONS = 2000
# Below this gap the digits of single precision run out.
SINGLE_GAP = 1e-4
# What is kept of all rows under the machines of one batch; more of them come after these.
STATE_BYTES = 2**31


def solve_machines(
    source: Source,
    moments: Sequence[Moments],
    machines: Sequence[Machine],
    *,
    loss: Loss = "tube",
    tol: float = GAP,
    max_iter: int = ITERATIONS,
) -> list[Solution]:
    """Return the solution of each machine, in order; none depends on the others.

    Every pass over the rows is one iteration of all machines that are still at work: two products
    of a block's features with a matrix of machines. A machine is done when its relative duality
    gap, taken in double precision every few passes, is at most `tol`.

    Parameters
    ----------
    source
        Yields the rows anew for every pass.
    moments
        Those of each fold's rows under the same features.
    machines
        What is wanted.
    loss
        ``"tube"``, distances beyond epsilon from a number; ``"hinge"``, of classes -1 and 1.
    tol, max_iter
        The relative gap, the most passes. Look at the outcome: a machine that misses the gap
        within them is returned too.
    """
    tol, most = positive("tol", tol), whole("max_iter", max_iter, low=1)
    dtype: Precision = np.float32 if tol >= SINGLE_GAP else np.float64
    bases = [FoldBasis.of(fold) for fold in moments]
    found: list[Solution] = []
    for batch in _batches(machines, moments, np.dtype(dtype).itemsize):
        rows = MachineRows(source, batch, dtype)
        _check_counts(rows, moments)
        rho = np.array([m.C / bases[m.fold].deviation for m in batch] + [1.0])
        found += MachineBatch(rows, bases, loss, rho).solved(tol, most)
    return found


def _batches(
    machines: Sequence[Machine], moments: Sequence[Moments], size: int
) -> Iterator[list[Machine]]:
    """Yield machines in groups whose rows fit into memory together."""
    batch: list[Machine] = []
    held = 0
    for machine in machines:
        needed = size * round(moments[machine.fold].n)
        if batch and held + needed > STATE_BYTES:
            yield batch
            batch, held = [], 0
        batch.append(machine)
        held += needed
    if batch:
        yield batch


def _check_counts(rows: MachineRows, moments: Sequence[Moments]) -> None:
    """Refuse moments of other rows than those that will stream by."""
    for machine, count in zip(rows.machines, rows.count(), strict=True):
        if moments[machine.fold].n != count:
            raise ValueError(
                f"moments of fold {machine.fold} must be of the rows that the source yields for "
                f"it ({count}), got those of {moments[machine.fold].n}; sum the same rows"
            )


__all__ = ["Machine", "MachineOutcome", "RowBlock", "Solution", "Source", "solve_machines"]
