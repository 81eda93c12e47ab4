"""The part of a report in which a reader moves a limit."""

import math
from dataclasses import dataclass

from markupsafe import Markup

from configs.run import DEFAULT_KNEE
from fkd.measures import MEASURES
from tasks.report.formatting import change, has_own_unit, in_unit, own_number, shown
from tasks.report.model import ReportData
from tasks.report.profile_section import AlongWords, along_figures, along_sentences
from tasks.report.svg import CurveFigure, FrontFigure
from tasks.report.tables import Grid, TableCell, TableRow
from tasks.select.limit_moves import LimitMoves, LimitStep, MovedTrial

_MOST_DECIMALS = 12
_DRAWN = ("What is predicted", "How far off")


@dataclass(frozen=True)
class NamedFigure:
    """A figure that is drawn once, shown wherever its name stands."""

    name: str
    figure: CurveFigure

    @property
    def copy(self) -> Markup:
        """The figure where it is shown."""
        return self.figure.copy_of(self.name)


@dataclass(frozen=True)
class LimitState:
    """What the page shows while the limit lies in one range."""

    label: str  # where the range begins
    low: float
    high: float | None
    title: str  # the trial that it chooses
    costs: tuple[str, ...]
    front: FrontFigure
    curves: tuple[NamedFigure, ...]
    checked: bool = False


@dataclass(frozen=True)
class MovableLimit:
    """A limit on one measure with all that can become of it."""

    measure: str
    title: str
    states: tuple[LimitState, ...]
    grid: Grid
    opened: bool
    first: str  # what holds below the strictest limit
    least: float  # ends of the slider
    most: float


@dataclass(frozen=True)
class LimitSection:
    """The movable limits, with the figures that they share."""

    limits: tuple[MovableLimit, ...]

    @property
    def figures(self) -> tuple[NamedFigure, ...]:
        """Every figure once: a trial may be chosen by limits on several measures."""
        found = {
            figure.name: figure
            for limit in self.limits
            for state in limit.states
            for figure in state.curves
        }
        return tuple(found.values())


def limit_section(report: ReportData) -> LimitSection | None:
    """Return what the page shows of other limits; None where there is no choice to show."""
    limits = movable_limits(report)
    return LimitSection(limits) if limits else None


def movable_limits(report: ReportData) -> tuple[MovableLimit, ...]:
    """Return every measure on which a limit would choose among more than one trial."""
    moves = report.moves
    if moves is None:
        return ()
    named = [name for name in moves.limits if name in moves.steps]
    opened = named[0] if named else DEFAULT_KNEE
    return tuple(
        _limit(report, moves, measure, measure == opened)
        for measure, steps in moves.steps.items()
        if len(steps) > 1 and all(step.trial in moves.trials for step in steps)
    )


def _limit(report: ReportData, moves: LimitMoves, measure: str, opened: bool) -> MovableLimit:
    """Return one measure's states, with a table of all."""
    steps = moves.steps[measure]
    at = _current(report, moves, measure)
    states = tuple(
        _state(report, moves, measure, step, checked=i == at) for i, step in enumerate(steps)
    )
    info = MEASURES[measure]
    least = steps[0].low
    first = (
        ""
        if least <= 0
        else f"Below {shown(least, info.decimals)} none of these trials can be chosen."
    )
    most = steps[-1].low * 1.1
    title = f"Limit on {info.label}"
    return MovableLimit(
        measure, title, states, _grid(report, moves, measure), opened, first, least, most
    )


def _current(report: ReportData, moves: LimitMoves, measure: str) -> int:
    """Return the step of the configured limit, else of the chosen trial, else the last."""
    steps = moves.steps[measure]
    if measure in moves.limits:
        kept = [i for i, step in enumerate(steps) if step.low <= moves.limits[measure]]
        return kept[-1] if kept else 0
    chosen = report.champion.trial if report.champion else None
    own = [i for i, step in enumerate(steps) if step.trial == chosen]
    return own[0] if own else len(steps) - 1


