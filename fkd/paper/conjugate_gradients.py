"""Conjugate gradients on several symmetric systems at once."""

from collections.abc import Callable, Sequence

import numpy as np

from fkd.core.arrays import Array

# Residuals relative to the right-hand side. The first is what is asked for; rounding may keep the
# true residual above it where a system is nearly singular, but never above the second unnoticed.
TOLERANCE = 1e-10
LARGEST_RESIDUAL = 1e-7
# Passes over the matrix; preconditioned, a census takes some dozens.
BUDGET = 2000

# From the numbers of some systems with one panel (n, w) of each: a panel of each.
Operator = Callable[[Sequence[int], Sequence[Array]], Sequence[Array]]


def solve_systems(
    apply: Operator,
    B: Sequence[Array],
    *,
    precondition: Operator,
    names: Sequence[str],
    budget: int = BUDGET,
) -> list[Array]:
    """Return X_i with A_i X_i = B_i of every positive definite system i.

    Systems share the passes in which `apply` multiplies; a system that has reached `TOLERANCE`
    takes no further part. Its numbers depend on no other system.

    Parameters
    ----------
    apply
        Returns A_i P_i of the systems that are named.
    B
        Right-hand sides, a panel (n, w) of each system; columns of a panel are solved each for
        itself.
    precondition
        Returns M_i R_i, M_i positive definite, close to the inverse of A_i.
    names
        What a system is called where it cannot be solved.
    budget
        Passes after which that is so.
    """
    runs = [_Run(b) for b in B]
    active = [i for i, run in enumerate(runs) if not run.converged]
    passes = 0
    while active:
        if passes == budget:
            worst = max(active, key=lambda i: runs[i].residual)
            raise ValueError(_unsolved(names[worst], runs[worst].residual, budget))
        for i, Z in zip(active, precondition(active, [runs[i].R for i in active]), strict=True):
            runs[i].turn(Z)
        for i, AP in zip(active, apply(active, [runs[i].P for i in active]), strict=True):
            runs[i].step(AP)
        passes += 1
        active = [i for i in active if not runs[i].converged]
    found = [run.X for run in runs]
    images = apply(range(len(B)), found)
    for name, b, AX in zip(names, B, images, strict=True):
        residual = _relative(b - AX, b).max()
        if not residual <= LARGEST_RESIDUAL:
            raise ValueError(_unsolved(name, residual, passes))
    return found


def _unsolved(name: str, residual: float, passes: int) -> str:
    """Return the sentence on a system that was not solved."""
    return (
        f"conjugate gradients must leave at most {TOLERANCE:g} of the right-hand side (rounding "
        f"apart), got {residual:.1e} after {passes} passes for {name}; use a larger "
        "ridge, or more landmarks"
    )


def _relative(R: Array, B: Array) -> Array:
    """Return the norm of each column of R in units of that of B, 0 for what has no length."""
    norms = np.linalg.norm(B, axis=0)
    return np.asarray(np.linalg.norm(R, axis=0) / np.where(norms > 0, norms, 1.0))


class _Run:
    """One system on its way: solution so far, residual, direction of search."""

    def __init__(self, B: Array) -> None:
        self.B, self.X, self.R = B, np.zeros_like(B), B.copy()
        self.P, self.rz = np.zeros_like(B), np.ones(B.shape[1])
        self._look()

    def _look(self) -> None:
        """Note which columns are not solved yet."""
        relative = _relative(self.R, self.B)
        self.residual = float(relative.max())
        # NaN is not solved either: it ends the budget, hence is named.
        self.open = ~(relative <= TOLERANCE)
        self.converged = not self.open.any()

    def turn(self, Z: Array) -> None:
        """Take the next direction from the preconditioned residual."""
        rz = np.einsum("ij,ij->j", self.R, Z)
        self.P = Z + self.P * (rz / self.rz)
        # A solved column rests: its numbers would soon be rounding errors of zero.
        self.P[:, ~self.open] = 0.0
        self.rz = np.where(self.open, rz, 1.0)

    def step(self, AP: Array) -> None:
        """Go along the direction to the least residual."""
        curvature = np.einsum("ij,ij->j", self.P, AP)
        length = np.where(self.open, self.rz, 0.0) / np.where(self.open, curvature, 1.0)
        self.X += self.P * length
        self.R -= AP * length
        self._look()
