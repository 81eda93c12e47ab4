"""The experiment as a Prefect flow: load, fit, record, select, report."""

import time
from collections.abc import Sequence

from prefect import flow

from configs.schema import RunConfig
from flows.ending import check_end
from flows.fitting import FitEnd, fit_all
from flows.log_lines import bound
from flows.outcome import Outcome
from flows.progress import watcher
from flows.result_page import result_markdown
from flows.run_label import experiment_run_name, run_tags, sweep_run_name
from flows.run_page import post_markdown, tagged_run
from flows.stage import stage
from tasks.adapters.reachable import TrackingUnreachableError
from tasks.adapters.settings import read_settings
from tasks.data.load import remarks
from tasks.report.gather import report_data
from tasks.report.text import finding_of
from tasks.report.writing import write_report
from tasks.study.champion import select_champion
from tasks.study.known_runs import note_time, take_folder
from tasks.study.opening import Study, open_studies
from tasks.study.recording import record_champion, record_files, record_trials
from tasks.study.results import tidy, write_results
from tasks.study.selection import NoChampionError


@flow(name="experiment", flow_run_name=experiment_run_name, persist_result=False)
def experiment(config: RunConfig) -> Outcome:
    """Load, fit, record, select and report one configuration; return what was made."""
    (outcome,) = run_all([config])
    check_end([outcome])
    return outcome


@flow(name="sweep", flow_run_name=sweep_run_name, persist_result=False)
def sweep(configs: list[RunConfig]) -> list[Outcome]:
    """Fit several configurations on one cluster, then conclude each; return what was made."""
    outcomes = run_all(configs)
    check_end(outcomes)
    return outcomes


def run_all(configs: Sequence[RunConfig]) -> list[Outcome]:
    """Take configurations through all stages; return what was made, good or bad."""
    start = time.monotonic()
    name = configs[0].name if len(configs) == 1 else None
    with tagged_run(run_tags(configs)), bound(run=name):
        studies = load(list(configs))
        end = fit(studies)
        return [
            # What has been computed may have brought further trials.
            conclude(study.again(), start if computed else None)
            for study, computed in zip(studies, end.computed, strict=True)
        ]


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
def load(configs: list[RunConfig]) -> list[Study]:
    """Return the studies, opened once for all stages; their tables are prepared on disk."""
    studies = []
    for study in open_studies(configs, read_settings()):
        _tell_rows(study)
        studies.append(study)
    return studies


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
