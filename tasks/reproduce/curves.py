"""Curves of an experiment, read from stored results."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from configs.reproduction import CurvesConfig, FigureConfig
from fkd.core.arrays import Array
from fkd.measures import MEASURES
from fkd.methods import method
from tasks.kernels.auto_options import settled
from tasks.plan.trials import make_trials
from tasks.report.figures import DPI, Panel, Point, Series, draw, png_bytes, style_of
from tasks.reproduce.resample import stored_predictions
from tasks.select.results import TrialResult
from tasks.select.study import Study
from tasks.storage.environment import memory_per_worker

DUMMIES = ("dummy", "median_dummy")  # the methods that are meant to be constants
_CONSTANT = 0.01  # of the target's deviation: predictions that vary less explain under 2 % of it


@dataclass(frozen=True)
class Curve:
    """One line of a figure: trials in the order of their grid."""

    label: str
    study: Study  # its data; the rows are those of the run's other curves
    results: tuple[TrialResult, ...]
    missing: int = 0  # trials that are not stored on every fold, under any seed
    repeats: tuple["Curve", ...] = ()  # the same under the run's other seeds

    @property
    def method(self) -> str:
        """The method's name."""
        return self.results[0].trial.method

    @property
    def strengths(self) -> list[float]:
        """The strength of each setting."""
        return [result.trial.strength for result in self.results]

    @property
    def varying(self) -> tuple[str, ...]:
        """The parameters in which settings differ."""
        settings = [result.trial.parameters for result in self.results]
        return tuple(name for name in settings[0] if len({str(s[name]) for s in settings}) > 1)

    @property
    def constant(self) -> bool:
        """Whether it says nearly the same for everyone, at every strength and on every fold."""
        limit = _CONSTANT * float(self.study.loaded.table.y.std())
        return all(
            record.predicted.std < limit
            for curve in (self, *self.repeats)
            for result in curve.results
            for record in result.records
        )

    @property
    def seed(self) -> int:
        """The seed by which its rows were cut into folds."""
        return self.study.inputs.splits.seed

    @property
    def by_seed(self) -> dict[int, "Curve"]:
        """It and its repeats, each alone."""
        return {curve.seed: curve for curve in (replace(self, repeats=()), *self.repeats)}

    @property
    def merged(self) -> "Curve":
        """The settings that every seed has, each with the folds of all seeds, for mean and spread.

        Folds of several seeds are no partition of the rows: predictions cannot be pooled from it.
        """
        if not self.repeats:
            return self
        found: dict[str, list[TrialResult]] = {}
        for curve in (self, *self.repeats):
            for result in curve.results:
                found.setdefault(result.trial.parameters_json, []).append(result)
        results = tuple(
            replace(same[0], records=tuple(record for one in same for record in one.records))
            for same in found.values()
            if len(same) == 1 + len(self.repeats)
        )
        return replace(self, results=results, repeats=())

    @property
    def collapsed(self) -> bool:
        """Whether it is a constant without being meant as one."""
        return self.method not in DUMMIES and self.constant

    def words(self, i: int) -> str:
        """Return what sets one setting apart, such as m=5."""
        parameters = self.results[i].trial.parameters
        names = self.varying or tuple(filter(None, [method(self.method).strength]))
        return ", ".join(f"{_short(name)}={_number(parameters[name])}" for name in names)

    def index(self, parameters: Mapping[str, float]) -> int | None:
        """Return the first setting with these values, None where there is none."""
        for i, result in enumerate(self.results):
            own = result.trial.parameters
            if all(own.get(name) == value for name, value in parameters.items()):
                return i
        return None

    def fold_scores(self, score: str, column: str | None, fold: int) -> list[float]:
        """Return one score of every setting on one fold."""
        name = column or self.study.inputs.measure_on[0]
        found = [result.records[fold].measures[name] for result in self.results]
        if score == "rmse":
            return [math.sqrt(measures["mse"]) for measures in found]
        return [measures[score] for measures in found]

    def at(self, strength: float) -> int | None:
        """Return the setting of a strength, None where there is none."""
        return self.strengths.index(strength) if strength in self.strengths else None


Curves = Mapping[str, Curve]  # by label


def curves_of(studies: Mapping[str, Study], config: CurvesConfig) -> dict[str, Curve]:
    """Return the curves of a run that have a stored result, by label.

    Parameters
    ----------
    studies
        The run's variants.
    config
        Which curve is drawn on which of them.
    """
    stored = {
        (variant, result.trial.key): result
        for variant, study in studies.items()
        for result in study.results()
    }
    found = {}
    for label, curve in config.curves.items():
        study, entry = studies[curve.variant], curve.method
        memory = memory_per_worker(study.config.cluster.workers)
        named, table = entry.settings(config.data.problem), study.loaded.table
        settings = settled(named, study.inputs, table, memory)
        trials = make_trials(entry.name, settings, study.inputs)
        keys = [(curve.variant, trial.key) for trial in trials]
        results = tuple(stored[key] for key in keys if key in stored)
        if results:
            found[label] = Curve(label, study, results, len(trials) - len(results))
    return found


