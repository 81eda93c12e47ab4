"""Show the trials that other limits on a measure would choose."""

import math
from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup

from configs.run import DEFAULT_KNEE
from fkd.measures import MEASURES
from tasks.report.html import (
    TOP,
    Axes,
    CurveFigure,
    change,
    element,
    in_unit,
    own_number,
    padded,
    shown,
)
from tasks.report.model import ReportData
from tasks.report.profile_section import (
    ABSOLUTE_TITLE,
    PREDICTIONS_TITLE,
    labels_of,
    profile_figures,
    profile_sentences,
)
from tasks.report.tables import Row, Table
from tasks.select.limit_moves import LimitMoves, LimitStep, MovedTrial

_MOST_DECIMALS = 12


@dataclass(frozen=True)
class LimitState:
    """The content of the page for one range of limits.

    Parameters
    ----------
    label, low
        The lower end of the range.
    title, sentences
        The trial that these limits choose, and its numbers.
    front
        All trials, with the range and the chosen trial.
    curves
        Figures of the trial.
    checked
        True if the page shows this range first.
    """

    label: str
    low: float
    title: str
    sentences: tuple[str, ...]
    front: Markup
    curves: tuple[CurveFigure, ...]
    checked: bool = False


@dataclass(frozen=True)
class MovableLimit:
    """All ranges of limits on one measure.

    Parameters
    ----------
    measure, label
        The name and label of the measure.
    states, table
        The ranges, and a table of them.
    dots
        The points of all trials, which every range refers to.
    opened
        True if the page shows this measure first.
    note
        A sentence on limits below the first range.
    """

    measure: str
    label: str
    states: tuple[LimitState, ...]
    dots: Markup
    table: Table
    opened: bool
    note: str


@dataclass(frozen=True)
class LimitSection:
    """Every measure on which different limits choose different trials, and their figures."""

    limits: tuple[MovableLimit, ...]
    figures: tuple[CurveFigure, ...]


def limits_of(report: ReportData) -> LimitSection | None:
    """Return the section on other limits, None if no limit would change the choice."""
    moves = report.moves
    if moves is None:
        return None
    configured = [name for name in moves.limits if name in moves.steps]
    opened = configured[0] if configured else DEFAULT_KNEE
    # Several limits may choose one trial: its figures are drawn once.
    curves = {key: _curves(report, moves, key) for key in moves.trials}
    limits = tuple(
        _limit(report, moves, measure, curves, opened=measure == opened)
        for measure, steps in moves.steps.items()
        if len(steps) > 1 and all(step.trial in moves.trials for step in steps)
    )
    used = (figure for limit in limits for state in limit.states for figure in state.curves)
    figures = tuple({figure.name: figure for figure in used}.values())
    return LimitSection(limits, figures) if limits else None


def _limit(
    report: ReportData,
    moves: LimitMoves,
    measure: str,
    curves: dict[str, tuple[CurveFigure, ...]],
    *,
    opened: bool,
) -> MovableLimit:
    """Return the ranges of limits on one measure."""
    steps, info = moves.steps[measure], MEASURES[measure]
    current = _current(report, moves, measure)
    # The lower ends of the ranges, with decimals that keep them distinct.
    decimals, lows = info.decimals, [step.low for step in steps]
    while len({shown(low, decimals) for low in lows}) < len(lows) and decimals < _MOST_DECIMALS:
        decimals += 1
    labels = [f"from {shown(low, decimals)}" for low in lows]
    states = tuple(
        LimitState(
            label,
            step.low,
            moves.trials[step.trial].title,
            _sentences(report, moves, moves.trials[step.trial]),
            _front_svg(moves, measure, step),
            curves[step.trial],
            i == current,
        )
        for i, (step, label) in enumerate(zip(steps, labels, strict=True))
    )
    note = "" if lows[0] <= 0 else f"No trial is below {shown(lows[0], info.decimals)}."
    if (ranges := moves.ranges[measure]) > len(steps):
        note = f"{note} {len(steps)} of {ranges} ranges are shown.".strip()
    table = _table(report, moves, measure, labels)
    return MovableLimit(measure, info.label, states, _dots(moves, measure), table, opened, note)


def _current(report: ReportData, moves: LimitMoves, measure: str) -> int:
    """Return the range of the configured limit, else of the chosen trial, else the last."""
    steps = moves.steps[measure]
    if measure in moves.limits:
        kept = [i for i, step in enumerate(steps) if step.low <= moves.limits[measure]]
        return kept[-1] if kept else 0
    chosen = report.champion.trial if report.champion else None
    return next((i for i, step in enumerate(steps) if step.trial == chosen), len(steps) - 1)


