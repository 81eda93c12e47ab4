"""`fkd reproduce` on the command line."""

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
from flows.progress import watcher
from flows.stages import reproduction_run_name, stage
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
from tasks.servers.prefect import prefect_server
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
    """Compute and judge experiments, then print their verdicts with the path of the page."""
    start = time.monotonic()
    cluster, reading = _settings(overrides)
    trees = chosen_trees(names, leave_out, is_quick=is_quick)
    trees, unread = _read(trees, reading) if reading else (trees, [])
    for tree in trees:
        parse_experiment(tree)  # faults are told before any work
    settings = read_settings()
    ensure_writable(settings.home)
    watcher().say(f"{len(trees)} experiments of the paper (state in {settings.home})")
    for sentence in unread:
        watcher().say(f"left out: {sentence}")
    with prefect_server(settings):
        # Prefect reads its settings when it is first imported: only now are they in force.
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
    """Return the experiments that are meant, as they are to be run."""
    return [_tree(name, leave_out, is_quick=is_quick) for name in _chosen(names)]


def _settings(overrides: Sequence[str]) -> tuple[ClusterConfig, dict[str, Any]]:
    """Return where trials are computed, which keys of the data are read otherwise."""
    tree = apply_overrides({}, overrides)
    if idle := sorted(set(tree) - {"cluster", "data"}):
        raise UserError(
            "--set of fkd reproduce takes keys of cluster, or of data to read it otherwise "
            f"({', '.join(READING_KEYS)}), got {', '.join(idle)}; the experiments are what their "
            "files say."
        )
    reading = tree.pop("data", {})
    if not isinstance(reading, dict):
        raise UserError(f"--set data takes a key of it, such as data.drop=[], got {reading!r}.")
    # As a run of its own, so that faults in it are told as everywhere.
    return parse_config({"methods": ["dummy"], **tree}, "--set").cluster, reading


def _read(
    trees: Sequence[dict[str, Any]], reading: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the experiments under another reading, why the others have none."""
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
    """Return the experiments that are meant, each once, in the given order."""
    known = experiment_names()
    meant = [name for given in names for name in (known if given == "all" else (given,))]
    return list(dict.fromkeys(meant))


def _tree(name: str, leave_out: Sequence[str], *, is_quick: bool) -> dict[str, Any]:
    """Return one experiment as it is to be run."""
    for group in leave_out:
        try:
            check_name(group, _GROUPS, key="--without")
        except ValueError as error:
            raise UserError(f"{error}.") from None

    def reason(declared: Method) -> str | None:
        if is_network(declared) and "neural" in leave_out:
            return "the networks were left out by --without neural"
        if declared.extra is not None and declared.extra.missing():
            return f"{declared.title} needs {', '.join(declared.extra.missing())}: `make neural`"
        return None

    tree = without(read_experiment(name), reason)
    return quick(tree) if is_quick else tree


@dataclass(frozen=True)
class Reproduced:
    """What a reproduction made: its page, its experiments, what could not be done."""

    page: Path | None
    stories: tuple[ExperimentResult, ...]
    problems: tuple[str, ...]

    def rows(self) -> list[list[str]]:
        """Return how many claims of each experiment got which verdict."""
        return [
            [f"{story.name} {story.title}", *(str(story.count(as_)) for as_ in COUNTS)]
            for story in self.stories
        ]

    def sentences(self) -> list[str]:
        """Return the reading if it is not the published one, then what holds by which error."""
        readings = [reading_words(story.reading) for story in self.stories if story.reading]
        told = [f"Read otherwise than published: {words}." for words in dict.fromkeys(readings)]
        verdicts = [verdict for story in self.stories for verdict in story.verdicts]
        kinds = [ours for ours in (False, True) if any(v.is_ours == ours for v in verdicts)]
        return told + [headline(verdicts, ours=ours) for ours in kinds]

    def markdown(self) -> str:
        """Return how many claims hold, what could not be done, where the page is."""
        problems = "\n".join(f"- {problem}" for problem in self.problems)
        page = "" if self.page is None else f"report: {file_link(str(self.page))}"
        claims = markdown_table(["experiment", *COUNTS], self.rows())
        return "\n\n".join(filter(None, [*self.sentences(), claims, problems, page]))

    def show(self, seconds: float) -> None:
        """Print how many claims hold, where the page is; as JSON a line for each experiment."""
        if is_json():
            for story in self.stories:
                counts = {as_: story.count(as_) for as_ in COUNTS}
                write_line("info", "result", story.title, run=story.name, claims=counts)
            told = " ".join(self.sentences())
            write_line("info", "result", told, report=self.page, seconds=round(seconds, 3))
            return
        console = Console(highlight=False)
        table = Table(title="Claims, judged", title_justify="left")
        table.add_column("experiment")
        for as_ in COUNTS:
            # No word of a heading is cut, however narrow the terminal.
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
    """Something could not be run, though everything else was: the flow run counts as failed."""

    exit_code = 4

    def __init__(self, found: Reproduced) -> None:
        super().__init__(" ".join(found.problems))
        self.found = found


_QUICK_DRAWS = 40


@dataclass(frozen=True)
class Opened:
    """An experiment with the studies of its runs, by seed, by variant; why others have none."""

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
    """Compute, judge and tell the experiments; raise where something could not be done."""
    return judge_all(trees, cluster)


def judge_all(trees: Sequence[dict[str, Any]], cluster: ClusterConfig) -> Reproduced:
    """Tell the experiments with their verdicts on the run that is on; raise as `reproduce` does."""
    tags = [f"experiment:{tree['name']}" for tree in trees]
    tags += sorted(
        {f"reading:{reading_slug(tree['reading'])}" for tree in trees if "reading" in tree}
    )
    with tagged_run([*tags, "paper", f"fkd:{__version__}"]):
        found = tell_all(trees, cluster)
        post_markdown("result-paper", found.markdown(), "Claims of the paper, judged")
    if found.problems:
        raise IncompleteError(found)
    return found


def tell_all(trees: Sequence[dict[str, Any]], cluster: ClusterConfig) -> Reproduced:
    """Compute, judge and tell the experiments one after the other; the page grows with them."""
    stories, problems, page = list[ExperimentResult](), list[str](), None
    for tree in trees:
        try:
            story, faults = _one(tree, cluster)
        except UserError as error:
            # What stops one experiment need not stop the others.
            problems.append(f"{tree['name']}: {error}")
            continue
        stories.append(story)
        problems += faults
        folder = pages(read_settings(), story.collection)
        page = write_page(read_results(folder, experiment_names()), folder)
    return Reproduced(page, tuple(stories), tuple(dict.fromkeys(problems)))


def _one(tree: dict[str, Any], cluster: ClusterConfig) -> tuple[ExperimentResult, list[str]]:
    """Return what one experiment found, with what could not be done."""
    start = time.monotonic()
    opened = load(tree, cluster)
    name = opened.experiment.name
    problems = [f"{name}: {run} was not run: {why}" for run, why in opened.absent.items()]
    if failed := fit(opened):
        problems.append(f"{name}: {failed} fits failed, `fkd status` has the causes")
    problems += record(opened)
    story, faults = tell(opened, cluster, start)
    return story, [*problems, *faults, *publish(story)]


def pages(settings: Settings, collection: str) -> Path:
    """Return the folder of the page that a collection of experiments has."""
    return settings.experiments / collection


@stage
def load(tree: dict[str, Any], cluster: ClusterConfig) -> Opened:
    """Return the experiment with its data; a run without data is left out, with the reason."""
    settings, absent = read_settings(), dict[str, str]()
    studies: dict[str, dict[int, dict[str, Study]]] = {}
    experiment = parse_experiment(tree)
    watcher().say(f"{experiment.name}: {experiment.title}")
    for run in experiment.runs:
        try:
            studies[run] = _open(experiment, run, cluster, settings)
        except UserError as error:
            data = experiment.runs[run].data
            drawn = data.source != "synthetic" and "synthetic" in data.declaration.sources
            if not experiment.quick or not drawn:
                absent[run] = str(error)
                watcher().say(f"{run} is left out: {error}")
                continue
            watcher().say(f"{run} on synthetic rows instead: {error}")
            tree = synthetic(tree, run)
            experiment = parse_experiment(tree)
            studies[run] = _open(experiment, run, cluster, settings)
    return Opened(experiment, studies, absent)


def _open(
    experiment: ExperimentConfig, run: str, cluster: ClusterConfig, settings: Settings
) -> dict[int, dict[str, Study]]:
    """Return the studies of a run's variants under its seeds, which must have the same rows."""
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
            f"the variants of {experiment.name}, {run} must have the same rows, got others; "
            "leave the keys that choose rows out of them."
        )
    return studies


