"""`fkd reproduce` as a Prefect flow: run the paper's experiments and judge its claims."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from prefect import flow
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError, check_name
from configs.load import apply_overrides, parse_config
from configs.reproduction import (
    READING_KEYS,
    ExperimentConfig,
    experiment_names,
    is_network,
    parse_experiment,
    quick,
    read_experiment,
    read_otherwise,
    reading_slug,
    reading_words,
    synthetic,
    without,
)
from configs.run import ClusterConfig
from fkd import __version__
from fkd.methods.declaration import Method
from flows.fitting import fit_all, run_counted
from flows.log_lines import is_json, write_line
from flows.outcome import file_link, markdown_table
from flows.prefect_page import post_markdown, tagged_run
from flows.progress import run_log
from flows.stages import reproduction_run_name, step
from tasks.cluster.cluster import connect
from tasks.cluster.retries import Failed
from tasks.data.load import describe_rows
from tasks.reproduce.claims import COUNTS, DRAWS, headline, verdicts_on
from tasks.reproduce.curves import seeded_curves
from tasks.reproduce.page import write_page
from tasks.reproduce.recovery import recover_job, recovery_jobs
from tasks.reproduce.resample import resample
from tasks.reproduce.result import (
    ExperimentResult,
    make_result,
    read_results,
    record_result,
    record_studies,
    write_result,
)
from tasks.select.study import Study, study_opener
from tasks.servers.servers import prefect_server
from tasks.storage.settings import Settings, ensure_writable, read_settings
from tasks.track.client import TrackingUnreachableError

_GROUPS = ("neural",)


def reproduce_paper(
    names: Sequence[str],
    leave_out: Sequence[str] = (),
    overrides: Sequence[str] = (),
    *,
    is_quick: bool = False,
) -> None:
    """Compute and judge experiments; print their verdicts and the path of the page."""
    start = time.monotonic()
    cluster, reading = _settings(overrides)
    trees = chosen_trees(names, leave_out, is_quick=is_quick)
    trees, unread = _read(trees, reading) if reading else (trees, [])
    for tree in trees:
        parse_experiment(tree)  # reports faults before any work
    settings = read_settings()
    ensure_writable(settings.home)
    run_log().log(f"{len(trees)} experiments of the paper (state in {settings.home})")
    for sentence in unread:
        run_log().log(f"left out: {sentence}")
    with prefect_server(settings):
        # Prefect reads its environment variables when it is first imported.
        from flows.reproduce import reproduce

        try:
            found, problem = reproduce(trees, cluster), None
        except IncompleteError as error:
            found, problem = error.found, error
    found.show(time.monotonic() - start)
    if problem is not None:
        raise problem


def chosen_trees(
    names: Sequence[str], leave_out: Sequence[str] = (), *, is_quick: bool = False
) -> list[dict[str, Any]]:
    """Return the chosen experiments as they will run."""
    return [_tree(name, leave_out, is_quick=is_quick) for name in _chosen(names)]


def _settings(overrides: Sequence[str]) -> tuple[ClusterConfig, dict[str, Any]]:
    """Return the cluster and the keys of the data that --set changes."""
    tree = apply_overrides({}, overrides)
    if idle := sorted(set(tree) - {"cluster", "data"}):
        raise UserError(
            "--set of fkd reproduce must name keys of cluster, or of data "
            f"({', '.join(READING_KEYS)}), got {', '.join(idle)}. Other keys of the experiments "
            "are fixed."
        )
    reading = tree.pop("data", {})
    if not isinstance(reading, dict):
        raise UserError(f"--set data must name a key, such as data.drop=[], got {reading!r}.")
    # Parsed as a run, so that errors read as everywhere.
    return parse_config({"methods": ["dummy"], **tree}, "--set").cluster, reading


def _read(
    trees: Sequence[dict[str, Any]], reading: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the experiments with changed data keys, and why others cannot have them."""
    found, unread = list[dict[str, Any]](), list[str]()
    for tree in trees:
        try:
            found.append(read_otherwise(tree, reading))
        except UserError as error:
            unread.append(str(error))
    if not found:
        raise UserError(" ".join(dict.fromkeys(unread)))
    return found, unread


