"""The experiments of the paper as a Prefect flow: load, fit, record, judge, report."""

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

from configs.errors import UserError
from configs.reproduction import (
    ExperimentConfig,
    experiment_names,
    parse_experiment,
    reading_slug,
    reading_words,
    synthetic,
)
from configs.run import ClusterConfig
from fkd import __version__
from flows.fitting import fit_all, run_counted
from flows.log_lines import is_json, write_line
from flows.outcome import file_link, markdown_table
from flows.prefect_page import post_markdown, tagged_run
from flows.progress import watcher
from flows.stages import reproduction_run_name, stage
from tasks.cluster.cluster import connect
from tasks.cluster.retries import Failed
from tasks.data.load import describe_rows
from tasks.reproduce.claims import COUNTS, DRAWS, headline, is_ours, seeded_curves, verdicts_on
from tasks.reproduce.page import write_page
from tasks.reproduce.recovery import recover_job, recovery_jobs
from tasks.reproduce.resample import resample
from tasks.reproduce.result import (
    Story,
    read_stories,
    record_story,
    record_studies,
    story_of,
    write_story,
)
from tasks.select.study import Study, study_opener
from tasks.storage.settings import Settings, read_settings
from tasks.track.reachable import TrackingUnreachableError


@dataclass(frozen=True)
class Reproduced:
    """What a reproduction made: its page, its experiments, what could not be done."""

    page: Path | None
    stories: tuple[Story, ...]
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
        kinds = [ours for ours in (False, True) if any(is_ours(v) == ours for v in verdicts)]
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
    stories, problems, page = list[Story](), list[str](), None
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
        page = write_page(read_stories(folder, experiment_names()), folder)
    return Reproduced(page, tuple(stories), tuple(dict.fromkeys(problems)))


def _one(tree: dict[str, Any], cluster: ClusterConfig) -> tuple[Story, list[str]]:
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
def tell(opened: Opened, cluster: ClusterConfig, start: float) -> tuple[Story, list[str]]:
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
    story = story_of(experiment, curves, opened.absent, verdicts, told, draws=draws)
    story = replace(story, seconds=time.monotonic() - start)
    folder = pages(settings, experiment.collection) / experiment.name
    write_story(story, experiment, curves, folder)
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
def publish(story: Story) -> list[str]:
    """Put verdicts, figures and tables into MLflow; return what could not be done."""
    settings = read_settings()
    try:
        record_story(story, settings, pages(settings, story.collection) / story.name)
    except TrackingUnreachableError as error:
        return [str(error)]
    return []
