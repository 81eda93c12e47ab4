"""The curves of an experiment: read from stored results, drawn, and probed for the attribute."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from configs.reproduction import CurvesConfig, FigureConfig
from fkd.core.arrays import Array
from fkd.measures import MEASURES
from fkd.measures.registry import LEAKING
from fkd.methods import method
from tasks.fit.job import training_for
from tasks.kernels.auto_options import resolve_auto
from tasks.plan.trials import Job, check_versions, make_trials
from tasks.report.figures import DPI, Panel, Point, Series, draw, png_bytes, style_of
from tasks.reproduce.resample import stored_predictions
from tasks.select.judgement import VERSION, recover
from tasks.select.results import TrialResult
from tasks.select.study import Study
from tasks.storage.environment import blas_threads, memory_per_worker
from tasks.storage.records import digest
from tasks.storage.store import open_store

DUMMIES = ("dummy", "median_dummy")  # methods whose predictions are constant by definition
_CONSTANT = 0.01  # of the target's deviation: predictions that vary less explain under 2 % of it
_SYMBOLS = {"iterations": "m", "penalty": "λ", "ridge": "α̃", "epsilon": "ε"}  # as in the paper


@dataclass(frozen=True)
class Curve:
    """One line of a figure.

    Parameters
    ----------
    label
        Its name.
    study
        The study with its data. The rows are those of the other curves of the run.
    results
        Its trials in the order of their grid.
    missing
        The number of trials that are not stored on every fold under every seed.
    repeats
        The curve under the other seeds of the run.
    """

    label: str
    study: Study
    results: tuple[TrialResult, ...]
    missing: int = 0
    repeats: tuple["Curve", ...] = ()

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.results[0].trial.method

    @property
    def strengths(self) -> list[float]:
        """The strength of each setting."""
        return [result.trial.strength for result in self.results]

    @property
    def varying(self) -> tuple[str, ...]:
        """The parameters in which the settings differ."""
        settings = [result.trial.parameters for result in self.results]
        return tuple(name for name in settings[0] if len({str(s[name]) for s in settings}) > 1)

    @property
    def constant(self) -> bool:
        """True if the predictions hardly vary, at every strength, on every fold."""
        limit = _CONSTANT * float(self.study.loaded.table.y.std())
        return all(
            record.predicted.std < limit
            for curve in (self, *self.repeats)
            for result in curve.results
            for record in result.records
        )

    @property
    def collapsed(self) -> bool:
        """True if the predictions hardly vary although the method is no dummy."""
        return self.method not in DUMMIES and self.constant

    @property
    def by_seed(self) -> dict[int, "Curve"]:
        """The curve and its repeats, each alone, by the seed of its folds."""
        alone = (replace(self, repeats=()), *self.repeats)
        return {curve.study.inputs.splits.seed: curve for curve in alone}

    @property
    def merged(self) -> "Curve":
        """The settings that every seed has, each with the folds of all seeds, for mean and spread.

        Folds of several seeds are no partition of the rows, so predictions cannot be pooled.
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

    def words(self, i: int) -> str:
        """Return the parameters of a setting that differ between settings, such as m=5."""
        parameters = self.results[i].trial.parameters
        names = self.varying or tuple(filter(None, [method(self.method).strength]))
        values = (parameters[name] for name in names)
        texts = (f"{v:g}" if isinstance(v, int | float) else str(v) for v in values)
        pairs = zip(names, texts, strict=True)
        return ", ".join(f"{_SYMBOLS.get(name, name)}={text}" for name, text in pairs)

    def index(self, parameters: Mapping[str, float]) -> int | None:
        """Return the index of the first setting with these values, None if there is none."""
        for i, result in enumerate(self.results):
            own = result.trial.parameters
            if all(own.get(name) == value for name, value in parameters.items()):
                return i
        return None

    def at(self, strength: float) -> int | None:
        """Return the index of a strength, None if there is none."""
        return self.strengths.index(strength) if strength in self.strengths else None

    def fold_scores(self, score: str, column: str | None, fold: int) -> list[float]:
        """Return one score of every setting on one fold."""
        name = column or self.study.inputs.measure_on[0]
        found = [result.records[fold].measures[name] for result in self.results]
        if score == "rmse":
            return [math.sqrt(measures["mse"]) for measures in found]
        return [measures[score] for measures in found]


Curves = Mapping[str, Curve]  # by label


