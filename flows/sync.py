"""What the tracking server missed, recorded once it is back."""

from rich.console import Console

from configs.errors import UserError
from configs.load import load_config
from tasks.record import record_champion, record_files, record_trials
from tasks.settings import read_settings
from tasks.study import open_study


def sync_all() -> None:
    """Record every experiment of this FKD_HOME again; what is recorded stays as it is."""
    settings = read_settings()
    files = sorted(settings.experiments.glob("*/config.yaml"))
    if not files:
        raise UserError(f"There is nothing to record under {settings.experiments}.")
    for file in files:
        study = open_study(load_config(file), settings)
        added = record_trials(study)
        record_champion(study)
        record_files(study)
        Console(highlight=False).print(f"{study.config.name}: {added} new trial runs")
