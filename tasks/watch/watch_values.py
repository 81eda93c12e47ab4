"""One look at new rows as a value that is kept as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from fkd.core.arrays import Array
from fkd.measures import CurveChange, NumberChange, SampleChanges

VERSION = 2  # to be raised whenever a look's numbers change; part of what it is found by
QUIET, CROSSED = "quiet", "crossed"


@dataclass(frozen=True)
class Refit:
    """The result of refitting on the rows of the champion and those that crossed."""

    title: str  # of the model that was chosen there, empty where none could be
    promoted: bool
    why: str
    champion: str = ""  # the key that its version is found by


@dataclass(frozen=True)
class Watch:
    """What a champion does on new rows, beside its record.

    Parameters
    ----------
    model, version, title
        Which registered version was looked at.
    rows_from
        Which rows it was shown, in words.
    data
        The digest of these rows.
    at
        When, in ISO form.
    target, unit
        What is predicted, in what errors and curves are counted.
    changes
        Numbers and curves with their bands; GDP as a share of the target's range, as limits are.
    reasons
        Why it counts as crossed, in sentences; none where it is quiet.
    refit
        The refit, None if there was none.
    """

    model: str
    version: int
    title: str
    rows_from: str
    data: str
    at: str
    target: str
    unit: str
    changes: SampleChanges
    reasons: tuple[str, ...] = ()
    refit: Refit | None = None
    words: Mapping[str, str] = field(default_factory=dict)  # for measured columns

    @property
    def verdict(self) -> str:
        """Whether something has changed, in one word."""
        return CROSSED if self.reasons else QUIET

    @property
    def reason(self) -> str:
        """The verdict with its reasons, in one line."""
        if not self.reasons:
            return f"quiet: nothing outside the band (p = {self.changes.chance:.3g})"
        return f"crossed: {'; '.join(self.reasons)}"

    def with_refit(self, refit: Refit) -> Self:
        """Return the look with what was done about it."""
        return replace(self, refit=refit)

    def to_json(self) -> str:
        """Return the look as text; what is not known there is null."""
        return json.dumps({"watch": VERSION, **asdict(self)}, default=_listed, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the look whose text this is."""
        plain: dict[str, Any] = json.loads(text)
        plain.pop("watch")
        changes = plain.pop("changes")
        return cls(
            **{
                **plain,
                "reasons": tuple(plain["reasons"]),
                "refit": plain["refit"] and Refit(**plain["refit"]),
                "changes": SampleChanges(
                    tuple(NumberChange(**one) for one in changes["numbers"]),
                    tuple(_curve(one) for one in changes["curves"]),
                    changes["chance"],
                    tuple(changes["rows"]),
                    changes["level"],
                ),
            }
        )


def _listed(value: Any) -> Any:
    """Return an array as a list, NaN as null."""
    if isinstance(value, np.ndarray):
        if value.dtype == bool:
            return value.tolist()
        return [None if np.isnan(one) else one for one in value.tolist()]
    raise TypeError(f"a look holds numbers, text and arrays, got {type(value).__name__}")


def _curve(plain: Mapping[str, Any]) -> CurveChange:
    """Return a curve whose arrays JSON made lists."""
    arrays: dict[str, Array] = {
        name: np.array([np.nan if one is None else one for one in value], dtype=np.float64)
        for name, value in plain.items()
        if isinstance(value, list) and name != "crossed"
    }
    return CurveChange(**{**plain, **arrays, "crossed": np.array(plain["crossed"], dtype=bool)})