def pooled(curve: Curve, i: int) -> Array:
    """Return one prediction per row, each by the model that had not seen it; NaN: never tested."""
    store = curve.study.store
    parts = (stored_predictions(store, record.key) for record in curve.results[i].records)
    return curve.study.inputs.splits.pool(curve.study.loaded.table, parts)


def distances(one: Curve, other: Curve) -> list[tuple[float, float]]:
    """Return strength with the greatest difference of predictions, where both curves have it."""
    return [
        (strength, float(np.nanmax(np.abs(pooled(one, i) - pooled(other, j)))))
        for i, strength in enumerate(one.strengths)
        if (j := other.at(strength)) is not None
    ]


def _short(name: str) -> str:
    """Return the paper's sign of a parameter."""
    return {"iterations": "m", "penalty": "λ", "ridge": "α̃", "epsilon": "ε"}.get(name, name)


def _number(value: Any) -> str:
    """Return a parameter's value, short."""
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def run_figure(run: CurvesConfig, figure: FigureConfig, curves: Curves) -> bytes:
    """Return one run's row of the figure as the bytes of a PNG file."""
    if figure.kind == "errors":
        return _errors(run, figure, curves)
    if figure.kind == "differences":
        return _differences(run, curves)
    columns = next(iter(curves.values())).study.inputs.measure_on
    panels = [
        _panel(curves, measure, column)
        for column in columns
        for measure in figure.measures
    ]
    return png_bytes(draw(panels, title=run.title))


def _panel(curves: Curves, measure: str, column: str) -> Panel:
    """Return the error against one measure."""
    label = MEASURES[measure].label
    return Panel(
        title=f"{label} on {column}",
        x_label=f"{label} on {column}",
        y_label="MAE (scaled)",
        series=tuple(
            _series(curve.merged, slot, measure, column) for slot, curve in _with_slots(curves)
        ),
    )


def _with_slots(curves: Curves) -> list[tuple[int, Curve]]:
    """Return every curve with its place in the palette, dummies counted apart."""
    slots = {False: itertools.count(), True: itertools.count()}
    return [(next(slots[curve.method in DUMMIES]), curve) for curve in curves.values()]


def _series(curve: Curve, slot: int, measure: str, column: str) -> Series:
    """Return a curve's points, in the order of its grid."""
    points = tuple(
        Point(
            x=result.mean(measure, column),
            y=result.mean("mae", column),
            x_bar=result.std(measure, column),
            y_bar=result.std("mae", column),
        )
        for result in curve.results
    )
    return Series(curve.label, (points,), slot, dummy=curve.method in DUMMIES)


def _errors(run: CurvesConfig, figure: FigureConfig, curves: Curves) -> bytes:
    """Draw the error along one parameter, a line per combination of the others."""
    drawn, axes = _axes(len(curves), run.title)
    for ax, curve in zip(axes, (curve.merged for curve in curves.values()), strict=True):
        lines: dict[str, list[tuple[float, float]]] = {}
        for result in curve.results:
            parameters = result.trial.parameters
            others = [name for name in curve.varying if name != figure.along]
            label = ", ".join(f"{name} = {parameters[name]:g}" for name in others)
            column = curve.study.inputs.measure_on[0]
            point = (parameters[figure.along], result.mean(figure.of, column))
            lines.setdefault(label, []).append(point)
        for slot, (label, points) in enumerate(lines.items()):
            _line(ax, label, sorted(points), slot)
        ax.set(xscale="log", xlabel=figure.along, ylabel=f"{figure.of.upper()} over folds")
        ax.set_title(curve.label, fontsize=10)
        ax.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=6, frameon=False, ncols=3
        )
    return png_bytes(drawn)


def _differences(run: CurvesConfig, curves: Curves) -> bytes:
    """Draw how far other curves' predictions lie from the first one's, along the strength."""
    drawn, (ax,) = _axes(1, run.title)
    first, *others = curves.values()
    for slot, curve in enumerate(others):
        points = [(m, max(distance, 1e-17)) for m, distance in distances(curve, first)]
        if not points:
            continue
        _line(ax, f"{curve.label} against {first.label}", points, slot)
    ax.set(xlabel="iterations m", ylabel="greatest difference of predictions", yscale="log")
    ax.legend(fontsize=8, frameon=False)
    return png_bytes(drawn)


def _axes(count: int, title: str) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with so many panels side by side."""
    drawn = Figure(figsize=(4.6 * count, 4.4), dpi=DPI, layout="constrained")
    FigureCanvasAgg(drawn)  # draws without a display, whatever backend is configured
    drawn.suptitle(title, fontsize=11)
    axes = list(drawn.subplots(1, count, squeeze=False).flat)
    for ax in axes:
        ax.grid(color="#e5e5e5", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    return drawn, axes


def _line(ax: Axes, label: str, points: list[tuple[float, float]], slot: int) -> None:
    """Draw one line in the palette's look."""
    style = style_of(Series(label, (), slot))
    x, y = zip(*points, strict=True)
    ax.plot(x, y, color=style.colour, marker=style.marker, markersize=4, label=label)
