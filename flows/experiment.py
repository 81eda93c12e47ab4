"""The experiment as a Prefect flow: load, fit, record, select, report."""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from prefect import flow

from configs.errors import UserError
from configs.run import RunConfig
from flows.errors import as_user_error
from flows.fitting import FitEnd, fit_all
from flows.log_lines import bound
from flows.outcome import Cell, Outcome, cells_markdown, check_end, result_markdown
from flows.prefect_page import post_markdown, tagged_run
from flows.progress import watcher
from flows.stages import experiment_run_name, run_tags, stage, sweep_run_name
from tasks.data.load import remarks
from tasks.report.model import report_data
from tasks.report.narrative import finding_of
from tasks.report.page import write_report
from tasks.select.champion import select_champion
from tasks.select.results import tidy, write_results
from tasks.select.selection import NoChampionError
from tasks.select.study import Study, study_opener
from tasks.storage.settings import read_settings, scrubbed
from tasks.track.client import TrackingUnreachableError
from tasks.track.recording import record_champion, record_files, record_trials
from tasks.track.run_index import note_time, take_folder

T = TypeVar("T")


@flow(name="experiment", flow_run_name=experiment_run_name, persist_result=False)
def experiment(config: RunConfig) -> Cell:
    """Load, fit, record, select and report one configuration."""
    cells = run_all([config])
    check_end(cells)
    return cells[0]


@flow(name="sweep", flow_run_name=sweep_run_name, persist_result=False)
def sweep(configs: list[RunConfig]) -> list[Cell]:
    """Fit several configurations on one cluster, then conclude each; raise if some failed."""
    cells = run_all(configs)
    check_end(cells)
    return cells


def run_all(configs: Sequence[RunConfig]) -> list[Cell]:
    """Take configurations through all stages and return their results.

    One of several that fails does not stop the others: its error is its result. The error of a
    single one is raised.
    """
    start, opened = time.monotonic(), study_opener(read_settings())
    name = configs[0].name if len(configs) == 1 else None
    attempt = _attempt if len(configs) > 1 else _call
    with tagged_run(run_tags(configs)), bound(run=name):
        loaded = [attempt(config, load, config, opened) for config in configs]
        studies = [study for study in loaded if isinstance(study, Study)]
        computed = iter(fit(studies).computed if studies else ())
        cells = [
            Cell(
                config,
                attempt(config, _conclude_again, study, start if next(computed) else None)
                if isinstance(study, Study)
                else study,
            )
            for config, study in zip(configs, loaded, strict=True)
        ]
        if len(cells) > 1:
            post_markdown("sweep", cells_markdown(cells), "Runs of the sweep")
    return cells


def _call(config: RunConfig, stage: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a stage of one run."""
    with bound(run=config.name):
        return stage(*arguments)


def _attempt(config: RunConfig, stage: Callable[..., T], *arguments: Any) -> T | UserError:
    """Return the result of a stage of one run, or its error as a person is shown it."""
    try:
        return _call(config, stage, *arguments)
    except Exception as error:
        found = as_user_error(error)
        if found is not error:
            found.__cause__ = error  # for --debug
        watcher().say(f"{config.name} failed: {scrubbed(str(found))}", "error")
        return found


def _conclude_again(study: Study, start: float | None) -> Outcome:
    """Conclude a study with the trials that are known by now: fits may have added some."""
    return conclude(study.again(), start)


def conclude(study: Study, start: float | None) -> Outcome:
    """Record, select, report and publish what the store holds of a study.

    Parameters
    ----------
    study
        What was computed.
    start
        When computing began, None where all was stored: then the time of an earlier run holds.
    """
    name = study.config.name
    with bound(run=name):
        notices = record(study)
        notices += select(study)
        page = report(study, start)
        notices += publish(study)
        outcome = Outcome.of(study, page, notices)
        post_markdown(f"result-{name}", result_markdown(outcome), f"Result of {name}")
    return outcome


@stage
def load(config: RunConfig, opened: Callable[[RunConfig], Study]) -> Study:
    """Return the study of a configuration, opened once for all stages."""
    study = opened(config)
    study.size()  # cuts the folds, so that too few rows are refused before any fit
    _tell_rows(study)
    return study


def _tell_rows(study: Study) -> None:
    """Say how many rows were read, dropped and used."""
    story = study.loaded.provenance
    dropped = ", ".join(f"{rows} {why}" for why, rows in story["rows_dropped"].items())
    watcher().say(
        f"{study.config.data.problem} from {story['source']}: {story['rows_read']} rows read, "
        f"{story['rows_used']} used"
        + (f" (dropped: {dropped})" if dropped else "")
        + (" — SYNTHETIC data" if story["synthetic"] else "")
    )
    for remark in remarks(story):
        watcher().say(remark)


@stage
def fit(studies: list[Study]) -> FitEnd:
    """Compute on the cluster what is not stored yet; return how that ended."""
    return fit_all(studies)


@stage
def record(study: Study) -> tuple[str, ...]:
    """Write results.csv, fill MLflow; return what could not be done, in sentences."""
    data = study.config.data
    frame = tidy(study.results(), data.problem, data.sensitive)
    take_folder(study)
    write_results(frame, study.folder)
    try:
        added = record_trials(study)
    except TrackingUnreachableError as error:
        return (str(error),)
    watcher().say(f"MLflow: {added} new trial runs of {len(study.results())}")
    return ()


@stage
def select(study: Study) -> tuple[str, ...]:
    """Select the champion on inner folds and refit it; return why there is none, if so."""
    if study.config.select is None:
        return ()
    try:
        champion = select_champion(study)
    except NoChampionError as error:
        return (str(error),)
    watcher().say(f"champion: {champion.title}")
    return ()


@stage
def report(study: Study, start: float | None) -> str:
    """Return the path of the written report."""
    if start is not None:
        note_time(study, time.monotonic() - start)
    return str(write_report(study))


@stage
def publish(study: Study) -> tuple[str, ...]:
    """Register the champion, put figures and report on the parent run; return what failed."""
    try:
        record_champion(study, finding_of(report_data(study, curves=False)))
        record_files(study)
    except TrackingUnreachableError as error:
        return (str(error),)
    return ()
