"""A study's results in MLflow: trials, champion, files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from configs.load import dump_config
from configs.schema import RunConfig
from fkd import __version__
from tasks.adapters.files import write_atomic
from tasks.adapters.registry import CANDIDATE, CHAMPION, Registry
from tasks.adapters.tracking import Tracking, TrialRun, tracking_uri
from tasks.study.champion import Champion, select_champion
from tasks.study.gate import broken_limits, verdict
from tasks.study.judgement import Judgement
from tasks.study.opening import Study
from tasks.study.results import MEASURES, TrialResult, flat_parameters
from tasks.study.selection import NoChampionError

REQUIREMENTS = ("mlflow", "numpy", "pandas", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Recorded:
    """Where MLflow keeps a study."""

    uri: str
    experiment_id: str
    run_id: str


def record_trials(study: Study) -> int:
    """Return how many trial runs were new; where they are is kept beside the results."""
    # First of all: `fkd sync` finds experiments by this file, recorded or not.
    write_atomic(study.folder / "config.yaml", dump_config(study.config).encode())
    tracking = Tracking(study.settings, study.config.experiment)
    parent = tracking.parent_run(study.config.identity, study.config.name, _tags(study))
    added = tracking.log_trials(parent, (_trial_run(study, r) for r in study.results()))
    place = Recorded(tracking.uri, tracking.experiment_id, parent)
    write_atomic(_place(study), json.dumps(vars(place), indent=2).encode())
    return added


def recorded(study: Study) -> Recorded | None:
    """Return where the study was recorded, None where it was not or elsewhere."""
    try:
        place = Recorded(**json.loads(_place(study).read_text()))
    except FileNotFoundError:
        return None
    return place if place.uri == tracking_uri(study.settings) else None


def record_champion(study: Study) -> str | None:
    """Return the address of the registered model; the same one is registered once.

    The gate comes first: a model that breaks it is registered as a candidate, with the verdict,
    while the champion stays what it was.
    """
    try:
        champion = select_champion(study)
    except NoChampionError:
        return None
    place = recorded(study)
    if place is None:
        return None
    return Registry(study.settings, study.config.experiment).register(
        place.run_id,
        study.config.model,
        key=champion.key,
        bundle=champion.bundle,
        example=champion.example,
        requirements=[f"{name}=={version(name)}" for name in REQUIREMENTS],
        tags={"fkd.trial": champion.trial.key, "fkd.title": champion.title},
        verdict=verdict(champion.judgement, study.config.gate),
        alias=alias_of(champion.judgement, study.config.gate),
    )


def alias_of(judgement: Judgement, gate: Mapping[str, float]) -> str:
    """Return under which alias a model is registered."""
    return CANDIDATE if broken_limits(judgement, gate) else CHAMPION


def model_address(config: RunConfig, champion: Champion) -> str:
    """Return where the registry has a selected model."""
    return f"models:/{config.model}@{alias_of(champion.judgement, config.gate)}"


def record_files(study: Study) -> None:
    """Put report, figures, results and configuration on the parent run."""
    place = recorded(study)
    if place is None:
        return
    tracking = Tracking(study.settings, study.config.experiment)
    tracking.finish(place.run_id, _tags(study), study.folder)


def _place(study: Study) -> Path:
    """Return the file that says where MLflow keeps the study."""
    return study.folder / "tracking.json"


def _tags(study: Study) -> dict[str, str]:
    """Return what every run of the study carries."""
    return {
        "fkd.data": study.loaded.digest,
        "fkd.version": __version__,
        "fkd.config": study.config.digest,
        "fkd.synthetic": str(bool(study.loaded.provenance["synthetic"])).lower(),
    }


def _trial_run(study: Study, result: TrialResult) -> TrialRun:
    """Return one trial as MLflow shall hold it; further columns carry their name."""
    folds: dict[str, list[float]] = {}
    summary: dict[str, float] = {}
    for i, column in enumerate(study.inputs.measure_on):
        for measure in MEASURES:
            name = measure if i == 0 else f"{measure}.{column}"
            folds[name] = result.values(measure, column)
            summary[f"{name}_mean"] = result.mean(measure, column)
            summary[f"{name}_std"] = result.std(measure, column)
    summary["seconds"] = sum(record.seconds for record in result.records)
    params = {
        "method": result.trial.method,
        "strength": f"{result.trial.strength:g}",
        "seed": str(study.config.seed),
        **flat_parameters(result.trial),
    }
    return TrialRun(result.trial.key, result.title, params, _tags(study), folds, summary)
