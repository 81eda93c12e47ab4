"""Machines that share passes over the rows, from the first iteration to the last certificate."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fkd.core.arrays import Array, IntArray
from fkd.core.machines.certificate import objectives
from fkd.core.machines.fair_step import FairStep, FoldBasis
from fkd.core.machines.iteration import PassSums, Scales, advance
from fkd.core.machines.machine import MachineOutcome, Solution
from fkd.core.machines.machine_rows import MachineRows, filled, panel_product
from fkd.core.machines.margin_loss import Loss

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
