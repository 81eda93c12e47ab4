"""An experiment in MLflow: its trials, verdicts, figures."""

from collections.abc import Iterable
from pathlib import Path

from fkd import __version__
from tasks.record import record_files, record_trials
from tasks.reproduction.story import Story
from tasks.results import tidy, write_results
from tasks.settings import Settings
from tasks.study import Study
from tasks.tracking import Tracking


def record_studies(studies: Iterable[Study]) -> int:
    """Fill MLflow with the trials of an experiment's runs; return how many were new."""
    added = 0
    for study in studies:
        data = study.config.data
        write_results(tidy(study.results(), data.problem, data.sensitive), study.folder)
        added += record_trials(study)
        record_files(study)
    return added


def record_story(story: Story, settings: Settings, folder: Path) -> None:
    """Put counts of verdicts, figures and tables on a run of the experiment's name."""
    tracking = Tracking(settings, f"paper-{story.name}")
    identity = f"story-{story.name}-{'quick' if story.quick else 'whole'}"
    run = tracking.parent_run(identity, story.title, {"fkd.version": __version__})
    counts = {word: story.count(word) for word in ("holds", "fails", "unclear", "not run")}
    tags = {f"fkd.claims.{word.replace(' ', '_')}": str(n) for word, n in counts.items()}
    tracking.finish(run, tags, folder)
