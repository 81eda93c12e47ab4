"""Record in MLflow what was computed while it could not be reached."""

from rich.console import Console

from configs.errors import UserError
from tasks.report.model import report_data
from tasks.report.narrative import finding_of
from tasks.storage.settings import Settings, read_settings
from tasks.track.client import TrackingUnreachableError
from tasks.track.recording import record_champion, record_files, record_trials
from tasks.track.run_index import KnownRun, known_runs


def sync_all() -> None:
    """Record every run of this FKD_HOME again; what is recorded stays as it is.

    Runs of one name with different settings, or on rows that have changed since, each count. One
    that cannot be opened, for its rows or its settings are gone, is named at the end.
    """
    settings = read_settings()
    runs, problems = known_runs(settings)
    if not runs and not problems:
        raise UserError(f"There is nothing to record under {settings.experiments}.")
    for run in runs:
        try:
            _sync(run, settings)
        except TrackingUnreachableError:
            raise  # nor would it take the next one
        except UserError as error:
            problems.append(f"{run.config.name}: {error}")
    if problems:
        raise UserError(" ".join(problems))


def _sync(run: KnownRun, settings: Settings) -> None:
    """Record one run, print how many of its trials were new."""
    study = run.open(settings)
    added = record_trials(study, afterwards=True)
    note = ""
    if study.missing():
        note = "; it is not finished, so that no champion is chosen"
    else:
        record_champion(study, finding_of(report_data(study, curves=False)), ran=run.ran)
        record_files(study)
    Console(highlight=False).print(
        f"{study.config.name}: {added} new trial runs{note}", markup=False, soft_wrap=True
    )
