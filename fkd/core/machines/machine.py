"""Which machine is wanted, what was found of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from fkd.core.arrays import Array
from fkd.core.directions import Directions
from fkd.core.parameters import not_negative, positive


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
    SPENT = "raise max_iter or tol, or lower C"


@dataclass(frozen=True)
class Solution:
    """A machine's weights with the two numbers that say how good they are.

    No weights have an objective below `dual`, these have `primal`: the distance of the two, by the
    larger of their magnitudes, is the relative gap.
    """

    w: Array  # weights of the fair features, (r,)
    beta: Array  # P^½ w, (r,): f(x) = G(x)·beta + intercept
    intercept: float
    primal: float
    dual: float
    iterations: int
    outcome: MachineOutcome

    @property
    def gap(self) -> float:
        """(primal - dual) / max(|primal|, |dual|), 0 where both are."""
        size = max(abs(self.primal), abs(self.dual))
        return (self.primal - self.dual) / size if size > 0 else 0.0


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
