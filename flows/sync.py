"""What the tracking server missed, recorded once it is back."""

from pathlib import Path

from rich.console import Console

from configs.errors import UserError
from configs.load import load_config
from tasks.adapters.reachable import TrackingUnreachableError
from tasks.adapters.settings import Settings, read_settings
from tasks.study.opening import open_study
from tasks.study.recording import record_champion, record_files, record_trials


def sync_all() -> None:
    """Record every experiment of this FKD_HOME again; what is recorded stays as it is.

    An experiment that cannot be opened, for its rows or its settings are gone, is named at the end.
    """
    settings = read_settings()
    files = sorted(settings.experiments.glob("*/config.yaml"))
    if not files:
        raise UserError(f"There is nothing to record under {settings.experiments}.")
    problems = []
    for file in files:
        try:
            _sync(file, settings)
        except TrackingUnreachableError:
            raise  # nor would it take the next one
        except UserError as error:
            problems.append(f"{file.parent.name}: {error}")
    if problems:
        raise UserError(" ".join(problems))


def _sync(file: Path, settings: Settings) -> None:
    """Record one experiment, print how many of its trials were new."""
    study = open_study(load_config(file), settings)
    added = record_trials(study)
    record_champion(study)
    record_files(study)
    Console(highlight=False).print(f"{study.config.name}: {added} new trial runs")
