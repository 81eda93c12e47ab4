"""Everything a report shows, as plain values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from tasks.select.checks import CheckResult
from tasks.select.groups import StudyProfiles, WithinGroups
from tasks.select.limit_moves import LimitMoves
from tasks.select.results import MAE

Scalar = str | int | float | bool | None


@dataclass(frozen=True)
class ReportedNumber:
    """A mean over folds with its standard deviation (None where one number is all there is)."""

    mean: float
    std: float | None = None
    ends: tuple[float, float] | None = None  # of its interval, where test rows are very many

    @property
    def bar(self) -> float:
        """The length of an error bar: half of the interval, else the deviation, where known."""
        if self.ends is not None:
            return (self.ends[1] - self.ends[0]) / 2
        return self.std if self.std is not None and math.isfinite(self.std) else 0.0


@dataclass(frozen=True)
class ReportedInterval:
    """A number with its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class TargetColumn:
    """What is predicted: a scaled error times `scale` is an error in `unit`."""

    name: str
    title: str
    unit: str = ""
    scale: float = 1.0


@dataclass(frozen=True)
class ReportedNoiseFloor:
    """Values of a measure on shuffled rows."""

    mean: float
    upper: float  # the 95 % quantile over the draws
    rows: int
    draws: int


@dataclass(frozen=True)
class SensitiveColumn:
    """A column that the fairness measures are taken on."""

    name: str
    title: str = ""
    removed: bool = True
    is_input: bool = False  # given to the models as well
    noise_floor: Mapping[str, ReportedNoiseFloor] = field(default_factory=dict)  # by measure
    proxies: tuple[tuple[str, float], ...] = ()  # inputs most related to it, with how closely

    @property
    def words(self) -> str:
        """The title, or the name where there is none."""
        return self.title or self.name


@dataclass(frozen=True)
class TrialSummary:
    """One setting of one method, judged on every fold."""

    key: str
    method: str
    label: str
    mae: ReportedNumber
    scores: Mapping[str, Mapping[str, ReportedNumber]]  # by measured column, then measure
    folds: int
    strength_name: str | None = None
    strength: float = 0.0
    params: Mapping[str, Scalar] = field(default_factory=dict)  # all but the strength
    seconds: float = math.nan  # summed over folds
    dummy: bool = False
    needs_sensitive: bool = False  # asks for the sensitive column of the row it predicts
    removes_nothing: bool = False  # a plain machine, or a fair one at strength 0
    searched: bool = False  # a search chose its parameters, on rows that most folds test on


@dataclass(frozen=True)
class SelectionPolicy:
    """How the champion was picked: the least error under limits, or the knee of a front."""

    kind: Literal["least", "knee"]
    minimise: str = MAE
    subject_to: Mapping[str, float] = field(default_factory=dict)
    measure: str = ""  # the front whose knee is taken
    within_noise: bool = False  # the most accurate trial does not depend on s beyond noise


@dataclass(frozen=True)
class HeldOutScores:
    """A model's numbers on rows that took no part in choosing it."""

    mae: ReportedInterval
    scores: Mapping[str, Mapping[str, ReportedInterval]]  # by measured column, then measure


@dataclass(frozen=True)
class ChampionSummary:
    """The chosen trial, refitted, with its numbers on the held-out rows."""

    trial: str  # the key of one of the report's trials
    policy: SelectionPolicy
    held_out: HeldOutScores
    rows_choosing: int
    rows_held_out: int
    reference: HeldOutScores | None = None  # the same model with nothing removed, same rows
    changes: HeldOutScores | None = None  # held_out minus reference, paired row by row
    deciding: Mapping[str, float] = field(default_factory=dict)  # by measure, on inner folds
    # On held-out rows, by column, then measure.
    noise_floor: Mapping[str, Mapping[str, ReportedNoiseFloor]] = field(default_factory=dict)
    confidence: float = 0.95
    interval_method: str = "from random quarters of the held-out rows"
    approximation: str = "exact"
    stored_rows: int = 0  # rows of the training data inside the model's file
    model_uri: str = ""
    gate: str = ""  # what it said of the model, nothing where there is none
    gate_limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def limits(self) -> dict[str, float]:
        """The limits that held-out rows shall keep, of the policy and of the gate."""
        both = (self.policy.subject_to, self.gate_limits)
        names = dict.fromkeys(name for limits in both for name in limits if name != MAE)
        return {name: min(limits[name] for limits in both if name in limits) for name in names}


