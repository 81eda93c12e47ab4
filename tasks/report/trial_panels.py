"""Panels of a report: its trials on the axes of each measure."""

import itertools
import math
import textwrap
from collections.abc import Callable, Hashable, Iterable, Sequence

from fkd.measures import MEASURES, REPORTED
from tasks.report.contents import (
    ReportData,
    ReportedInterval,
    ReportedNumber,
    SensitiveColumn,
    TrialSummary,
)
from tasks.report.panels import Panel, Point, Series, with_front
from tasks.report.words import (
    MAE_DECIMALS,
    error_words,
    estimate_in_unit,
    has_own_unit,
    in_unit,
    joined,
    params_words,
    strength_words,
    with_interval,
    with_std,
)

_HOVER_WIDTH = 30  # characters of a line that fit beside a point in the middle of a phone


def panels_of(report: ReportData, column: SensitiveColumn) -> tuple[Panel, ...]:
    """Return one panel per drawn measure that the trials hold for this column."""
    panels = [_panel(report, column, measure) for measure in REPORTED]
    return tuple(with_front(panel) for panel in panels if panel.points)


def is_known(trial: TrialSummary, column: str, measure: str) -> bool:
    """Return whether the trial has finite numbers for both axes."""
    score = trial.scores[column].get(measure)
    return score is not None and math.isfinite(score.mean) and math.isfinite(trial.mae.mean)


def _panel(report: ReportData, column: SensitiveColumn, measure: str) -> Panel:
    """Return a measure against the error."""
    info = MEASURES[measure]
    return Panel(
        title=f"{info.label}: {info.title}",
        x_label=f"{info.label} on {column.words}",
        y_label=error_words(report.target),
        series=_all_series(report, column.name, measure),
        floor=column.noise_floor.get(measure),
        meaning=" ".join(filter(None, (info.meaning, _in_own_unit(report, measure)))),
        limit=report.champion.limits.get(measure) if report.champion else None,
    )


def _in_own_unit(report: ReportData, measure: str) -> str:
    """Return what a step on the axis of a scaled measure is in the target's unit."""
    if MEASURES[measure].unit != "prediction" or not has_own_unit(report.target):
        return ""
    return f"0.01 is {in_unit(0.01, report.target)}."


def _all_series(report: ReportData, column: str, measure: str) -> tuple[Series, ...]:
    """Return one series per method that has a point."""
    slots = {False: itertools.count(), True: itertools.count()}
    found = []
    for group in _groups(report.trials, lambda trial: trial.label):
        first = group[0]
        # A method without a point still takes its slot: colours agree between panels.
        slot = next(slots[first.dummy])
        known = [trial for trial in group if is_known(trial, column, measure)]
        paths = tuple(
            tuple(_point(report, trial, column, measure) for trial in path)
            for path in _paths(known)
        )
        if paths:
            found.append(Series(first.label, paths, slot, first.dummy, first.needs_sensitive))
    return tuple(sorted(found, key=lambda series: series.dummy))


def _groups(
    trials: Iterable[TrialSummary], key: Callable[[TrialSummary], Hashable]
) -> list[list[TrialSummary]]:
    """Return groups of equal key, in order of first appearance."""
    groups: dict[Hashable, list[TrialSummary]] = {}
    for trial in trials:
        groups.setdefault(key(trial), []).append(trial)
    return list(groups.values())


def _paths(trials: Sequence[TrialSummary]) -> list[list[TrialSummary]]:
    """Return trials that differ in strength only, weakest first."""
    groups = _groups(trials, params_words)
    return [sorted(group, key=lambda trial: trial.strength) for group in groups]


def _point(report: ReportData, trial: TrialSummary, column: str, measure: str) -> Point:
    """Return the trial's place on a panel."""
    score = trial.scores[column][measure]
    chosen = report.champion is not None and report.champion.trial == trial.key
    return Point(
        x=score.mean,
        y=trial.mae.mean * report.target.scale,
        x_std=score.bar,
        y_std=trial.mae.bar * report.target.scale,
        hover=_hover(report, trial, measure, score, chosen),
        chosen=chosen,
    )


def _told(number: ReportedNumber, decimals: int) -> str:
    """Return a number with its interval, or with its deviation over folds."""
    if number.ends is None:
        return with_std(number, decimals)
    return with_interval(ReportedInterval(number.mean, *number.ends), decimals + 1)


def _hover(
    report: ReportData, trial: TrialSummary, measure: str, score: ReportedNumber, chosen: bool
) -> tuple[str, ...]:
    """Return what a pointer over the trial shows, line by line."""
    info, target = MEASURES[measure], report.target
    own = f"MAE {estimate_in_unit(trial.mae, target)} {target.unit}" if has_own_unit(target) else ""
    lines = (
        f"{trial.label} (the chosen model)" if chosen else trial.label,
        strength_words(trial),
        f"{info.label} {_told(score, info.decimals)}",
        f"MAE {_told(trial.mae, MAE_DECIMALS)}",
        own,
        params_words(trial).replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"),
        "needs the sensitive column to predict" if trial.needs_sensitive else "",
        "searched: looks a little too good" if trial.searched else "",
    )
    return tuple(piece for line in lines for piece in textwrap.wrap(line, _HOVER_WIDTH))


def bar_words(trials: Iterable[TrialSummary]) -> str:
    """Return what the error bars of a figure are, in a sentence."""
    known = [
        n for t in trials for n in (t.mae, *(m for c in t.scores.values() for m in c.values()))
    ]
    if not any(number.ends for number in known):
        return "Bars show one standard deviation over the folds."
    drawn = [m.label for m in REPORTED.values() if m.interval == "binned"]
    others = [m.label for m in REPORTED.values() if m.interval != "binned"]
    return (
        f"Bars of {joined(['MAE', *drawn])} are 95 % intervals of the mean over all test rows, the "
        f"models being as they are; those of {joined(others)} show one standard deviation over the "
        "folds."
    )