def _chosen(names: Sequence[str]) -> list[str]:
    """Return the names of the chosen experiments without duplicates."""
    known = experiment_names()
    meant = [name for given in names for name in (known if given == "all" else (given,))]
    return list(dict.fromkeys(meant))


def _tree(name: str, leave_out: Sequence[str], *, is_quick: bool) -> dict[str, Any]:
    """Return one experiment as it will run."""
    for group in leave_out:
        try:
            check_name(group, _GROUPS, key="--without")
        except ValueError as error:
            raise UserError(f"{error}.") from None

    def reason(declared: Method) -> str | None:
        if is_network(declared) and "neural" in leave_out:
            return "--without neural leaves out the networks"
        if declared.extra is not None and declared.extra.missing():
            return f"{declared.title} needs {', '.join(declared.extra.missing())}: `make neural`"
        return None

    tree = without(read_experiment(name), reason)
    return quick(tree) if is_quick else tree


@dataclass(frozen=True)
class Reproduced:
    """Result of a reproduction: page, experiments, and what could not be done."""

    page: Path | None
    results: tuple[ExperimentResult, ...]
    problems: tuple[str, ...]

    def rows(self) -> list[list[str]]:
        """Return the number of claims by experiment and verdict."""
        return [
            [f"{result.name} {result.title}", *(str(result.count(as_)) for as_ in COUNTS)]
            for result in self.results
        ]

    def sentences(self) -> list[str]:
        """Return a summary of the verdicts, and changes of the data keys."""
        readings = [reading_words(result.reading) for result in self.results if result.reading]
        changed = [f"Data keys unlike the published ones: {w}." for w in dict.fromkeys(readings)]
        verdicts = [verdict for result in self.results for verdict in result.verdicts]
        kinds = [ours for ours in (False, True) if any(v.is_ours == ours for v in verdicts)]
        return changed + [headline(verdicts, ours=ours) for ours in kinds]

    def markdown(self) -> str:
        """Return the result as Markdown."""
        problems = "\n".join(f"- {problem}" for problem in self.problems)
        page = "" if self.page is None else f"report: {file_link(str(self.page))}"
        claims = markdown_table(["experiment", *COUNTS], self.rows())
        return "\n\n".join(filter(None, [*self.sentences(), claims, problems, page]))

    def show(self, seconds: float) -> None:
        """Print the verdicts and the path of the page; with JSON output, a line per experiment."""
        if is_json():
            for result in self.results:
                counts = {as_: result.count(as_) for as_ in COUNTS}
                write_line("info", "result", result.title, run=result.name, claims=counts)
            text = " ".join(self.sentences())
            write_line("info", "result", text, report=self.page, seconds=round(seconds, 3))
            return
        console = Console(highlight=False)
        table = Table(title="Claims, judged", title_justify="left")
        table.add_column("experiment")
        for as_ in COUNTS:
            table.add_column(as_, justify="right", min_width=max(map(len, as_.split())))
        for row in self.rows():
            table.add_row(*map(escape, row))
        console.print(table)
        for sentence in self.sentences():
            console.print(escape(sentence))
        if self.page is not None:
            console.print(f"[bold]report[/bold]   {escape(str(self.page))}", soft_wrap=True)
        console.print(f"[dim]done in {seconds:.0f} s[/dim]")


class IncompleteError(UserError):
    """Part of a reproduction could not be run: the flow run counts as failed."""

    exit_code = 4

    def __init__(self, found: Reproduced) -> None:
        super().__init__(" ".join(found.problems))
        self.found = found


_QUICK_DRAWS = 40


