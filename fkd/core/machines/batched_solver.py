"""Support vector machines of all strengths, penalties, tubes, folds in shared passes over rows."""

from collections.abc import Iterator, Sequence

import numpy as np

from fkd.core.machines.fair_step import FoldBasis
from fkd.core.machines.machine import Machine, Solution
from fkd.core.machines.machine_batch import MachineBatch
from fkd.core.machines.machine_rows import MachineRows, Precision
from fkd.core.machines.margin_loss import Loss
from fkd.core.machines.row_source import Source
from fkd.core.moments import Moments
from fkd.core.parameters import positive, whole

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
