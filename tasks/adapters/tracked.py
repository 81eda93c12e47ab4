"""Runs as the tracking server shall hold them, in plain values."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Number = tuple[str, float, int]  # a metric's name, its value, the step
CHAMPION_TAG = "fkd.champion"  # on a trial's run: it was selected; on a model's version: its key


@dataclass(frozen=True)
class UsedData:
    """The rows of a run, as the tracker names data sets: texts in JSON but for name and digest."""

    name: str
    digest: str
    source_type: str
    source: str
    schema: str
    profile: str


@dataclass(frozen=True)
class Span:
    """When a run's fits began, how long they took."""

    start: int  # milliseconds since 1970
    seconds: float

    def end_after(self, start: int) -> int:
        """Return when a run ends that is said to have begun at a time."""
        return start + round(1000 * self.seconds)


@dataclass(frozen=True)
class RunDetails:
    """What a run carries beside its name and tags."""

    note: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    data: UsedData | None = None
    span: Span | None = None


@dataclass(frozen=True)
class TrialRun:
    """One trial as MLflow shall hold it."""

    key: str
    name: str
    tags: Mapping[str, str]
    folds: Mapping[str, Sequence[float]]  # metric: one value per fold, in order
    summary: Mapping[str, float]  # means with standard deviations
    details: RunDetails = field(default_factory=RunDetails)

    def numbers(self) -> list[Number]:
        """Return all metrics: each fold is a step, means with deviations have none."""
        folds = [
            (name, value, step)
            for name, values in self.folds.items()
            for step, value in enumerate(values)
        ]
        return folds + [(name, value, 0) for name, value in self.summary.items()]


def metric_name(text: str) -> str:
    """Return a name that every tracker takes: of letters, digits and a few signs."""
    return re.sub(r"[^\w/.\- :]", "_", text)