@dataclass(frozen=True)
class Recoverability:
    """How well one probe guesses a sensitive column on held-out rows, as R²."""

    column: str
    probe: str
    before: ReportedNumber
    after: ReportedNumber


@dataclass(frozen=True)
class Failure:
    """A trial without numbers."""

    trial: str
    cause: str


@dataclass(frozen=True)
class DataFile:
    """A file the rows came from."""

    name: str
    sha256: str  # empty where the rows are made up


@dataclass(frozen=True)
class DataProvenance:
    """Where the rows came from, which of them were used."""

    source: str
    rows_read: int
    rows_used: int
    files: tuple[DataFile, ...] = ()
    rows_dropped: Mapping[str, int] = field(default_factory=dict)  # by reason
    inputs: int | None = None  # columns given to the models, before encoding
    row_noun: str = "rows"  # what a row is, in the plural
    licence: str = ""
    survey_weight: str = ""  # the column of weights, where the data has one
    weighed: tuple[str, ...] = ()  # what it counted in; nothing where every row counts once
    synthetic: bool = False
    datasheet: str = ""  # markdown


@dataclass(frozen=True)
class RunProvenance:
    """What is needed to make the same numbers again."""

    seed: int
    finished: datetime
    seconds: float  # NaN where nobody took the time
    config_digest: str
    config_yaml: str
    data_digest: str = ""
    commands: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    tracking: Mapping[str, str] = field(default_factory=dict)  # MLflow ids and addresses


@dataclass(frozen=True)
class ReportData:
    """One experiment, ready to be shown."""

    name: str
    title: str
    problem: str  # the data set's title
    target: TargetColumn
    columns: tuple[SensitiveColumn, ...]  # measured ones
    trials: tuple[TrialSummary, ...]
    data: DataProvenance
    run: RunProvenance
    removed: tuple[str, ...] = ()  # words for what was removed; empty: the columns marked removed
    champion: ChampionSummary | None = None
    no_champion: str = ""  # why there is none
    recoverability: tuple[Recoverability, ...] = ()
    failures: tuple[Failure, ...] = ()
    within: WithinGroups | None = None  # the champion within groups of the control columns
    control: tuple[str, ...] = ()  # words for these columns
    along: StudyProfiles | None = None  # the champion along the measured columns
    checks: tuple[CheckResult, ...] = ()
    moves: LimitMoves | None = None  # what other limits would choose
    promotion: str = ""  # who promoted the champion's version, when and why

    def __post_init__(self) -> None:
        if self.champion and self.champion.trial not in {trial.key for trial in self.trials}:
            raise ValueError(
                f"champion.trial must be the key of one of the {len(self.trials)} trials, "
                f"got {self.champion.trial!r}"
            )
        for trial in self.trials:
            self._check_columns(f"scores of trial {trial.key!r}", trial.scores)
        if self.champion:
            self._check_columns("champion.held_out.scores", self.champion.held_out.scores)
            if self.champion.reference:
                self._check_columns("champion.reference.scores", self.champion.reference.scores)

    def _check_columns(self, name: str, scores: Mapping[str, object]) -> None:
        """Raise unless the scores hold every measured column."""
        if missing := [column.name for column in self.columns if column.name not in scores]:
            raise ValueError(
                f"{name} must hold every measured column, got none for {', '.join(missing)}"
            )

    def trial(self, key: str) -> TrialSummary:
        """Return the trial of that key."""
        return next(trial for trial in self.trials if trial.key == key)

    @property
    def chosen(self) -> TrialSummary | None:
        """The champion's trial."""
        return self.trial(self.champion.trial) if self.champion else None
