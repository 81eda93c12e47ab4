"""Panels of a trade-off figure: which trials stand where, on which axes."""

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from fkd.pareto import non_dominated

from tasks.report_data import Estimate, NoiseFloor, ReportData, SensitiveColumn, TrialSummary
from tasks.report_words import (
    MAE_DECIMALS,
    MEASURES,
    estimate_in_unit,
    has_own_unit,
    params_words,
    strength_words,
    with_std,
)


@dataclass(frozen=True)
class Point:
    """One trial on a panel."""

    x: float
    y: float
    x_std: float = 0.0
    y_std: float = 0.0
    hover: tuple[str, ...] = ()  # lines of text
    front: bool = True  # no other point of the panel is better on both axes
    chosen: bool = False


@dataclass(frozen=True)
class Series:
    """One method on a panel: paths of points that differ in strength only."""

    label: str
    paths: tuple[tuple[Point, ...], ...]
    slot: int  # the place in the palette, the same on every panel; dummies have their own
    dummy: bool = False
    needs_sensitive: bool = False

    @property
    def points(self) -> tuple[Point, ...]:
        """The points of all paths."""
        return tuple(itertools.chain.from_iterable(self.paths))

    @property
    def legend(self) -> str:
        """The label, marked where the sensitive column is needed to predict."""
        return f"{self.label} †" if self.needs_sensitive else self.label


@dataclass(frozen=True)
class Panel:
    """One pair of axes; less is better on both."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    floor: NoiseFloor | None = None
    meaning: str = ""  # what the x axis measures, in a sentence

    @property
    def points(self) -> tuple[Point, ...]:
        """The points of all series."""
        return tuple(point for series in self.series for point in series.points)

    @property
    def alt(self) -> str:
        """The panel for those who cannot see it."""
        best = min(self.points, key=lambda p: p.y)
        return (
            f"{self.x_label} against {self.y_label} for {len(self.points)} settings of "
            f"{', '.join(series.label for series in self.series)}. The most accurate setting has "
            f"MAE {best.y:.4f} at {best.x:.3f}; {len(self.front)} settings form the front. "
            "All numbers stand in the table of trials."
        )

    @property
    def front(self) -> tuple[Point, ...]:
        """The points that no other beats on both axes, from left to right."""
        return tuple(sorted((p for p in self.points if p.front), key=lambda p: (p.x, -p.y)))


def x_range(panel: Panel) -> tuple[float, float]:
    """Return a range of x from zero on, error bars and noise floor included."""
    left = min([0.0, *(point.x - point.x_std for point in panel.points)])
    right = max(point.x + point.x_std for point in panel.points)
    right = max(right, panel.floor.upper if panel.floor else 0.0)
    # The margin keeps a dummy at zero whole.
    margin = 0.05 * (right - left) or 1.0
    return left - margin, right + margin


def y_range(panels: Iterable[Panel]) -> tuple[float, float]:
    """Return one range of y for all panels, error bars included, with a margin of 6 %."""
    points = [point for panel in panels for point in panel.points]
    if not points:
        return 0.0, 1.0
    low = min(point.y - point.y_std for point in points)
    high = max(point.y + point.y_std for point in points)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def on_front(trials: Sequence[TrialSummary], column: str, measure: str) -> dict[str, bool]:
    """Return by trial key whether no other trial is better in both error and measure."""
    known = [trial for trial in trials if _is_known(trial, column, measure)]
    if not known:
        return {}
    pairs = [(trial.mae.mean, trial.scores[column][measure].mean) for trial in known]
    mask = non_dominated(np.asarray(pairs, dtype=np.float64))
    return {trial.key: bool(best) for trial, best in zip(known, mask, strict=True)}


def panels_of(report: ReportData, column: SensitiveColumn) -> tuple[Panel, ...]:
    """Return one panel per measure that the trials hold for this column."""
    names = [name for name in MEASURES if _is_measured(report, column.name, name)]
    return tuple(_panel(report, column, name) for name in names)


def _is_measured(report: ReportData, column: str, measure: str) -> bool:
    """Whether a figure of this measure has anything to show."""
    return MEASURES[measure].drawn and any(
        _is_known(trial, column, measure) for trial in report.trials
    )


def _is_known(trial: TrialSummary, column: str, measure: str) -> bool:
    """Whether the trial has finite numbers for both axes."""
    score = trial.scores[column].get(measure)
    return score is not None and math.isfinite(score.mean) and math.isfinite(trial.mae.mean)


def _panel(report: ReportData, column: SensitiveColumn, measure: str) -> Panel:
    """One panel: a measure against the error."""
    front = on_front(report.trials, column.name, measure)
    slots = {False: itertools.count(), True: itertools.count()}
    series = []
    for group in _groups(report.trials, lambda trial: trial.label):
        label, slot = group[0].label, next(slots[group[0].dummy])
        known = [trial for trial in group if trial.key in front]
        paths = tuple(
            tuple(_point(report, trial, column.name, measure, front[trial.key]) for trial in path)
            for path in _paths(known)
        )
        if paths:
            series.append(Series(label, paths, slot, group[0].dummy, group[0].needs_sensitive))
    info = MEASURES[measure]
    return Panel(
        title=f"{info.label}: {info.title}",
        x_label=f"{info.label} on {column.name}",
        y_label="MAE (scaled)",
        series=tuple(series),
        floor=column.noise_floor if measure == "hgr" else None,
        meaning=info.meaning,
    )


def _groups(
    trials: Iterable[TrialSummary], key: Callable[[TrialSummary], Hashable]
) -> list[list[TrialSummary]]:
    """Return groups of equal key, in order of first appearance."""
    groups: dict[Hashable, list[TrialSummary]] = {}
    for trial in trials:
        groups.setdefault(key(trial), []).append(trial)
    return list(groups.values())


def _paths(trials: Sequence[TrialSummary]) -> list[list[TrialSummary]]:
    """Trials that differ in strength only, weakest first."""
    groups = _groups(trials, params_words)
    return [sorted(group, key=lambda trial: trial.strength) for group in groups]


def _point(
    report: ReportData, trial: TrialSummary, column: str, measure: str, front: bool
) -> Point:
    """Return the trial's place on a panel."""
    score = trial.scores[column][measure]
    chosen = report.champion is not None and report.champion.trial == trial.key
    return Point(
        x=score.mean,
        y=trial.mae.mean,
        x_std=_std(score),
        y_std=_std(trial.mae),
        hover=_hover(report, trial, measure, score, chosen),
        front=front,
        chosen=chosen,
    )


def _hover(
    report: ReportData, trial: TrialSummary, measure: str, score: Estimate, chosen: bool
) -> tuple[str, ...]:
    """Return what a pointer over the trial shows, line by line."""
    info, target = MEASURES[measure], report.target
    own = f"MAE {estimate_in_unit(trial.mae, target)} {target.unit}" if has_own_unit(target) else ""
    lines = (
        f"{trial.label} (the chosen model)" if chosen else trial.label,
        strength_words(trial),
        f"{info.label} {with_std(score, info.decimals)}",
        f"MAE {with_std(trial.mae, MAE_DECIMALS)}",
        own,
        params_words(trial),
        "needs the sensitive column to predict" if trial.needs_sensitive else "",
    )
    return tuple(line for line in lines if line)


def _std(estimate: Estimate) -> float:
    """Return the length of an error bar."""
    return estimate.std if estimate.std is not None and math.isfinite(estimate.std) else 0.0