@dataclass(frozen=True)
class Opened:
    """An experiment with the studies of its runs by seed and variant, and why runs are absent."""

    experiment: ExperimentConfig
    studies: Mapping[str, Mapping[int, Mapping[str, Study]]]
    absent: Mapping[str, str]

    def all_studies(self) -> list[Study]:
        """Return the studies of all runs, seeds and variants."""
        return [
            study
            for seeds in self.studies.values()
            for variants in seeds.values()
            for study in variants.values()
        ]


@flow(name="reproduce", flow_run_name=reproduction_run_name, persist_result=False)
def reproduce(trees: list[dict[str, Any]], cluster: ClusterConfig) -> Reproduced:
    """Compute and judge experiments; raise an error if something could not be done."""
    return judge_all(trees, cluster)


def judge_all(trees: Sequence[dict[str, Any]], cluster: ClusterConfig) -> Reproduced:
    """Compute and judge experiments within the current flow run."""
    tags = [f"experiment:{tree['name']}" for tree in trees]
    tags += sorted(
        {f"reading:{reading_slug(tree['reading'])}" for tree in trees if "reading" in tree}
    )
    with tagged_run([*tags, "paper", f"fkd:{__version__}"]):
        found = _judge(trees, cluster)
        post_markdown("result-paper", found.markdown(), "Claims of the paper, judged")
    if found.problems:
        raise IncompleteError(found)
    return found


def _judge(trees: Sequence[dict[str, Any]], cluster: ClusterConfig) -> Reproduced:
    """Compute and judge the experiments one after the other, and write the page after each."""
    results, problems, page = list[ExperimentResult](), list[str](), None
    for tree in trees:
        try:
            result, faults = _one(tree, cluster)
        except UserError as error:
            problems.append(f"{tree['name']}: {error}")
            continue
        results.append(result)
        problems += faults
        folder = pages(read_settings(), result.collection)
        page = write_page(read_results(folder, experiment_names()), folder)
    return Reproduced(page, tuple(results), tuple(dict.fromkeys(problems)))


def _one(tree: dict[str, Any], cluster: ClusterConfig) -> tuple[ExperimentResult, list[str]]:
    """Return the result of one experiment, and what could not be done."""
    start = time.monotonic()
    opened = load(tree, cluster)
    name = opened.experiment.name
    problems = [f"{name}: {run} was not run: {why}" for run, why in opened.absent.items()]
    if failed := fit(opened):
        problems.append(f"{name}: {failed} fits failed, `fkd status` has the causes")
    problems += record(opened)
    result, faults = judge_claims(opened, cluster, start)
    return result, [*problems, *faults, *publish(result)]


def pages(settings: Settings, collection: str) -> Path:
    """Return the folder of the page of a collection of experiments."""
    return settings.experiments / collection


@step("fetch data")
def load(tree: dict[str, Any], cluster: ClusterConfig) -> Opened:
    """Return the experiment with its data. A run without data is left out with a reason."""
    settings, absent = read_settings(), dict[str, str]()
    studies: dict[str, dict[int, dict[str, Study]]] = {}
    experiment = parse_experiment(tree)
    run_log().log(f"{experiment.name}: {experiment.title}")
    for run in experiment.runs:
        try:
            studies[run] = _open(experiment, run, cluster, settings)
        except UserError as error:
            data = experiment.runs[run].data
            drawn = data.source != "synthetic" and "synthetic" in data.declaration.sources
            if not experiment.quick or not drawn:
                absent[run] = str(error)
                run_log().log(f"{run} is left out: {error}")
                continue
            run_log().log(f"{run} on synthetic rows instead: {error}")
            tree = synthetic(tree, run)
            experiment = parse_experiment(tree)
            studies[run] = _open(experiment, run, cluster, settings)
    return Opened(experiment, studies, absent)


