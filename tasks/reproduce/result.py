"""The results of an experiment on disk and in MLflow: verdicts, figures, table."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from configs.reproduction import ExperimentConfig, read_experiment, read_otherwise, statements
from fkd import __version__
from tasks.reproduce.claims import COUNTS, Verdict, count
from tasks.reproduce.curves import Curve, Curves, run_figure
from tasks.reproduce.recovery import recovered_table
from tasks.select.results import MAE, SCORES, TrialResult, tidy, write_results
from tasks.select.study import Study
from tasks.storage.files import write_atomic
from tasks.storage.settings import Settings
from tasks.track.client import TrackingUnreachableError
from tasks.track.recording import record_files, record_trials
from tasks.track.run_index import take_folder
from tasks.track.runs import Tracking

AllCurves = Mapping[str, Curves]  # by run
_FILE = "story.json"


@dataclass(frozen=True)
class Story:
    """What an experiment found."""

    name: str
    collection: str  # the folder of its page
    prefix: str  # how its runs are called in MLflow
    title: str
    question: str
    finished: str  # day and time
    quick: bool
    reading: dict[str, Any]  # keys of the data that were read otherwise than published
    unread: dict[str, str]  # runs that such a reading does not change, with the reason
    draws: int
    rows: dict[str, str]  # how many rows a run had, from where; synthetic ones say so
    absent: dict[str, str]  # runs that were not computed, with the reason
    left_out: dict[str, str]  # curves that were not computed, with the reason
    incomplete: list[str]  # curves with settings that failed
    figures: dict[str, str]  # file by run
    table: list[dict[str, Any]] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    seconds: float = 0.0
    recovered: list[dict[str, Any]] = field(default_factory=list)  # R² before, after, by curve

    @property
    def outdated(self) -> bool:
        """Whether the shipped experiment says other things by now."""
        shipped = read_experiment(self.name)
        if self.reading:
            shipped = read_otherwise(shipped, self.reading)
        return {verdict.says for verdict in self.verdicts} != set(statements(shipped))

    def count(self, as_: str) -> int:
        """Return how many claims count as that."""
        return count(self.verdicts, as_)


def story_of(
    experiment: ExperimentConfig,
    curves: AllCurves,
    absent: Mapping[str, str],
    verdicts: Sequence[Verdict],
    rows: Mapping[str, str],
    *,
    draws: int,
) -> Story:
    """Return what an experiment found, from its curves with their verdicts."""
    return Story(
        name=experiment.name,
        collection=experiment.collection,
        prefix=experiment.prefix,
        title=experiment.title,
        question=experiment.question,
        finished=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        quick=experiment.quick,
        reading=experiment.reading,
        unread=experiment.unread,
        draws=draws,
        rows=dict(rows),
        absent=dict(absent),
        left_out=experiment.left_out,
        incomplete=_incomplete(experiment, curves),
        figures={run: f"{run}.png" for run, found in curves.items() if found},
        table=[row for run, found in curves.items() for row in table_of(run, found)],
        verdicts=list(verdicts),
        recovered=[
            row
            for run, found in curves.items()
            if experiment.runs[run].recoverability
            for row in recovered_table(run, found)
        ],
    )


def _incomplete(experiment: ExperimentConfig, curves: AllCurves) -> list[str]:
    """Return one sentence per curve that lacks settings, all of them included."""
    lacking = {
        f"{label} on {run}": str(found[label].missing) if label in found else "all"
        for run, found in curves.items()
        for label in experiment.runs[run].curves
        if label not in found or found[label].missing
    }
    return [
        f"{place}: {count} settings failed; `fkd status` has the causes."
        for place, count in lacking.items()
    ]


def write_story(story: Story, experiment: ExperimentConfig, curves: AllCurves, to: Path) -> None:
    """Write figures, results.csv, claims.csv and the story of an experiment into its folder."""
    for old in to.glob("*.png"):
        old.unlink()
    for run, file in story.figures.items():
        write_atomic(to / file, run_figure(experiment.runs[run], experiment.figure, curves[run]))
    frames = [_tidy(run, curve) for run, found in curves.items() for curve in found.values()]
    if frames:
        write_atomic(to / "results.csv", pd.concat(frames).to_csv(index=False).encode())
    claims = pd.DataFrame([asdict(verdict) for verdict in story.verdicts])
    write_atomic(to / "claims.csv", claims.to_csv(index=False).encode())
    write_atomic(
        to / _FILE,
        json.dumps(asdict(story), indent=1, ensure_ascii=False, allow_nan=False).encode(),
    )


def read_stories(folder: Path, names: Sequence[str]) -> list[Story]:
    """Return the experiments that were computed so far, in the given order."""
    found = []
    for name in names:
        try:
            plain = json.loads((folder / name / _FILE).read_text(encoding="utf-8"))
            verdicts = [Verdict(**verdict) for verdict in plain.pop("verdicts")]
            story = Story(**plain, verdicts=verdicts)
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            continue  # not computed yet, or by a version that told other things
        if all((folder / name / file).is_file() for file in story.figures.values()):
            found.append(story)
    return found


def table_of(run: str, curves: Curves) -> list[dict[str, Any]]:
    """Return mean and deviation over folds of every setting, on every measured column."""
    rows = []
    for curve in (curve.merged for curve in curves.values()):
        unit = curve.study.config.data.declaration.target_unit
        low, high = curve.study.loaded.table.target_range
        for i, result in enumerate(curve.results):
            for column in curve.study.inputs.measure_on:
                row: dict[str, Any] = {"run": run, "curve": curve.label, "setting": curve.words(i)}
                row |= {"column": column, "unit": unit}
                row["own_mae"] = result.mean(MAE, column) * (high - low)
                row["rmse"], row["rmse_std"] = _rmse(result, column)
                for measure in SCORES:
                    row[measure] = result.mean(measure, column)
                    row[f"{measure}_std"] = result.std(measure, column)
                rows.append(row)
    return rows


def _rmse(result: TrialResult, column: str) -> tuple[float, float]:
    """Return mean and deviation over folds of the root of the mean squared error."""
    found = np.sqrt(result.values("mse", column))
    return float(found.mean(axis=0)), float(found.std(axis=0))


def _tidy(run: str, curve: Curve) -> pd.DataFrame:
    """Return one row per setting, seed, fold and measured column of a curve."""
    data, parts = curve.study.config.data, []
    for seed, alone in curve.by_seed.items():
        frame = tidy(alone.results, data.problem, data.sensitive)
        for place, (name, value) in enumerate({"run": run, "curve": curve.label}.items()):
            frame.insert(place, name, value)
        frame.insert(list(frame.columns).index("fold"), "seed", seed)
        parts.append(frame)
    return pd.concat(parts)


def record_studies(studies: Iterable[Study]) -> tuple[int, list[str]]:
    """Fill MLflow with the trials of an experiment's runs; return how many were new, what failed.

    Every study is tried: what `fkd sync` needs to find it later is written on the way.
    """
    added, problems = 0, []
    for study in studies:
        data = study.config.data
        take_folder(study)
        write_results(tidy(study.results(), data.problem, data.sensitive), study.folder)
        try:
            added += record_trials(study)
            record_files(study)
        except TrackingUnreachableError as error:
            problems.append(str(error))
    return added, problems


def record_story(story: Story, settings: Settings, folder: Path) -> None:
    """Put counts of verdicts, figures and tables on a run of the experiment's name."""
    tracking = Tracking(settings, story.prefix)
    run = tracking.parent_run(f"story-{story.prefix}", story.title, {"fkd.version": __version__})
    tags = {f"fkd.claims.{as_.replace(' ', '_')}": str(story.count(as_)) for as_ in COUNTS}
    tracking.finish(run, tags, folder)
