"""The experiment as a Prefect flow: load, fit, record, select, report."""

import time
from collections.abc import Sequence

from prefect import flow

from configs.schema import RunConfig
from flows.ending import check_end
from flows.fitting import fit_all
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
from tasks.report.page import render
from tasks.report.text import finding_of
from tasks.study.champion import select_champion
from tasks.study.known_runs import note_time
from tasks.study.opening import open_study
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
    with tagged_run(run_tags(configs)):
        for config in configs:
            load(config)
        fresh = [bool(open_study(c, read_settings()).missing(again=True)) for c in configs]
        fit(list(configs))
        return [
            conclude(config, start if computed else None)
            for config, computed in zip(configs, fresh, strict=True)
        ]


def conclude(config: RunConfig, start: float | None) -> Outcome:
    """Record, select, report and publish what the store holds of a configuration.

    Parameters
    ----------
    config
        What was computed.
    start
        When computing began, None where all was stored: then the time of an earlier run holds.
    """
    notices = record(config)
    notices += select(config)
    page = report(config, start)
    notices += publish(config)
    outcome = Outcome.of(open_study(config, read_settings()), page, notices)
    post_markdown(f"result-{config.name}", result_markdown(outcome), f"Result of {config.name}")
    return outcome


@stage
def load(config: RunConfig) -> dict[str, object]:
    """Return how many rows were read, dropped and used; the table is prepared on disk."""
    story = open_study(config, read_settings()).loaded.provenance
    dropped = ", ".join(f"{rows} {why}" for why, rows in story["rows_dropped"].items())
    watcher().say(
        f"{config.data.problem} from {story['source']}: {story['rows_read']} rows read, "
        f"{story['rows_used']} used"
        + (f" (dropped: {dropped})" if dropped else "")
        + (" — SYNTHETIC data" if story["synthetic"] else "")
    )
    for remark in remarks(story):
        watcher().say(remark)
    return {name: story[name] for name in ("rows_read", "rows_dropped", "rows_used")}


@stage
def fit(configs: list[RunConfig]) -> int:
    """Compute on the cluster what is not stored yet; return the number of fits that failed."""
    return fit_all(configs, read_settings())


@stage
def record(config: RunConfig) -> tuple[str, ...]:
    """Write results.csv, fill MLflow; return what could not be done, in sentences."""
    study = open_study(config, read_settings())
    frame = tidy(study.results(), config.data.problem, config.data.sensitive)
    write_results(frame, study.folder)
    try:
        added = record_trials(study)
    except TrackingUnreachableError as error:
        return (str(error),)
    watcher().say(f"MLflow: {added} new trial runs of {len(study.results())}")
    return ()


@stage
def select(config: RunConfig) -> tuple[str, ...]:
    """Select the champion on inner folds and refit it; return why there is none, if so."""
    if config.select is None:
        return ()
    try:
        champion = select_champion(open_study(config, read_settings()))
    except NoChampionError as error:
        return (str(error),)
    watcher().say(f"champion: {champion.title}")
    return ()


@stage
def report(config: RunConfig, start: float | None) -> str:
    """Return the path of the written report."""
    study = open_study(config, read_settings())
    if start is not None:
        note_time(study, time.monotonic() - start)
    return str(render(report_data(study), study.folder).html)


@stage
def publish(config: RunConfig) -> tuple[str, ...]:
    """Register the champion, put figures and report on the parent run; return what failed."""
    study = open_study(config, read_settings())
    try:
        record_champion(study, finding_of(report_data(study, curves=False)))
        record_files(study)
    except TrackingUnreachableError as error:
        return (str(error),)
    return ()