def _open(
    experiment: ExperimentConfig, run: str, cluster: ClusterConfig, settings: Settings
) -> dict[int, dict[str, Study]]:
    """Return the studies of a run by seed and variant. All must have the same rows."""
    configs = {
        (seed, variant): config
        for seed in experiment.seeds_of(run)
        for variant, config in experiment.run_configs(run, cluster, seed).items()
    }
    studies: dict[int, dict[str, Study]] = {}
    opened = study_opener(settings)
    for (seed, variant), config in configs.items():
        studies.setdefault(seed, {})[variant] = opened(config)
    targets = [study.loaded.table.target for found in studies.values() for study in found.values()]
    if not all(np.array_equal(targets[0], other) for other in targets):
        raise UserError(
            f"The variants of {experiment.name}, {run} must have the same rows, got other rows. "
            "Leave out the keys that choose rows."
        )
    return studies


@step("fit trials")
def fit(opened: Opened) -> int:
    """Compute the missing fits and return how many failed."""
    studies = opened.all_studies()
    return fit_all(studies).failed if studies else 0


@step("log to MLflow")
def record(opened: Opened) -> list[str]:
    """Record every trial in MLflow; return messages of failures."""
    added, problems = record_studies(opened.all_studies())
    run_log().log(f"MLflow: {added} new trial runs")
    return problems


@step("judge claims")
def judge_claims(
    opened: Opened, cluster: ClusterConfig, start: float
) -> tuple[ExperimentResult, list[str]]:
    """Judge the claims, write figures and tables; return the result and messages of failures."""
    experiment, settings = opened.experiment, read_settings()
    curves = {
        run: seeded_curves(seeds, experiment.runs[run]) for run, seeds in opened.studies.items()
    }
    draws = _QUICK_DRAWS if experiment.quick else DRAWS
    problems: list[str] = []

    def compute(function: Callable[[Any], None], noun: str, jobs: Sequence[Any]) -> None:
        if failed := _compute(function, noun, jobs, cluster, settings):
            problems.append(
                f"{experiment.name}: {len(failed)} {noun} failed, the first by {failed[0].cause}"
            )

    scores = partial(compute, resample, "scores on resampled rows")
    verdicts = verdicts_on(experiment, curves, opened.absent, scores, draws)
    asked = [found for run, found in curves.items() if experiment.runs[run].recoverability]
    jobs = [job for found in asked for job in recovery_jobs(found)]
    compute(recover_job, "folds of features to guess from", jobs)
    told = {
        experiment.runs[run].title: describe_rows(_any_study(seeds).loaded.provenance)
        for run, seeds in opened.studies.items()
    }
    result = make_result(experiment, curves, opened.absent, verdicts, told, draws=draws)
    result = replace(result, seconds=time.monotonic() - start)
    folder = pages(settings, experiment.collection) / experiment.name
    write_result(result, experiment, curves, folder)
    counts = ", ".join(f"{result.count(as_)} {as_}" for as_ in COUNTS)
    run_log().log(f"{experiment.name}: {counts} ({result.seconds:.0f} s)")
    return result, problems


def _any_study(seeds: Mapping[int, Mapping[str, Study]]) -> Study:
    """Return one study of a run. All have the same rows."""
    return next(iter(next(iter(seeds.values())).values()))


def _compute(
    function: Callable[[Any], None],
    noun: str,
    jobs: Sequence[Any],
    cluster: ClusterConfig,
    settings: Settings,
) -> list[Failed]:
    """Compute jobs on the cluster and return those that failed."""
    if not jobs:
        return []
    with connect(cluster, settings) as client:
        return run_counted(client, function, jobs, cluster, noun=noun)


@step("publish verdicts")
def publish(result: ExperimentResult) -> list[str]:
    """Record verdicts, figures and tables in MLflow; return messages of failures."""
    settings = read_settings()
    try:
        record_result(result, settings, pages(settings, result.collection) / result.name)
    except TrackingUnreachableError as error:
        return [str(error)]
    return []
