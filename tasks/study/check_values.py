"""A check as a value: what is looked at, what was found."""

from dataclasses import dataclass
from enum import StrEnum

PAGE = "docs/checks.md"


class CheckOutcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    ISSUE = "issue"
    TIP = "tip"
    NOT_APPLICABLE = "not applicable"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Check:
    """What is looked at, whatever comes of it."""

    code: str  # a letter for the section, a number
    title: str
    section: str
    explanation: str

    @property
    def address(self) -> str:
        """Where the documentation tells of it."""
        return f"{PAGE}#{self.code.lower()}"


@dataclass(frozen=True)
class CheckResult:
    """A check with what was found: numbers, or why nothing could be."""

    check: Check
    outcome: CheckOutcome
    said: str

    @property
    def line(self) -> str:
        """The result in one line."""
        return f"{self.check.code} {self.check.title}: {self.outcome}. {self.said}"


ROWS = Check(
    "D1",
    "Enough held-out rows",
    "data",
    "Of few rows every measure reads mostly noise: below 30 nothing can be said, below 200 HGR "
    "reads more than 0.1 of columns that have nothing to do with each other.",
)
DRIFT = Check(
    "D2",
    "Held-out rows like those before",
    "data",
    "Target and sensitive columns of the held-out rows are compared with those of the rows that "
    "the model was chosen on. Where they differ, as they may when folds follow time or place, the "
    "held-out numbers say how the model does elsewhere, not here.",
)
PROXY = Check(
    "D3",
    "No input stands in for the attribute",
    "data",
    "An input that goes along with a removed column almost perfectly is that column under another "
    "name. It may be dropped by data.drop; what removal has to contend with is then less.",
)
FLOOR = Check(
    "L1",
    "Limits above the noise floor",
    "limits",
    "HGR of independent columns is not zero. A limit below what they read cannot be kept by any "
    "model, or only by chance.",
)
KEPT = Check(
    "L2",
    "Limits kept on held-out rows",
    "limits",
    "The model was chosen to keep select.subject_to on inner folds; here is what the held-out rows "
    "say, which took no part.",
)
RECOVERABLE = Check(
    "M1",
    "The attribute cannot be recovered",
    "model",
    "Probe models guess the attribute from the features that the removal leaves. What they explain "
    "of its variation on rows they have not seen could be used by any model on these features.",
)
COLLAPSE = Check(
    "M2",
    "More than a constant",
    "model",
    "A model that predicts nearly the same for all depends on nothing, and is of no use. Its "
    "spread is compared with that of the truth, its error with that of the best constant.",
)
GATE = Check(
    "G1",
    "The gate",
    "gate",
    "Limits that the chosen model must keep on the held-out rows (gate in the configuration). A "
    "model that breaks one is registered as a candidate; what was champion before stays so.",
)
CHECKS = (ROWS, DRIFT, PROXY, FLOOR, KEPT, RECOVERABLE, COLLAPSE, GATE)