@stage
def fit(opened: Opened) -> int:
    """Compute on the cluster what is not stored yet; return the number of fits that failed."""
    studies = opened.all_studies()
    return fit_all(studies).failed if studies else 0


@stage
def record(opened: Opened) -> list[str]:
    """Fill MLflow with every trial; return what could not be done, in sentences."""
    added, problems = record_studies(opened.all_studies())
    watcher().say(f"MLflow: {added} new trial runs")
    return problems


@stage
def tell(
    opened: Opened, cluster: ClusterConfig, start: float
) -> tuple[ExperimentResult, list[str]]:
    """Judge the claims, write figures and tables; return the story with what failed."""
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
    story = make_result(experiment, curves, opened.absent, verdicts, told, draws=draws)
    story = replace(story, seconds=time.monotonic() - start)
    folder = pages(settings, experiment.collection) / experiment.name
    write_result(story, experiment, curves, folder)
    counts = ", ".join(f"{story.count(as_)} {as_}" for as_ in COUNTS)
    watcher().say(f"{experiment.name}: {counts} ({story.seconds:.0f} s)")
    return story, problems


def _any_study(seeds: Mapping[int, Mapping[str, Study]]) -> Study:
    """Return one of a run's studies: the rows are those of all."""
    return next(iter(next(iter(seeds.values())).values()))


def _compute(
    function: Callable[[Any], None],
    noun: str,
    jobs: Sequence[Any],
    cluster: ClusterConfig,
    settings: Settings,
) -> list[Failed]:
    """Run on the cluster what is not known yet; return failures."""
    if not jobs:
        return []
    with connect(cluster, settings) as client:
        return run_counted(client, function, jobs, cluster, noun=noun)


@stage
def publish(story: ExperimentResult) -> list[str]:
    """Put verdicts, figures and tables into MLflow; return what could not be done."""
    settings = read_settings()
    try:
        record_result(story, settings, pages(settings, story.collection) / story.name)
    except TrackingUnreachableError as error:
        return [str(error)]
    return []