def _curves(report: ReportData, moves: LimitMoves, key: str) -> tuple[CurveFigure, ...]:
    """Return the figures of predictions and absolute errors of a trial along every column."""
    figures = [
        figure
        for name, profile in moves.trials[key].along.profiles.items()
        for figure in profile_figures(profile, report.titles[name], labels_of(report, "this trial"))
        if figure.title in (PREDICTIONS_TITLE, ABSOLUTE_TITLE)
    ]
    number = list(moves.trials).index(key)
    return tuple(replace(one, name=f"trial-{number}-{i}") for i, one in enumerate(figures))


def _sentences(report: ReportData, moves: LimitMoves, trial: MovedTrial) -> tuple[str, ...]:
    """Return error, measures and the largest errors on the held-out rows."""
    loosest = max((steps[-1] for steps in moves.steps.values()), key=lambda step: step.low)
    free = moves.trials[loosest.trial].mae
    compared = (
        ""
        if trial.mae == free
        else f" ({change(free, trial.mae)} compared with {own_number(free, report.target)} without "
        "a limit)"
    )
    error = in_unit(trial.mae, report.target)
    sentences = [f"On held-out rows the mean absolute error is {error}{compared}."]
    for column in report.columns:
        measures = [
            f"{MEASURES[name].label} {shown(value, MEASURES[name].decimals)}"
            for name, value in trial.scores[column.name].items()
        ]
        sentences.append(f"On {column.text}: {', '.join(measures)}.")
        profile = trial.along.profiles.get(column.name)
        if profile is not None:
            labels = labels_of(report, "this trial")
            sentences.append(profile_sentences(profile, column.text, labels)[0])
    return tuple(sentences)


def _front_svg(moves: LimitMoves, measure: str, step: LimitStep) -> Markup:
    """Draw all trials on the inner folds with the range of limits and the trial it chooses."""
    points, axes = moves.points[measure], _axes(moves, measure)
    at = points[step.trial]
    end = axes.x[1] if step.high is None else min(step.high, axes.x[1])
    left, right, height = axes.across(step.low), axes.across(end), axes.foot - TOP
    drawn = (
        f'<rect class="range" x="{left:.1f}" y="{TOP}" width="{max(0.0, right - left):.1f}" '
        f'height="{height}"/><path class="limit" d="M{left:.1f} {TOP}v{height}"/>'
        f'<use href="#{_dots_id(measure)}"/>'
        f'<circle class="ring" cx="{axes.across(at[0]):.1f}" cy="{axes.up(at[1]):.1f}" r="8"/>'
    )
    until = "upwards" if step.high is None else f"to below {step.high:.4g}"
    alt = (
        f"{axes.y_label} against {axes.x_label} of {len(points)} trials. A limit from "
        f"{step.low:.4g} {until} chooses the trial at {at[0]:.4g} with an error of {at[1]:.4g}."
    )
    return element(alt, axes.frame() + Markup(drawn))


def _axes(moves: LimitMoves, measure: str) -> Axes:
    """Return the axes of all trials on the inner folds."""
    x, y = np.array([*moves.points[measure].values()]).T
    label = f"{MEASURES[measure].label} on inner folds"
    return Axes(padded(x, 0.06), padded(y, 0.06), label, "MAE on inner folds")


def _dots(moves: LimitMoves, measure: str) -> Markup:
    """Draw the points of all trials once, for all ranges of a measure."""
    axes = _axes(moves, measure)
    circles = "".join(
        f'<circle class="dot" cx="{axes.across(a):.1f}" cy="{axes.up(b):.1f}" r="3.2"/>'
        for a, b in moves.points[measure].values()
    )
    return Markup(f'<g id="{_dots_id(measure)}">{circles}</g>')


def _dots_id(measure: str) -> str:
    return f"limit-dots-{measure}"


def _table(report: ReportData, moves: LimitMoves, measure: str, labels: list[str]) -> Table:
    """Return all ranges as a table."""
    pairs = [(column, MEASURES[name]) for column in report.columns for name in moves.steps]
    several = len(report.columns) > 1
    label = MEASURES[measure].label
    headings = (
        f"Limit on {label}",
        "Chosen trial",
        "MAE",
        *(m.label + (f", {column.text}" if several else "") for column, m in pairs),
    )
    rows = []
    for step, text in zip(moves.steps[measure], labels, strict=True):
        trial = moves.trials[step.trial]
        scores = (
            shown(trial.scores[column.name].get(m.name, math.nan), m.decimals)
            for column, m in pairs
        )
        error = own_number(trial.mae, report.target)
        rows.append(Row.from_texts(text, trial.title, error, *scores))
    caption = f"The trial chosen by each range of limits on {label}, with its held-out numbers."
    return Table(headings, tuple(rows), caption)
