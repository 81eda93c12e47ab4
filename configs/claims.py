"""Statements on trade-off curves, each with the rule that decides it."""

from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from configs.data import Names
from configs.model import Frozen
from configs.nearest import check_name
from configs.schema import Measure
from fkd.measures import REPORTED


def _known_score(name: str) -> str:
    """Refuse a score that is neither an error nor a declared measure."""
    check_name(name, ("mae", "mse", *REPORTED), key="the score")
    return name


Score = Annotated[str, AfterValidator(_known_score)]
Error = Literal["mae", "rmse"]
"""By which two curves are compared: the paper's, and the one that large errors weigh in."""
Part = Literal["all", "strong", "weak"]


class _Claim(Frozen):
    """What every claim says of itself."""

    says: str
    """The statement, for people; {run} stands for the data set."""
    source: str = "ours"
    """Where the paper says so, or "ours"."""
    runs: Names = ()
    """The runs on which it is judged; all if not said."""
    curve: str
    """The curve that the statement is about."""
    column: str | None = None
    """The column on which measures are taken; the first one if not said."""


class Better(_Claim):
    """The curve has less error than another at equal values of a measure."""

    rule: Literal["better"]
    than: str
    measure: Measure
    part: Part = "all"
    """Which half of the measure's range: strong regularisation is the fairer one."""


class NotBetter(_Claim):
    """The curve has no less error than another at equal values of a measure."""

    rule: Literal["not_better"]
    than: str
    measure: Measure
    part: Part = "all"
    margin: float = Field(default=0.02, ge=0, lt=1)
    """Less error by less than this share of what the better curve gains on the dummy is none."""


class MorePronounced(_Claim):
    """The curve's advantage over another is greater in one measure than in a second."""

    rule: Literal["more_pronounced"]
    than: str
    measure: Measure
    beside: Measure
    part: Part = "all"


class Equal(_Claim):
    """The curve's error is another's least one, to a margin."""

    rule: Literal["equal"]
    than: str
    at: float | None = None
    """The strength at which the curve's error is taken, 0: unregularised; its least if not said."""
    margin: float = Field(default=0.02, gt=0)


class LessError(_Claim):
    """The curve's error is below another's least one."""

    rule: Literal["less_error"]
    than: str
    at: float | None = None
    """The strength at which the curve's error is taken; its least error if not said."""


class Near(_Claim):
    """Two curves agree setting by setting, to a share of the second one's range."""

    rule: Literal["near"]
    to: str
    measure: Measure
    margin: float = Field(default=0.1, gt=0)


class Trend(_Claim):
    """A score rises or falls along the curve, by Kendall's rank correlation with its order."""

    rule: Literal["trend"]
    of: Score
    direction: Literal["up", "down"]


class Change(_Claim):
    """A score rises, falls, or does not fall from one strength to another."""

    rule: Literal["change"]
    of: Score
    start: float
    stop: float
    direction: Literal["up", "down", "not_down"]
    margin: float = Field(default=0.02, ge=0)
    """For not_down: a fall by less than this share of the score's greatest value is none."""


class Faster(_Claim):
    """From strength 0 to a common strength the measure falls further than on another curve."""

    rule: Literal["faster"]
    than: str
    measure: Measure
    at: float


class Optimal(_Claim):
    """One setting of the curve has the least error of all, or nearly so."""

    rule: Literal["optimal"]
    at: dict[str, float]
    by: Literal["mae", "mse"]
    margin: float = Field(default=0.01, ge=0)
    """An error above the best by less than this share is as good."""


class Agree(_Claim):
    """Two curves predict the same numbers, setting by setting, up to a strength."""

    rule: Literal["agree"]
    to: str
    tolerance: float = Field(gt=0)
    up_to: float


Claim = Annotated[
    Better
    | NotBetter
    | MorePronounced
    | Equal
    | LessError
    | Near
    | Trend
    | Change
    | Faster
    | Optimal
    | Agree,
    Field(discriminator="rule"),
]

_SPREAD = ("curve", "than", "to", "measure", "beside", "of")
_MEASURES = ("measure", "beside", "of")


def spread(raw: Any) -> list[Any]:
    """Return one claim for each combination of the keys that are lists.

    ``says`` may name such a key in braces; what is no mapping is left to the validation.
    """
    if not isinstance(raw, Mapping):
        return [raw]
    # An empty list would make the claim vanish: it is left for the validation to refuse.
    lists = {key: raw[key] for key in _SPREAD if isinstance(raw.get(key), list) and raw[key]}
    return [
        {**raw, **chosen, "says": _named(raw.get("says"), chosen)}
        for values in product(*lists.values())
        for chosen in [dict(zip(lists, values, strict=True))]
    ]


def _named(says: Any, chosen: Mapping[str, Any]) -> Any:
    """Return the statement with what was chosen in it, measures in capitals."""
    if isinstance(says, str):
        for key, value in chosen.items():
            says = says.replace(f"{{{key}}}", value.upper() if key in _MEASURES else str(value))
    return says
