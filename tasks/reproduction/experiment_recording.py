"""An experiment in MLflow: its trials, verdicts, figures."""

from collections.abc import Iterable
from pathlib import Path

from fkd import __version__
from tasks.adapters.reachable import TrackingUnreachableError
from tasks.adapters.settings import Settings
from tasks.adapters.tracking import Tracking
from tasks.reproduction.story import Story
from tasks.reproduction.tally import COUNTS
from tasks.study.known_runs import take_folder
from tasks.study.opening import Study
from tasks.study.recording import record_files, record_trials
from tasks.study.results import tidy, write_results


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
