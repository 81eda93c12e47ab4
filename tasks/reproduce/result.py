"""The results of experiments: files, runs in MLflow, and one page with all of them."""

import base64
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from configs.reproduction import (
    ExperimentConfig,
    read_experiment,
    read_otherwise,
    reading_words,
    statements,
)
from fkd import __version__
from tasks.report.html import CONTENT_POLICY, render_page, shown
from tasks.reproduce.claims import COUNTS, Verdict, count, headline
from tasks.reproduce.curves import Curve, Curves, recovered_table, run_figure
from tasks.select.results import MAE, SCORES, tidy, write_results
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
class ExperimentResult:
    """The results of an experiment. The fields are the keys of story.json.

    Parameters
    ----------
    name, title, question
        As in the file of the experiment.
    collection, prefix
        The folder of its page, and the name of its runs in MLflow.
    finished
        Day and time.
    quick
        True if few rows, folds and settings were computed.
    reading, unread
        The keys of the data that differ from the published ones, and the runs that they do not
        change with the reason.
    draws
        The number of draws behind each interval.
    rows
        The number and the source of the rows by run; synthetic rows are marked.
    absent, left_out
        The runs and the curves that were not computed, with the reason.
    incomplete
        One sentence per curve with failed settings.
    figures
        The name of the PNG file by run.
    table
        Mean and standard deviation over folds of every setting.
    verdicts, seconds
        The verdicts on the claims, and the duration.
    recovered
        R² of probes before and after the removal by curve.
    """

    name: str
    collection: str
    prefix: str
    title: str
    question: str
    finished: str
    quick: bool
    reading: dict[str, Any]
    unread: dict[str, str]
    draws: int
    rows: dict[str, str]
    absent: dict[str, str]
    left_out: dict[str, str]
    incomplete: list[str]
    figures: dict[str, str]
    table: list[dict[str, Any]] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    seconds: float = 0.0
    recovered: list[dict[str, Any]] = field(default_factory=list)

    @property
    def outdated(self) -> bool:
        """True if the file of the experiment has other claims now."""
        shipped = read_experiment(self.name)
        if self.reading:
            shipped = read_otherwise(shipped, self.reading)
        return {verdict.says for verdict in self.verdicts} != set(statements(shipped))

    @property
    def counts(self) -> list[str]:
        """Its name and title, and the number of claims by verdict."""
        return [f"{self.name} {self.title}", *(str(self.count(as_)) for as_ in COUNTS)]

    def count(self, as_: str) -> int:
        """Return the number of claims that count as `as_`."""
        return count(self.verdicts, as_)


def make_result(
    experiment: ExperimentConfig,
    curves: AllCurves,
    absent: Mapping[str, str],
    verdicts: Sequence[Verdict],
    rows: Mapping[str, str],
    *,
    draws: int,
) -> ExperimentResult:
    """Return the result of an experiment from its curves and verdicts."""
    failed = {
        f"{label} on {run}": str(found[label].missing) if label in found else "all"
        for run, found in curves.items()
        for label in experiment.runs[run].curves
        if label not in found or found[label].missing
    }
    return ExperimentResult(
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
        incomplete=[
            f"{place}: {number} settings failed; `fkd status` has the causes."
            for place, number in failed.items()
        ],
        figures={run: f"{run}.png" for run, found in curves.items() if found},
        table=[row for run, found in curves.items() for row in _settings_table(run, found)],
        verdicts=list(verdicts),
        recovered=[
            row
            for run, found in curves.items()
            if experiment.runs[run].recoverability
            for row in recovered_table(run, found)
        ],
    )


def _settings_table(run: str, curves: Curves) -> list[dict[str, Any]]:
    """Return mean and standard deviation over folds of every setting, on every measured column."""
    rows = []
    for curve in (curve.merged for curve in curves.values()):
        low, high = curve.study.loaded.table.target_range
        for i, result in enumerate(curve.results):
            for column in curve.study.inputs.measure_on:
                rmse = np.sqrt(result.values("mse", column))
                row: dict[str, Any] = {
                    "run": run,
                    "curve": curve.label,
                    "setting": curve.words(i),
                    "column": column,
                    "unit": curve.study.config.data.declaration.target_unit,
                    "own_mae": result.mean(MAE, column) * (high - low),
                    "rmse": float(rmse.mean(axis=0)),
                    "rmse_std": float(rmse.std(axis=0)),
                }
                for measure in SCORES:
                    row[measure] = result.mean(measure, column)
                    row[f"{measure}_std"] = result.std(measure, column)
                rows.append(row)
    return rows


