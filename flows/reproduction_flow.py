"""The paper's experiments as a Prefect flow: load, fit, record, judge, write the page."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from prefect import flow

from configs.errors import UserError
from configs.experiment import ExperimentConfig, experiment_names, parse_experiment
from configs.readings import reading_slug
from configs.schema import ClusterConfig
from configs.variants import synthetic
from fkd import __version__
from flows.counted import run_counted
from flows.fitting import fit_all
from flows.progress import watcher
from flows.reproduced import IncompleteError, Reproduced
from flows.run_label import reproduction_run_name
from flows.run_page import post_markdown, tagged_run
from flows.stage import stage
from tasks.adapters.cluster import connect
from tasks.adapters.jobs import Failed
from tasks.adapters.reachable import TrackingUnreachableError
from tasks.adapters.settings import Settings, read_settings
from tasks.data.load import describe_rows
from tasks.reproduction.experiment_recording import record_story, record_studies
from tasks.reproduction.recovery import recover_job, recovery_jobs
from tasks.reproduction.reproduction_page import write_page
from tasks.reproduction.resample import resample
from tasks.reproduction.seeds import seeded_curves
from tasks.reproduction.story import Story, read_stories, story_of, write_story
from tasks.reproduction.tally import COUNTS
from tasks.reproduction.verdicts import DRAWS, verdicts_on
from tasks.study.opening import Study, study_opener

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
            if not experiment.quick or experiment.runs[run].data.source != "census":
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