def _state(
    report: ReportData, moves: LimitMoves, measure: str, step: LimitStep, *, checked: bool
) -> LimitState:
    """Return what is shown while the limit lies in one step."""
    trial, info = moves.trials[step.trial], MEASURES[measure]
    number = list(moves.trials).index(step.trial)
    points = moves.points[measure]
    front = FrontFigure(
        tuple(points.values()),
        points[step.trial],
        step.low,
        step.high,
        f"{info.label} on inner folds",
        "MAE on inner folds",
    )
    return LimitState(
        _from(moves, measure, step),
        step.low,
        step.high,
        trial.title,
        _costs(report, moves, trial),
        front,
        _curves(report, trial, number),
        checked,
    )


def _curves(report: ReportData, trial: MovedTrial, number: int) -> tuple[NamedFigure, ...]:
    """Return what a trial predicts, how far it is off, along every measured column."""
    words = AlongWords(
        report.target.title,
        report.target.unit if has_own_unit(report.target) else "",
        model="this trial",
    )
    titles = {column.name: column.words for column in report.columns}
    figures = [
        figure
        for name, profile in trial.along.profiles.items()
        for figure in along_figures(profile, titles[name], words)
        if figure.title in _DRAWN
    ]
    return tuple(NamedFigure(f"trial-{number}-{i}", one) for i, one in enumerate(figures))


def _costs(report: ReportData, moves: LimitMoves, trial: MovedTrial) -> tuple[str, ...]:
    """Return error, measures, who is off most, on the held-out rows."""
    loosest = max((steps[-1] for steps in moves.steps.values()), key=lambda step: step.low)
    free = moves.trials[loosest.trial].mae
    compared = (
        ""
        if trial.mae == free
        else f" ({change(free, trial.mae)} against {own_number(free, report.target)} without a "
        "limit)"
    )
    error = in_unit(trial.mae, report.target)
    sentences = [f"Held-out rows: mean absolute error {error}{compared}."]
    for column in report.columns:
        scores = trial.scores[column.name]
        told = [
            f"{MEASURES[name].label} {shown(value, MEASURES[name].decimals)}"
            for name, value in scores.items()
        ]
        sentences.append(f"On {column.words}: {', '.join(told)}.")
        profile = trial.along.profiles.get(column.name)
        if profile is not None:
            words = AlongWords(report.target.title, model="this trial")
            sentences.append(along_sentences(profile, column.words, words)[0])
    return tuple(sentences)


def _grid(report: ReportData, moves: LimitMoves, measure: str) -> Grid:
    """Return all states as a table."""
    info = MEASURES[measure]
    pairs = [(column, name) for column in report.columns for name in moves.steps]
    several = len(report.columns) > 1
    headings = (
        f"Limit on {info.label}",
        "Chooses",
        "MAE",
        *(
            MEASURES[name].label + (f", {column.words}" if several else "")
            for column, name in pairs
        ),
    )
    rows = []
    for step in moves.steps[measure]:
        trial = moves.trials[step.trial]
        texts = [
            _from(moves, measure, step),
            trial.title,
            own_number(trial.mae, report.target),
            *(
                shown(trial.scores[column.name].get(name, math.nan), MEASURES[name].decimals)
                for column, name in pairs
            ),
        ]
        rows.append(TableRow(tuple(map(TableCell, texts))))
    return Grid(headings, tuple(rows))


def _from(moves: LimitMoves, measure: str, step: LimitStep) -> str:
    """Return where the limits of a step begin, with digits that tell steps apart."""
    lows = [one.low for one in moves.steps[measure]]
    decimals = MEASURES[measure].decimals
    while len({shown(low, decimals) for low in lows}) < len(lows) and decimals < _MOST_DECIMALS:
        decimals += 1
    return f"from {shown(step.low, decimals)}"
