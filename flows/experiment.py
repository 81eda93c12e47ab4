"""The experiment as a Prefect flow: fetch, plan, build kernels, fit, log, select, report."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from prefect import flow

from configs.errors import UserError
from configs.run import RunConfig
from flows import fitting
from flows.errors import as_user_error
from flows.fitting import SweepState, fit_all
from flows.messages import bound, post_markdown, run_log, tagged_run
from flows.outcome import Cell, Outcome, cells_markdown, check_end, result_markdown
from flows.stages import experiment_run_name, run_tags, step, sweep_run_name
from tasks.data.load import remarks
from tasks.report.model import report_data
from tasks.report.narrative import finding_of
from tasks.report.page import write_report as write_page
from tasks.select import champion
from tasks.select.champion import NoChampionError
from tasks.select.results import write_results
from tasks.select.study import Study, study_opener
from tasks.storage.settings import read_settings, scrubbed
from tasks.track.client import TrackingUnreachableError
from tasks.track.recording import record_champion, record_files, record_trials
from tasks.track.run_index import note_time, take_folder

T = TypeVar("T")


@dataclass(frozen=True)
class Done:
    """The end of a task. Prefect draws an edge to each task that takes it."""

    messages: tuple[str, ...] = ()  # of what could not be done
    result: Any = None


@flow(name="experiment", flow_run_name=experiment_run_name, persist_result=False)
def experiment(config: RunConfig) -> Cell:
    """Fetch, fit, log, select and report one configuration."""
    cells = run_all([config])
    check_end(cells)
    return cells[0]


@flow(name="sweep", flow_run_name=sweep_run_name, persist_result=False)
def sweep(configs: list[RunConfig]) -> list[Cell]:
    """Fit several configurations on one cluster, then finish each; raise if some failed."""
    cells = run_all(configs)
    check_end(cells)
    return cells


def run_all(configs: Sequence[RunConfig]) -> list[Cell]:
    """Run all tasks for several configurations and return their results.

    One of several that fails does not stop the others: its error is its result. The error of a
    single one is raised.
    """
    start, opened = time.monotonic(), study_opener(read_settings())
    name = configs[0].name if len(configs) == 1 else None
    attempt = _attempt if len(configs) > 1 else _call
    with tagged_run(run_tags(configs)), bound(run=name):
        loaded = [attempt(config, fetch_data, config, opened) for config in configs]
        studies = [study for study in loaded if isinstance(study, Study)]
        state = fit_studies(studies) if studies else None
        fitted = iter(() if state is None else zip(state.studies, state.computed, strict=True))
        cells = []
        for config, end in zip(configs, loaded, strict=True):
            if isinstance(end, UserError):
                cells.append(Cell(config, end))
                continue
            study, computed = next(fitted)
            outcome = attempt(config, finish, study, start if computed else None, state)
            cells.append(Cell(config, outcome))
        if len(cells) > 1:
            post_markdown("sweep", cells_markdown(cells), "Runs of the sweep")
    return cells


def _call(config: RunConfig, action: Callable[..., T], *arguments: Any) -> T:
    """Return the result of an action for one run."""
    with bound(run=config.name):
        return action(*arguments)


def _attempt(config: RunConfig, action: Callable[..., T], *arguments: Any) -> T | UserError:
    """Return the result of an action for one run, or its error as a user reads it."""
    try:
        return _call(config, action, *arguments)
    except Exception as error:
        found = as_user_error(error)
        if found is not error:
            found.__cause__ = error  # for --debug
        run_log().log(f"{config.name} failed: {scrubbed(str(found))}", "error")
        return found


def fit_studies(studies: Sequence[Study]) -> SweepState:
    """Compute the missing fits of studies, with a Prefect task for each step."""
    state = plan_trials(list(studies))
    fit_all(studies, state, build=build_kernels, fit=fit_trials)
    return state


def finish(study: Study, start: float | None, state: SweepState | None = None) -> Outcome:
    """Log, select, report and register the stored results of a study.

    Parameters
    ----------
    study
        A study whose fits are computed.
    start
        Time when computing began, None if all fits were stored: then the time of the earlier run
        counts.
    state
        Result of the fits, for Prefect's graph.
    """
    name = study.config.name
    with bound(run=name):
        logged = log_to_mlflow(study, state)
        selected = select_champion(study, logged)
        page = write_report(study, start, selected)
        registered = register_champion(study, page)
        messages = logged.messages + selected.messages + registered.messages
        outcome = Outcome.of(study, page.result, messages)
        post_markdown(f"result-{name}", result_markdown(outcome), f"Result of {name}")
    return outcome


@step("fetch data")
def fetch_data(config: RunConfig, opened: Callable[[RunConfig], Study]) -> Study:
    """Return the study of a configuration, with its table verified and prepared."""
    study = opened(config)
    study.size()  # splits the rows, so that too few rows are refused before any fit
    _log_rows(study)
    return study


def _log_rows(study: Study) -> None:
    """Log how many rows were read, dropped and used."""
    origin = study.loaded.provenance
    dropped = ", ".join(f"{rows} {why}" for why, rows in origin["rows_dropped"].items())
    run_log().log(
        f"{study.config.data.problem} from {origin['source']}: {origin['rows_read']} rows read, "
        f"{origin['rows_used']} used"
        + (f" (dropped: {dropped})" if dropped else "")
        + (" — SYNTHETIC data" if origin["synthetic"] else "")
    )
    for remark in remarks(origin):
        run_log().log(remark)


@step("plan trials")
def plan_trials(studies: list[Study]) -> SweepState:
    """Return the trials of the studies whose results are not stored."""
    return SweepState(studies)


build_kernels = step("build kernels")(fitting.build_kernels)
fit_trials = step("fit trials")(fitting.fit_trials)


@step("log to MLflow")
def log_to_mlflow(study: Study, state: SweepState | None) -> Done:
    """Write results.csv and one MLflow run per trial."""
    take_folder(study)
    write_results(study.results(), study.config.data, study.folder)
    try:
        added = record_trials(study)
    except TrackingUnreachableError as error:
        return Done((str(error),))
    run_log().log(f"MLflow: {added} new trial runs of {len(study.results())}")
    return Done()


@step("select champion")
def select_champion(study: Study, logged: Done) -> Done:
    """Select the champion on inner folds and refit it."""
    if study.config.select is None:
        return Done()
    try:
        selected = champion.select_champion(study)
    except NoChampionError as error:
        return Done((str(error),))
    run_log().log(f"champion: {selected.title}")
    return Done()


@step("write report")
def write_report(study: Study, start: float | None, selected: Done) -> Done:
    """Write the report and return its path."""
    if start is not None:
        note_time(study, time.monotonic() - start)
    return Done(result=str(write_page(study)))


@step("register champion")
def register_champion(study: Study, page: Done) -> Done:
    """Register the champion and attach the report to the parent run."""
    try:
        record_champion(study, finding_of(report_data(study, curves=False)))
        record_files(study)
    except TrackingUnreachableError as error:
        return Done((str(error),))
    return Done()
