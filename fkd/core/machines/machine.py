"""Which machine is wanted, what was found of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from fkd.core.arrays import Array
from fkd.core.directions import Directions
from fkd.core.parameters import not_negative, positive

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