def curves_of(studies: Mapping[str, Study], config: CurvesConfig) -> dict[str, Curve]:
    """Return the curves of a run that have a stored result, by label.

    Parameters
    ----------
    studies
        The studies of the run by variant.
    config
        The curves with their variants.
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
        settings = resolve_auto(named, study.inputs, table, memory)
        trials = make_trials(entry.name, settings, study.inputs)
        keys = [(curve.variant, trial.key) for trial in trials]
        results = tuple(stored[key] for key in keys if key in stored)
        if results:
            found[label] = Curve(label, study, results, len(trials) - len(results))
    return found


def seeded_curves(
    studies: Mapping[int, Mapping[str, Study]], config: CurvesConfig
) -> dict[str, Curve]:
    """Return the curves under the first seed, each with its repeats under the others.

    Parameters
    ----------
    studies
        The studies of the run by seed, then variant.
    config
        The curves with their variants and seeds.
    """
    drawn = {seed: config.under(seed) for seed in studies}
    found = {seed: curves_of(variants, drawn[seed]) for seed, variants in studies.items()}
    first, *others = studies
    joined = {}
    for label, curve in found[first].items():
        under = [found[seed] for seed in others if label in drawn[seed].curves]
        repeats = tuple(curves[label] for curves in under if label in curves)
        lost = (len(curve.results) + curve.missing) * (len(under) - len(repeats))
        missing = curve.missing + lost + sum(repeat.missing for repeat in repeats)
        joined[label] = replace(curve, repeats=repeats, missing=missing)
    # A curve without a setting that all seeds have is no result.
    return {label: curve for label, curve in joined.items() if curve.merged.results}


def by_seed(curves: Curves, labels: Iterable[str]) -> list[dict[str, Curve]]:
    """Return these curves under each of the seeds that all of them have."""
    apart = {label: curves[label].by_seed for label in labels if label in curves}
    first, *others = apart.values()
    common = [seed for seed in first if all(seed in other for other in others)]
    return [{label: found[seed] for label, found in apart.items()} for seed in common]


def pooled(curve: Curve, i: int) -> Array:
    """Return one prediction per row, by the model that was not trained on it; NaN if untested."""
    store = curve.study.store
    parts = (stored_predictions(store, record.key) for record in curve.results[i].records)
    return curve.study.inputs.splits.pool(curve.study.loaded.table, parts)


def distances(one: Curve, other: Curve) -> list[tuple[float, float]]:
    """Return the strengths that both curves have with their greatest difference of predictions."""
    return [
        (strength, float(np.nanmax(np.abs(pooled(one, i) - pooled(other, j)))))
        for i, strength in enumerate(one.strengths)
        if (j := other.at(strength)) is not None
    ]


def run_figure(run: CurvesConfig, figure: FigureConfig, curves: Curves) -> bytes:
    """Return the figure of one run as the bytes of a PNG file."""
    if figure.kind == "errors":
        return _errors(run, figure, curves)
    if figure.kind == "differences":
        return _differences(run, curves)
    columns = next(iter(curves.values())).study.inputs.measure_on
    panels = [_panel(curves, measure, column) for column in columns for measure in figure.measures]
    return png_bytes(draw(panels, title=run.title))


def _panel(curves: Curves, measure: str, column: str) -> Panel:
    """Return the error against one measure; dummies have slots of their own."""
    label = f"{MEASURES[measure].label} on {column}"
    slots = {False: itertools.count(), True: itertools.count()}
    series = []
    for curve in curves.values():
        points = tuple(
            Point(
                x=result.mean(measure, column),
                y=result.mean("mae", column),
                x_bar=result.std(measure, column),
                y_bar=result.std("mae", column),
            )
            for result in curve.merged.results
        )
        dummy = curve.method in DUMMIES
        series.append(Series(curve.label, (points,), next(slots[dummy]), dummy=dummy))
    return Panel(label, label, "MAE (scaled)", tuple(series))


def _errors(run: CurvesConfig, figure: FigureConfig, curves: Curves) -> bytes:
    """Draw the error along one parameter, one line per combination of the others."""
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
    """Draw the differences between the predictions of the first curve and of the others."""
    drawn, (ax,) = _axes(1, run.title)
    first, *others = curves.values()
    for slot, curve in enumerate(others):
        points = [(m, max(distance, 1e-17)) for m, distance in distances(curve, first)]
        if points:
            _line(ax, f"{curve.label} against {first.label}", points, slot)
    ax.set(xlabel="iterations m", ylabel="greatest difference of predictions", yscale="log")
    ax.legend(fontsize=8, frameon=False)
    return png_bytes(drawn)


def _axes(count: int, title: str) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with panels side by side."""
    drawn = Figure(figsize=(4.6 * count, 4.4), dpi=DPI, layout="constrained")
    FigureCanvasAgg(drawn)  # needs no display, whatever backend is configured
    drawn.suptitle(title, fontsize=11)
    axes = list(drawn.subplots(1, count, squeeze=False).flat)
    for ax in axes:
        ax.grid(color="#e5e5e5", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    return drawn, axes


def _line(ax: Axes, label: str, points: list[tuple[float, float]], slot: int) -> None:
    """Draw one line in the style of its slot."""
    style = style_of(Series(label, (), slot))
    x, y = zip(*points, strict=True)
    ax.plot(x, y, color=style.colour, marker=style.marker, markersize=4, label=label)


def strongest(curve: Curve) -> TrialResult | None:
    """Return the setting with the greatest strength, None if the method has no features."""
    if method(curve.method).represent is None:
        return None
    return max(curve.results, key=lambda result: result.trial.strength)


def recovery_jobs(curves: Curves) -> list[Job]:
    """Return the jobs whose results are not stored: one per fold of the first seed and study."""
    jobs: dict[tuple[str, str], Job] = {}
    for curve in curves.values():
        if (result := strongest(curve)) is None:
            continue
        inputs = curve.study.inputs
        store, splits = open_store(inputs.settings), inputs.splits.outer(curve.study.loaded.table)
        for split, record in zip(splits, result.records, strict=True):
            place = curve.study.config.name, split
            known = jobs.get(place, Job(inputs, split, (), ()))
            stored = store.read_arrays(recovered_name(record.key)) is not None
            if not stored and record.key not in known.record_keys:
                trials = (*known.trials, result.trial)
                jobs[place] = Job(inputs, split, trials, (*known.record_keys, record.key))
    return list(jobs.values())


def recover_job(job: Job) -> None:
    """Predict the measured columns of a fold's test rows from their features; store the R²."""
    inputs = job.inputs
    check_versions(job.trials, inputs)
    table = inputs.table
    fold = inputs.splits.outer(table)[job.split]
    test = table.take(fold.test)
    S = test.S(inputs.measure_on)
    with blas_threads(inputs.blas_threads):
        training, encoder = training_for(job.trials, table, fold, inputs)
        X = encoder.transform(test)
        for trial, key in zip(job.trials, job.record_keys, strict=True):
            found = recover(trial, training, X, S)
            open_store(inputs.settings).write_arrays(
                recovered_name(key),
                {
                    "probes": np.array([probe.model for probe in found]),
                    "before": np.array([np.atleast_1d(np.asarray(p.before)) for p in found]),
                    "after": np.array([np.atleast_1d(np.asarray(p.after)) for p in found]),
                },
            )


def recovered_table(run: str, curves: Curves) -> list[dict[str, Any]]:
    """Return mean and standard deviation over folds of the R² of every probe, curve by curve.

    Curves of which the result of a fold is not stored are left out.
    """
    rows = []
    for curve in curves.values():
        if (result := strongest(curve)) is None:
            continue
        store = open_store(curve.study.inputs.settings)
        found = [store.read_arrays(recovered_name(record.key)) for record in result.records]
        folds = [arrays for arrays in found if arrays is not None]
        if len(folds) < len(found):
            continue
        setting = curve.words(curve.results.index(result))
        rows += [
            {
                "run": run,
                "curve": curve.label,
                "setting": setting,
                "column": column,
                LEAKING: result.mean(LEAKING, column),
                "probe": str(probe),
                **_mean_and_std("before", [arrays["before"][i, j] for arrays in folds]),
                **_mean_and_std("after", [arrays["after"][i, j] for arrays in folds]),
            }
            for j, column in enumerate(curve.study.inputs.measure_on)
            for i, probe in enumerate(folds[0]["probes"])
        ]
    return rows


def _mean_and_std(name: str, values: Sequence[float]) -> dict[str, float]:
    return {name: float(np.mean(values)), f"{name}_std": float(np.std(values))}


def recovered_name(record_key: str) -> str:
    """Return the name in the store of the R² of one trial on one fold."""
    key = digest(["recovered", record_key, VERSION])
    return f"recovered/{key[:2]}/{key}.arrays"