def write_result(
    result: ExperimentResult, experiment: ExperimentConfig, curves: AllCurves, to: Path
) -> None:
    """Write figures, results.csv, claims.csv and story.json of an experiment into its folder."""
    for old in to.glob("*.png"):
        old.unlink()
    for run, file in result.figures.items():
        write_atomic(to / file, run_figure(experiment.runs[run], experiment.figure, curves[run]))
    frames = [_tidy(run, curve) for run, found in curves.items() for curve in found.values()]
    if frames:
        write_atomic(to / "results.csv", pd.concat(frames).to_csv(index=False).encode())
    claims = pd.DataFrame([asdict(verdict) for verdict in result.verdicts])
    write_atomic(to / "claims.csv", claims.to_csv(index=False).encode())
    text = json.dumps(asdict(result), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(to / _FILE, text.encode())


def _tidy(run: str, curve: Curve) -> pd.DataFrame:
    """Return one row per setting, seed, fold and measured column of a curve."""
    parts = []
    for seed, alone in curve.by_seed.items():
        frame = tidy(alone.results, curve.study.config.data)
        frame.insert(0, "run", run)
        frame.insert(1, "curve", curve.label)
        frame.insert(list(frame.columns).index("fold"), "seed", seed)
        parts.append(frame)
    return pd.concat(parts)


def read_results(folder: Path, names: Sequence[str]) -> list[ExperimentResult]:
    """Return the results of the experiments that were computed, in the given order."""
    found = []
    for name in names:
        try:
            plain = json.loads((folder / name / _FILE).read_text(encoding="utf-8"))
            verdicts = [Verdict(**verdict) for verdict in plain.pop("verdicts")]
            result = ExperimentResult(**plain, verdicts=verdicts)
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            continue  # not computed yet, or written with other keys
        if all((folder / name / file).is_file() for file in result.figures.values()):
            found.append(result)
    return found


def record_studies(studies: Iterable[Study]) -> tuple[int, list[str]]:
    """Record the trials of an experiment in MLflow; return the number of new ones and problems.

    A study that MLflow does not accept stops no other. Its files are written for `fkd sync`.
    """
    added, problems = 0, []
    for study in studies:
        take_folder(study)
        write_results(study.results(), study.config.data, study.folder)
        try:
            added += record_trials(study)
            record_files(study)
        except TrackingUnreachableError as error:
            problems.append(str(error))
    return added, problems


def record_result(result: ExperimentResult, settings: Settings, folder: Path) -> None:
    """Record counts of verdicts and the files of an experiment in a run of its name."""
    tracking = Tracking(settings, result.prefix)
    run = tracking.parent_run(f"story-{result.prefix}", result.title, {"fkd.version": __version__})
    tags = {f"fkd.claims.{as_.replace(' ', '_')}": str(result.count(as_)) for as_ in COUNTS}
    tracking.finish(run, tags, folder)


WIDTH = 130.0
_MARGIN = 0.06  # of the scale, on both sides: room for a marker at an end
_CLAIM_HEADINGS = ("claim", "verdict", "number", "95 % interval", "folds", "by RMSE", "interval")
_PROBE_HEADINGS = ("data", "curve", "setting", "column", "HGR", "probe", "R² before", "R² after")


@dataclass(frozen=True)
class Bar:
    """An interval and the range in which the claim is true, in units of the drawing."""

    true_from: float
    true_to: float
    low: float
    value: float
    high: float


def bars(verdicts: Sequence[Verdict]) -> list[Bar | None]:
    """Return a bar per verdict, None without an interval. Equal units share a scale."""
    scales: dict[str, list[float]] = defaultdict(list)
    for one in verdicts:
        shown = (one.low, one.value, one.high, one.true_above, one.true_below)
        scales[one.unit] += [number for number in shown if number is not None]
    return [_bar(verdict, scales[verdict.unit]) for verdict in verdicts]


def _bar(verdict: Verdict, scale: Sequence[float]) -> Bar | None:
    if verdict.low is None or verdict.value is None or verdict.high is None:
        return None
    start = min(scale)
    span = (max(scale) - start) or 1.0  # any width will do for equal numbers

    def place(number: float) -> float:
        return WIDTH * (_MARGIN + (1 - 2 * _MARGIN) * (number - start) / span)

    return Bar(
        true_from=0.0 if verdict.true_above is None else place(verdict.true_above),
        true_to=WIDTH if verdict.true_below is None else place(verdict.true_below),
        low=place(verdict.low),
        value=place(verdict.value),
        high=place(verdict.high),
    )


def write_page(results: Sequence[ExperimentResult], folder: Path) -> Path:
    """Write report.html and summary.md of all experiments; return the path of the page."""
    verdicts = [verdict for result in results for verdict in result.verdicts]
    text = render_page(
        "reproduction.html.j2",
        title="The paper's experiments, reproduced",
        package="tasks.reproduce",
        policy=f"{CONTENT_POLICY}; img-src data:",
        results=results,
        images={
            (result.name, run): "data:image/png;base64,"
            + base64.b64encode((folder / result.name / file).read_bytes()).decode()
            for result in results
            for run, file in result.figures.items()
        },
        counts=COUNTS,
        headlines=[headline(verdicts, ours=ours) for ours in (False, True)],
        readings=list(dict.fromkeys(reading_words(r.reading) for r in results if r.reading)),
        synthetic=any("SYNTHETIC" in text for result in results for text in result.rows.values()),
        number=number,
        span=span,
        seeds_of=seeds_of,
        bars={result.name: bars(result.verdicts) for result in results},
        bar_width=WIDTH,
        shown=shown,
    )
    page = folder / "report.html"
    write_atomic(page, text.encode())
    write_atomic(folder / "summary.md", summary(results).encode())
    return page


def number(value: float | None) -> str:
    """Return three digits of a statistic, with a minus sign."""
    if value is None:
        return ""
    text = f"{value:.3g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e}"
    return text.replace("-", "−")


def span(low: float | None, high: float | None) -> str:
    """Return an interval, empty if it is unknown."""
    return "" if low is None else f"{number(low)} to {number(high)}"


def seeds_of(verdict: Verdict, *, rmse: bool = False) -> str:
    """Return the range of a statistic over seeds, and under how many the claim is true."""
    true, low, high = (
        (verdict.rmse_seeds_true, verdict.rmse_seeds_low, verdict.rmse_seeds_high)
        if rmse
        else (verdict.seeds_true, verdict.seeds_low, verdict.seeds_high)
    )
    return "" if true is None else f"{span(low, high)}; true in {true} of {verdict.seeds}"


def summary(results: Sequence[ExperimentResult]) -> str:
    """Return the verdicts as Markdown."""
    verdicts = [verdict for result in results for verdict in result.verdicts]
    lines = [f"{headline(verdicts, ours=ours)}\n" for ours in (False, True)]
    lines += _table(("experiment", *COUNTS), [result.counts for result in results])
    for result in results:
        lines += ["", f"## {result.name}: {result.title}", "", result.question, ""]
        lines += [f"{text}\n" for text in _caveats(result)]
        several = any(verdict.seeds for verdict in result.verdicts)
        lines += _table(
            (*_CLAIM_HEADINGS, *(("seeds", "seeds, by RMSE") if several else ())),
            [_claim_row(verdict, seeds=several) for verdict in result.verdicts],
        )
        probes = [
            (
                *(row[name] for name in ("run", "curve", "setting", "column")),
                f"{row['hgr']:.3f}",
                row["probe"],
                *(f"{row[name]:.3f} ± {row[name + '_std']:.3f}" for name in ("before", "after")),
            )
            for row in result.recovered
        ]
        lines += ["", *_table(_PROBE_HEADINGS, probes)] if probes else []
    return "\n".join(lines) + "\n"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [headings, ["---"] * len(headings), *escaped]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _caveats(result: ExperimentResult) -> list[str]:
    """Return why the verdicts are no verdicts on the paper, or not under its reading."""
    words = reading_words(result.reading)
    return [
        *(["A quick run: its verdicts say nothing about the paper."] if result.quick else []),
        *([f"Read otherwise than published: {words}."] if words else []),
        *(f"{run} is not judged again: {reason}." for run, reason in result.unread.items()),
        *(f"{run}: {text}." for run, text in result.rows.items() if "SYNTHETIC" in text),
    ]


def _claim_row(verdict: Verdict, *, seeds: bool) -> tuple[str, ...]:
    """Return one claim as the cells of a row."""
    constant = f" ({verdict.collapsed} is a constant)" if verdict.collapsed else ""
    return (
        verdict.says,
        verdict.text + constant,
        number(verdict.value),
        span(verdict.low, verdict.high),
        "" if verdict.folds is None else f"{verdict.folds_true} of {verdict.folds}",
        number(verdict.rmse_value),
        span(verdict.rmse_low, verdict.rmse_high),
        *((seeds_of(verdict), seeds_of(verdict, rmse=True)) if seeds else ()),
    )
