"""A study's results in MLflow: trials, champion, files."""

import tempfile
from importlib.metadata import version
from pathlib import Path

from configs.load import dump_config
from fkd import __version__
from tasks.adapters.files import pack_arrays, write_atomic
from tasks.adapters.kept_files import keep_file
from tasks.adapters.registry import CANDIDATE, CHAMPION, ModelVersion, Registry
from tasks.adapters.tracked import RunDetails
from tasks.adapters.tracking import Tracking
from tasks.data.load import table_parts
from tasks.study.champion import Champion, select_champion
from tasks.study.checks import check_study
from tasks.study.finding import Finding
from tasks.study.gate import broken_limits, verdict
from tasks.study.held_out_record import held_out_record, record_name
from tasks.study.known_runs import (
    Recorded,
    identity_of,
    note_place,
    note_run,
    now,
    owns_files,
    recorded,
)
from tasks.study.opening import Study
from tasks.study.results import tidy, write_results
from tasks.study.run_notes import (
    champion_params,
    held_out_metrics,
    model_note,
    parent_details,
    trial_run,
    used_data,
)
from tasks.study.selection import NoChampionError

__all__ = ["Recorded", "recorded"]
REQUIREMENTS = ("mlflow", "numpy", "pandas", "scipy", "scikit-learn")


def record_trials(study: Study, *, afterwards: bool = False) -> int:
    """Return how many trial runs were new; where they are is kept beside the results.

    Parameters
    ----------
    study
        What was computed. Its parent run is found by settings, rows and versions of the code, so
        that the same command again adds no run but the time at which it was given.
    afterwards
        Record what an earlier run has computed: it is not on again.
    """
    if not afterwards:
        # First of all: `fkd sync` finds runs by this, recorded or not.
        note_run(study)
        write_atomic(study.folder / "config.yaml", dump_config(study.config).encode())
    results = study.results()
    tracking = Tracking(study.settings, study.config.experiment)
    if not results and tracking.find_parent(identity_of(study)) is None:
        return 0
    tags = _tags(study)
    details = parent_details(study)
    parent = tracking.parent_run(identity_of(study), study.config.name, tags, details)
    added = tracking.log_trials(parent, (trial_run(study, result, tags) for result in results))
    if not afterwards:
        tracking.tag(parent, {"fkd.last_run": now()})
    note_place(study, tracking.experiment_id, parent)
    return added


def record_champion(
    study: Study, finding: Finding | None = None, *, ran: str | None = None
) -> str | None:
    """Return the address of the registered model; the same one is registered once.

    The gate comes first: a model that breaks it is registered as a candidate, with the verdict,
    while the champion stays what it was.

    Parameters
    ----------
    study
        What was computed and recorded.
    finding
        What it says, for descriptions and tags of the run and of the model's version.
    ran
        When it was computed, if not now: what was promoted later stays so.
    """
    try:
        champion = select_champion(study)
    except NoChampionError:
        return None
    registry = Registry(study.settings, study.config.experiment)
    parent = registry.find_parent(identity_of(study))
    if parent is None:
        return None
    metrics = held_out_metrics(champion)
    wanted = ModelVersion(
        model=study.config.model,
        key=champion.key,
        bundle=champion.bundle,
        example=champion.example,
        requirements=[f"{name}=={version(name)}" for name in REQUIREMENTS],
        tags={"fkd.trial": champion.trial.key, "fkd.title": champion.title},
        note=model_note(study, champion, finding),
        params=champion_params(champion),
        metrics=metrics,
        data=used_data(study),
    )
    address = registry.register(
        parent,
        wanted,
        verdict={
            "fkd.verdict": verdict(champion.judgement, study.config.gate, study.refused),
            **_found(finding),
            **_checked(study),
        },
        alias=_alias(study, champion),
        ran=ran or now(),
    )
    if (record := held_out_record(study, champion.trial)) is not None:
        keep_file(registry, parent, record_name(champion.key), pack_arrays(record.arrays()))
    details = parent_details(study, champion, finding)
    registry.mark_champion(parent, champion.trial.key, metrics, details)
    registry.tag(parent, {**_found(finding), **_checked(study)})
    return address


def _checked(study: Study) -> dict[str, str]:
    """Return how every check ended, by its code."""
    return {f"fkd.check.{r.check.code}": str(r.outcome) for r in check_study(study)}


def _found(finding: Finding | None) -> dict[str, str]:
    """Return the tag that says in a few words what was found."""
    return {} if finding is None else {"fkd.finding": finding.word}


def model_address(study: Study, champion: Champion) -> str:
    """Return where the registry has a selected model."""
    return f"models:/{study.config.model}@{_alias(study, champion)}"


def _alias(study: Study, champion: Champion) -> str:
    """Return under which alias a model is registered."""
    broken = broken_limits(champion.judgement, study.config.gate)
    return CANDIDATE if broken or study.refused else CHAMPION


def record_files(study: Study) -> None:
    """Put report, figures, results and configuration on the parent run."""
    tracking = Tracking(study.settings, study.config.experiment)
    parent = tracking.find_parent(identity_of(study))
    if parent is None:
        return
    details = RunDetails(span=parent_details(study).span)
    if owns_files(study):
        tracking.finish(parent, _tags(study), study.folder, details)
    elif not tracking.is_complete(parent):
        with tempfile.TemporaryDirectory() as folder:
            _write_files(study, Path(folder))
            tracking.finish(parent, _tags(study), Path(folder), details)


def _write_files(study: Study, folder: Path) -> None:
    """Write again what a later run of the same name has taken the place of."""
    data = study.config.data
    write_results(tidy(study.results(), data.problem, data.sensitive), folder)
    write_atomic(folder / "config.yaml", dump_config(study.config).encode())


def _tags(study: Study) -> dict[str, str]:
    """Return what every run of the study carries."""
    parts = table_parts(study.loaded)
    return {
        "fkd.data": study.loaded.digest,
        **({"fkd.data.parts": " ".join(one[:16] for one in parts)} if len(parts) > 1 else {}),
        "fkd.version": __version__,
        "fkd.config": study.config.digest,
        "fkd.synthetic": str(bool(study.loaded.provenance["synthetic"])).lower(),
    }
