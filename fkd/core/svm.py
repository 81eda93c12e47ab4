"""Many support vector machines on fair features, solved together in passes over the rows.

Problem
    A machine on the fair features F = G P^½ (`fkd.core.removal`) is

        min over w, b of ½|w|² + Σᵢ Cᵢ dist(xᵢ, Tᵢ),   x = F w + b - y.

    The loss is zero on the interval T and linear outside: [-epsilon, epsilon] for regression (the
    tube), [0, inf) or (-inf, 0] for the hinge of a row of class 1 or -1.

Iteration
    Over-relaxed ADMM with the splitting z = F w + b and scaled multipliers u = a / rho:

    - Rows: p = z + u - y is the only state of a row. u = clip(p - clip(p, T), ± C/rho) and
      z - y = p - u follow from it.
    - Weights: with beta = P^½ w, (C + P⁻¹/rho) beta = Gᵀ(z - u), all centred, which leaves the
      intercept free. Here C = GᵀG.

    All machines share the eigendecomposition of C. In that basis another rho only changes
    the numbers to divide by, and the removed directions are a correction of low rank, as in
    `fkd.core.ridge`. All machines share the passes: one pass computes f = G beta + b and
    Gᵀ(z - u - f), two products of each block of features with a matrix of one column per machine.
    The right-hand side is C beta + Gᵀ(z - u - f). The second term vanishes at the solution, so
    that rounding errors of C do not move it.

    rho starts at C / sd(y). Every `BALANCE_EVERY` passes it is multiplied by the square root of
    |f - z| / |z - z before|, the ratio of the primal to the dual residual, to keep them in balance.
    It stays constant after `BALANCE_UNTIL` passes, since gaps hardly fall while rho changes.

Certificate
    Any a with |aᵢ| ≤ Cᵢ and Σ aᵢ = 0 gives a lower bound on the objective, the dual objective

        D(a) = -½|P^½ Gᵀa|² - aᵀy - Σᵢ sup{aᵢ x : x in Tᵢ}.

    The multipliers of the iteration satisfy |aᵢ| ≤ Cᵢ. Either the positive or the negative ones
    are scaled down until the sum is 0. Primal and dual objective are computed in double precision
    every `CHECK_EVERY` passes. A machine is finished if their relative difference is at most
    `tol`: the objective of its weights is then that close to the minimum.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain
from typing import Literal

import numpy as np

from fkd.core.arrays import AnyArray, Array, IntArray, Precision, RowBlock, Source, row_blocks
from fkd.core.linalg import EPS, project
from fkd.core.moments import Moments
from fkd.core.removal import Directions
from fkd.core.ridge import fair_factor
from fkd.core.validation import not_negative, positive, whole

Loss = Literal["tube", "hinge"]

# Default relative gap: small enough to compare the errors of machines.
GAP = 1e-3
ITERATIONS = 2000
# Single precision cannot reach smaller gaps.
SINGLE_GAP = 1e-4
# Memory of the row states of one batch. Further machines are solved in a later batch.
STATE_BYTES = 2**31
# Objectives below this share of C n sd(y) count as this share: their digits are rounding errors.
NEGLIGIBLE = 1e-6
# Rows per chunk: the arrays of a chunk fit the level-2 cache.
CHUNK_ROWS = 512
# Machines are columns, padded to a multiple of this width and multiplied in panels of it. A BLAS
# may round a column differently in a matrix of another width, or at another place in a wide one
# (OpenBLAS: single precision on Haswell and Zen, small matrices with AVX-512). In panels of 16 the
# numbers of a machine do not depend on the others.
WIDTH = 16
# Factor of over-relaxation.
_RELAXATION = 1.6
# Passes between two certificates. A certificate costs as much as two passes in single precision.
CHECK_EVERY = 10
# Passes between two changes of rho, and the pass after which it stays constant.
BALANCE_EVERY, BALANCE_UNTIL = 5, 50
# A change of rho costs a factorisation for the removed directions: small changes are skipped, large
# ones limited.
_LEAST_CHANGE, _MOST_CHANGE = 1.1, 5.0


# Problem: loss, machine, solution.


@dataclass(frozen=True)
class MarginLoss:
    """Losses C dist(x, [low, high]) of some rows under several machines, in one precision."""

    low: AnyArray  # (k,) of each machine, or (rows, 1)
    high: AnyArray
    limits: AnyArray  # largest multiplier: C, or C / rho if scaled, (k,) or (rows, k)

    @classmethod
    def from_targets(
        cls, kind: Loss, y: AnyArray, epsilon: Array, limits: Array, weights: Array | None
    ) -> "MarginLoss":
        """Return the losses of rows with targets y, in the precision of y.

        Parameters
        ----------
        kind, y, epsilon
            Kind of loss, targets (rows,), half widths of the tube (k,).
        limits, weights
            Largest multiplier of a row (k,), factors of it (rows,) or None.
        """
        limits = limits if weights is None else weights[:, None] * limits
        if kind == "tube":
            low, high = -epsilon, epsilon
        else:
            low = np.where(y > 0, 0.0, -np.inf)[:, None]
            high = np.where(y > 0, np.inf, 0.0)[:, None]
        return cls(*(part.astype(y.dtype, copy=False) for part in (low, high, limits)))

    def multipliers(self, p: AnyArray, out: AnyArray) -> AnyArray:
        """Return u = p - prox(p), the slope of the loss at prox(p), written to `out`."""
        # np.clip with one bound per column takes five times as long as its two halves.
        np.maximum(p, self.low, out=out)
        np.minimum(out, self.high, out=out)
        np.subtract(p, out, out=out)
        np.maximum(out, -self.limits, out=out)
        return np.asarray(np.minimum(out, self.limits, out=out))

    def total(self, x: Array) -> Array:
        """Return the sum over rows of the loss at x = f - y, (k,)."""
        distance = np.abs(x - np.clip(x, self.low, self.high))
        return np.asarray((self.limits * distance).sum(axis=0))

    def support(self, a: Array) -> Array:
        """Return the sum over rows of sup{a x : x in [low, high]}, (k,).

        It is 0 for a hinge, whose multipliers have one sign.
        """
        low, high = (np.where(np.isinf(side), 0.0, side) for side in (self.low, self.high))
        return np.asarray(np.maximum(a * low, a * high).sum(axis=0))


@dataclass(frozen=True)
class Machine:
    """One support vector machine, with weights on the fair features and a free intercept."""

    C: float
    removed: Directions
    epsilon: float = 0.0  # half width of the tube; unused by the hinge

    def __post_init__(self) -> None:
        """Validate C and epsilon."""
        positive("C", self.C)
        not_negative("epsilon", self.epsilon)


class MachineOutcome(Enum):
    """Outcome of a solve; the value is the remedy."""

    CERTIFIED = "nothing to do, the duality gap is certified"
    MAX_ITER = "lower C, or raise max_iter or tol if you can set them"


@dataclass(frozen=True)
class Solution:
    """Weights of a machine with the primal and dual objective that certify them."""

    w: Array  # weights of the fair features, (r,)
    beta: Array  # P^½ w, (r,): f(x) = G(x)·beta + intercept
    intercept: float
    primal: float  # objective of these weights
    dual: float  # lower bound on the objective of any weights
    unit: float  # C n sd(y)
    iterations: int
    outcome: MachineOutcome

    @property
    def gap(self) -> float:
        """The relative duality gap, (primal - dual) / max(|primal|, |dual|, `NEGLIGIBLE` unit).

        The last term matters if the tube contains all targets: both objectives are then close to 0.
        """
        size = max(abs(self.primal), abs(self.dual), NEGLIGIBLE * self.unit)
        return (self.primal - self.dual) / size


def gap_message(machines: Sequence[tuple[str, Solution]], tol: float) -> str | None:
    """Return a message about the named machines that missed the gap, None if there are none."""
    missed = [(name, found) for name, found in machines if found.outcome is MachineOutcome.MAX_ITER]
    if not missed:
        return None
    name, worst = max(missed, key=lambda pair: pair[1].gap)
    others = f" ({len(missed)} of {len(machines)} machines missed it)" if len(missed) > 1 else ""
    return (
        f"the relative duality gap of {name} must fall to {tol:g}, but was {worst.gap:.2g} after "
        f"{worst.iterations} iterations{others}; {worst.outcome.value}"
    )


# Rows: blocks from a source, and one number per row and machine.


@dataclass(frozen=True)
class RowChunk:
    """Some rows. Writing to `p` changes their state."""

    G: AnyArray  # (k, r), empty if features were not requested
    y: Array  # (k,)
    weights: Array | None  # (k,)
    p: AnyArray  # z + u - y, (k, w)


class RowStates:
    """State of all rows of a source under all machines of a batch.

    Parameters
    ----------
    source, machines
        Rows, and the machines that are trained on them.
    dtype
        Precision of the state.
    """

    def __init__(self, source: Source, machines: Sequence[Machine], dtype: Precision) -> None:
        self.source, self.machines, self.dtype = source, machines, dtype
        self.columns = padded(np.arange(len(machines)), len(machines))  # machine of each column
        nothing = np.empty((0, 0))
        self._blocks = [
            RowChunk(
                nothing,
                block.y,
                block.weights,
                np.zeros((len(block.y), len(self.columns)), dtype=dtype),
            )
            for block in source()
        ]

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(len(block.y) for block in self._blocks)

    def first_mean(self) -> float:
        """Return the mean target of the first rows, an offset that saves digits of the targets."""
        return float(self._blocks[0].y[:CHUNK_ROWS].mean(axis=0))

    def blocks(self, *, features: bool = True) -> Iterator[Iterator[RowChunk]]:
        """Yield for each block its rows, `CHUNK_ROWS` at a time, with or without features."""
        blocks = self.source() if features else [None] * len(self._blocks)
        for block, state in zip(blocks, self._blocks, strict=True):
            yield _chunks(state, None if block is None else block.G)

    def drop_finished(self, active: AnyArray) -> None:
        """Drop the state of finished machines if blocks become narrower by it."""
        stay = np.flatnonzero(np.append(active, False)[self.columns])
        columns = padded(self.columns[stay], len(self.machines))
        if len(columns) == len(self.columns):
            return
        for i, state in enumerate(self._blocks):
            p = np.zeros((len(state.y), len(columns)), dtype=self.dtype)
            p[:, : len(stay)] = state.p[:, stay]
            self._blocks[i] = replace(state, p=p)
        self.columns = columns


def _chunks(state: RowChunk, G: AnyArray | None) -> Iterator[RowChunk]:
    """Yield views of the rows of a block."""
    for rows in row_blocks(len(state.y), CHUNK_ROWS):
        weights = None if state.weights is None else state.weights[rows]
        features = state.G if G is None else G[rows]
        yield RowChunk(features, state.y[rows], weights, state.p[rows])


def padded(columns: IntArray, placeholder: int) -> IntArray:
    """Return columns padded to a multiple of `WIDTH` with the number of a placeholder machine."""
    return np.append(columns, np.full(-len(columns) % WIDTH, placeholder))


def panel_product(A: AnyArray, B: AnyArray) -> AnyArray:
    """Return A @ B, `WIDTH` columns of B at a time."""
    product: AnyArray = np.empty((len(A), B.shape[1]), dtype=np.result_type(A, B))
    for panel in row_blocks(B.shape[1], WIDTH):
        np.matmul(A, B[:, panel], out=product[:, panel])
    return product


# Step: the weights of one machine.


@dataclass(frozen=True)
class Eigenbasis:
    """Eigendecomposition of the centred moments, shared by all machines."""

    n: int
    mean: Array  # of the features, (r,)
    values: Array  # eigenvalues of the centred GᵀG, (r,)
    vectors: Array  # (r, r)
    start: Array  # Qᵀ Gᵀ(y - mean y), (r,)
    y_mean: float
    y_std: float  # 1 if y is constant

    @classmethod
    def from_moments(cls, moments: Moments) -> "Eigenbasis":
        """Return the eigenbasis of moments."""
        C, c = moments.normal_equations(fit_intercept=True)
        values, Q = np.linalg.eigh(C)
        n, y_mean = round(moments.n), moments.y / moments.n  # rows have weight 1 here
        y_std = float(np.sqrt(max(moments.yy / n - y_mean**2, 0.0)))
        # Rounding can leave a deviation of a constant target.
        if not y_std > np.sqrt(EPS) * abs(y_mean):
            y_std = 1.0
        return cls(n, moments.g / n, np.maximum(values, 0.0), Q, Q.T @ c, y_mean, y_std)


@dataclass
class WeightStep:
    """beta = (C + P⁻¹/rho)⁻¹ t of one machine, in the eigenbasis of C.

    For t = Gᵀv it minimises ½|w|² + rho/2 |G beta - v|², all centred.
    """

    basis: Eigenbasis
    removed: Directions  # in the eigenbasis
    a: float = 0.0  # 1 / rho
    W: Array = field(default_factory=lambda: np.empty((0, 0)))

    @classmethod
    def from_directions(cls, basis: Eigenbasis, removed: Directions) -> "WeightStep":
        """Return the step on the fair features of some removed directions."""
        V = np.asfortranarray(basis.vectors.T @ removed.V)
        return cls(basis, Directions(V, removed.shares, removed.kept))

    def set_rho(self, rho: float) -> None:
        """Set rho and compute the low-rank correction for the removed directions."""
        self.a = 1.0 / rho
        DV = self.removed.V / (self.basis.values + self.a)[:, None]
        self.W, _ = fair_factor(DV, self.a, self.removed, name="1 / C")

    def beta(self, t: Array) -> Array:
        """Return beta in the eigenbasis."""
        return np.asarray(t / (self.basis.values + self.a) - self.W @ (self.W.T @ t))

    def weights(self, t: Array) -> tuple[Array, Array]:
        """Return w and beta = P^½ w in the basis of the features.

        Along the removed directions w is computed from the gradient. Dividing beta by P^½ there
        would divide rounding errors by a number close to 0.
        """
        beta, V = self.beta(t), self.removed.V
        across = project(beta[None, :], V)[0]
        gradient = V.T @ (t - self.basis.values * beta) / self.a
        along = np.sqrt(self.removed.kept) * gradient
        beta = across + V @ (np.sqrt(self.removed.kept) * along)
        Q = self.basis.vectors
        return Q @ (across + V @ along), Q @ beta


# Iteration: one ADMM pass over the rows.


@dataclass(frozen=True)
class BatchParameters:
    """Parameters of each machine of a batch; the last entry is the placeholder of padding."""

    kind: Loss
    C: Array
    epsilon: Array
    rho: Array
    y_offset: float  # subtracted from the targets

    def select(self, columns: IntArray) -> "BatchParameters":
        """Return the parameters of some machines, in this order."""
        C, epsilon, rho = (part[columns] for part in (self.C, self.epsilon, self.rho))
        return replace(self, C=C, epsilon=epsilon, rho=rho)

    def loss(self, chunk: RowChunk, dtype: Precision, *, scaled: bool = True) -> MarginLoss:
        """Return the losses of some rows; `scaled` divides the limits of multipliers by rho."""
        y: AnyArray = chunk.y.astype(dtype)
        limits = self.C / self.rho if scaled else self.C
        return MarginLoss.from_targets(self.kind, y, self.epsilon, limits, chunk.weights)


@dataclass(frozen=True)
class PassSums:
    """Sums over rows of one pass, by machine, with v = z - u."""

    products: Array  # Gᵀ(v - f), (r, k)
    totals: Array  # 1ᵀ(v - f), (k,)
    primal: Array  # |f - z|², (k,)
    dual: Array  # |z - z before|², (k,)

    @classmethod
    def zeros(cls, r: int, k: int) -> "PassSums":
        """Return the sums over no rows."""
        return cls(np.zeros((r, k)), *(np.zeros(k) for _ in range(3)))

    def add(self, part: "PassSums", columns: IntArray) -> None:
        """Add the sums of some rows, whose columns are these machines."""
        for name in ("products", "totals", "primal", "dual"):
            getattr(self, name)[..., columns] += getattr(part, name)


def admm_pass(
    rows: RowStates, batch: BatchParameters, B: Array, b: Array, rho: Array, *, residuals: bool
) -> PassSums:
    """Update the state of every row and return the sums for the next step.

    Sums are of v - f, which is small even if v is large: rounding errors of the features do not
    change the limit of the iteration.

    Parameters
    ----------
    rows, batch
        State of the rows, parameters of the machines.
    B, b
        Weights (r, k), intercepts (k,).
    rho
        New rho, by which multipliers are scaled from here on.
    residuals
        Compute the squared residuals.
    """
    sums, dtype, columns = PassSums.zeros(*B.shape), rows.dtype, rows.columns
    weights, intercepts = B[:, columns].astype(dtype), b[columns].astype(dtype)
    own, ratio = batch.select(columns), batch.rho[columns] / rho[columns]
    for chunks in rows.blocks():
        part = PassSums.zeros(len(B), len(columns))
        for chunk in chunks:
            G = chunk.G.astype(dtype, copy=False)
            x = panel_product(G, weights)
            x += intercepts
            x -= (chunk.y - batch.y_offset).astype(dtype)[:, None]
            change = _update_rows(
                chunk.p, x, own.loss(chunk, dtype), ratio, part if residuals else None
            )
            part.products[:] += panel_product(G.T, change)
            part.totals[:] += change.sum(axis=0)
        sums.add(part, columns)
    return sums


def _update_rows(
    p: AnyArray, x: AnyArray, loss: MarginLoss, ratio: Array, residuals: PassSums | None
) -> AnyArray:
    """Update p of some rows in place and return v - f, given x = f - y.

    `ratio` rescales the multipliers to a new rho. `residuals` is updated unless it is None.
    """
    dtype = p.dtype.type
    u = loss.multipliers(p, np.empty_like(p))
    z = p - u  # minus y, as below
    step = x - z
    step *= dtype(_RELAXATION)
    p += step
    loss.multipliers(p, u)
    after: AnyArray = np.subtract(p, u, out=step)
    if (ratio != 1).any():
        u *= ratio.astype(dtype)
        np.add(after, u, out=p)
    if residuals is not None:
        z -= after
        residuals.dual[:] += np.einsum("ij,ij->j", z, z)
    after -= x
    if residuals is not None:
        residuals.primal[:] += np.einsum("ij,ij->j", after, after)
    after -= u
    return after


# Certificate: primal and dual objective.


def objectives(
    rows: RowStates, batch: BatchParameters, W: Array, B: Array, b: Array
) -> tuple[Array, Array]:
    """Return the primal (k,) and dual (k,) objectives of the unfinished machines, in float64.

    Parameters
    ----------
    rows, batch
        State of the rows, parameters of the machines.
    W, B, b
        Weights w (r, k), beta = P^½ w (r, k), intercepts (k,).
    """
    factors, columns = _balancing_factors(rows, batch), rows.columns
    losses, linear = np.zeros(len(b)), np.zeros(len(b))
    products = np.zeros_like(B)
    own, weights = batch.select(columns), B[:, columns]
    for chunks in rows.blocks():
        sums = np.zeros((len(B), len(columns)))
        for chunk in chunks:
            y, loss = chunk.y - batch.y_offset, own.loss(chunk, np.float64, scaled=False)
            a = _multipliers(chunk, own)
            a *= np.where(a > 0, factors[0, columns], factors[1, columns])
            G = chunk.G.astype(np.float64)
            losses[columns] += loss.total(panel_product(G, weights) + b[columns] - y[:, None])
            linear[columns] += loss.support(a) + (a * y[:, None]).sum(axis=0)
            sums += panel_product(G.T, a)
        products[:, columns] += sums
    pairs = zip(rows.machines, products.T[:-1], strict=True)
    fair = [machine.removed.features(h[None, :])[0] for machine, h in pairs]
    halves = np.array([float(h @ h) / 2 for h in fair])  # ½|P^½ Gᵀa|²
    squares = np.einsum("ij,ij->j", W, W)
    return squares[:-1] / 2 + losses[:-1], -halves - linear[:-1]


def _multipliers(chunk: RowChunk, own: BatchParameters) -> Array:
    """Return the multipliers a of some rows, within [-C, C]."""
    p = chunk.p.astype(np.float64)
    u = own.loss(chunk, np.float64).multipliers(p, np.empty_like(p))
    limits = own.loss(chunk, np.float64, scaled=False).limits
    u *= own.rho
    np.maximum(u, -limits, out=u)
    return np.asarray(np.minimum(u, limits, out=u))


def _balancing_factors(rows: RowStates, batch: BatchParameters) -> Array:
    """Return factors of the positive and negative multipliers for which their sum is 0, (2, k)."""
    sums = np.zeros((2, len(batch.C)))
    own = batch.select(rows.columns)
    for chunk in chain.from_iterable(rows.blocks(features=False)):
        a = _multipliers(chunk, own)
        halves = np.maximum(a, 0.0).sum(axis=0), np.maximum(-a, 0.0).sum(axis=0)
        sums[:, rows.columns] += halves
    return np.asarray(sums.min(axis=0) / np.where(sums > 0, sums, 1.0))


# Batch: machines that share the passes.


class MachineBatch:
    """ADMM of several machines.

    Parameters
    ----------
    rows, basis
        State of the rows, eigenbasis of their moments.
    kind
        Kind of loss.
    rho
        Initial rho of each machine, (k,), with a last entry for the placeholder.
    """

    def __init__(self, rows: RowStates, basis: Eigenbasis, kind: Loss, rho: Array) -> None:
        machines, placeholder = rows.machines, 0.0
        self.rows, self.basis = rows, basis
        self.steps = [WeightStep.from_directions(basis, m.removed) for m in machines]
        self.active = np.ones(len(machines), dtype=bool)
        C = np.array([*(m.C for m in machines), placeholder])
        epsilon = np.array([*(m.epsilon for m in machines), placeholder])
        # An offset would change the sign of a class.
        y_offset = 0.0 if kind == "hinge" else rows.first_mean()
        self.parameters = BatchParameters(kind, C, epsilon, rho, y_offset)
        r, k = len(basis.mean), len(rho)
        self.B, self.b = np.zeros((r, k)), np.zeros(k)
        # With all multipliers 0 the right-hand side Gᵀ(z - u) is Gᵀy.
        self.T = np.stack([*(basis.start for _ in machines), np.zeros(r)], axis=1)
        self.means = np.array([*(basis.y_mean - y_offset for _ in machines), placeholder])
        self._set_rho(np.ones(len(machines), dtype=bool))

    def solve(self, tol: float, max_iter: int) -> list[Solution]:
        """Return the solutions in the order of the machines."""
        found: dict[int, Solution] = {}
        rho = self.parameters.rho
        for iteration in range(1, max_iter + 1):
            self._update_weights()
            balance = iteration % BALANCE_EVERY == 0 and iteration < BALANCE_UNTIL
            sums = admm_pass(self.rows, self.parameters, self.B, self.b, rho, residuals=balance)
            self._update_right_hand_sides(sums)
            changed = rho != self.parameters.rho
            self.parameters = replace(self.parameters, rho=rho)
            self._set_rho(changed[:-1])
            if iteration % CHECK_EVERY == 0 or iteration == max_iter:
                found |= self._certify(iteration, tol)
                if not self.active.any():
                    break
            if balance:
                rho = self._balanced_rho(sums)
        return [found[j] for j in range(len(self.steps))]

    def _set_rho(self, changed: Array) -> None:
        """Pass the current rho on to the steps of these machines."""
        for j in np.flatnonzero(changed & self.active):
            self.steps[j].set_rho(float(self.parameters.rho[j]))

    def _unfinished(self) -> IntArray:
        """Return the padded columns of the unfinished machines."""
        return padded(np.flatnonzero(self.active), len(self.steps))

    def _update_weights(self) -> None:
        """Set weights and intercepts to the minimum for the current right-hand sides."""
        basis, columns = self.basis, self._unfinished()
        hats = np.zeros((len(basis.mean), len(columns)))
        for i, j in enumerate(columns[columns < len(self.steps)]):
            hats[:, i] = self.steps[j].beta(self.T[:, j])
        # Rounded to the precision of the pass, so that the next step corrects the rounding.
        B = panel_product(basis.vectors, hats).astype(self.rows.dtype).astype(np.float64)
        self.B[:, columns] = B
        self.b[columns] = self.means[columns] - basis.mean @ B

    def _update_right_hand_sides(self, sums: PassSums) -> None:
        """Compute Gᵀv = C beta + Gᵀ(v - f), centred, and the mean of v from a pass."""
        basis, columns = self.basis, self._unfinished()
        B, totals, Q = self.B[:, columns], sums.totals[columns], basis.vectors
        change = sums.products[:, columns] - np.outer(basis.mean, totals)
        self.T[:, columns] = panel_product(Q.T, change) + basis.values[:, None] * panel_product(
            Q.T, B
        )
        self.means[columns] = self.b[columns] + basis.mean @ B + totals / basis.n

    def _balanced_rho(self, sums: PassSums) -> Array:
        """Return rho times the root of the ratio of the residuals, within limits."""
        with np.errstate(divide="ignore", invalid="ignore"):
            change = (sums.primal / sums.dual) ** 0.25  # sums of squares
        change = np.where(np.isfinite(change) & (change > 0), change, 1.0)
        change = np.clip(change, 1 / _MOST_CHANGE, _MOST_CHANGE)
        small = np.maximum(change, 1 / change) < _LEAST_CHANGE
        return np.where(small, 1.0, change) * self.parameters.rho

    def _certify(self, iteration: int, tol: float) -> dict[int, Solution]:
        """Return the current solution of each unfinished machine and stop those within `tol`."""
        chosen = np.flatnonzero(self.active)
        W, B, b = np.zeros_like(self.B), np.zeros_like(self.B), np.zeros_like(self.b)
        for j in chosen:
            W[:, j], B[:, j] = self.steps[j].weights(self.T[:, j])
            b[j] = self.means[j] - float(self.steps[j].basis.mean @ B[:, j])
        primal, dual = objectives(self.rows, self.parameters, W, B, b)
        found = {}
        for j in chosen:
            basis = self.steps[j].basis
            solution = Solution(
                w=W[:, j].copy(),
                beta=B[:, j].copy(),
                intercept=float(b[j]) + self.parameters.y_offset,
                primal=float(primal[j]),
                dual=float(dual[j]),
                unit=float(self.parameters.C[j]) * basis.n * basis.y_std,
                iterations=iteration,
                outcome=MachineOutcome.MAX_ITER,
            )
            if solution.gap <= tol:
                solution = replace(solution, outcome=MachineOutcome.CERTIFIED)
                self.active[j] = False
            found[int(j)] = solution
        self.rows.drop_finished(self.active)
        return found


def solve_machines(
    source: Source,
    moments: Moments,
    machines: Sequence[Machine],
    *,
    loss: Loss = "tube",
    tol: float = GAP,
    max_iter: int = ITERATIONS,
) -> list[Solution]:
    """Return the solution of each machine, in order. No solution depends on the other machines.

    Parameters
    ----------
    source
        Yields the rows anew for every pass.
    moments
        Moments of these rows, under the same features.
    machines
        The machines to solve.
    loss
        ``"tube"``, distances beyond epsilon from a number; ``"hinge"``, of classes -1 and 1.
    tol, max_iter
        Relative duality gap, maximal number of passes. A machine that misses the gap is returned
        with the outcome `MachineOutcome.MAX_ITER`.
    """
    tol, max_iter = positive("tol", tol), whole("max_iter", max_iter, low=1)
    dtype: Precision = np.float32 if tol >= SINGLE_GAP else np.float64
    basis = Eigenbasis.from_moments(moments)
    found: list[Solution] = []
    # Machines whose row states fit into `STATE_BYTES` together.
    most = max(1, STATE_BYTES // (np.dtype(dtype).itemsize * round(moments.n)))
    for batch in row_blocks(len(machines), most):
        rows = RowStates(source, machines[batch], dtype)
        if moments.n != rows.count:
            raise ValueError(
                f"moments must be of the {rows.count} rows that the source yields, got "
                f"{moments.n} rows. Sum the same rows"
            )
        rho = np.array([m.C / basis.y_std for m in machines[batch]] + [1.0])
        found += MachineBatch(rows, basis, loss, rho).solve(tol, max_iter)
    return found


__all__ = ["Machine", "MachineOutcome", "RowBlock", "Solution", "Source", "solve_machines"]
