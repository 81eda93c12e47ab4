"""Record the trials, the champion and the files of a study in MLflow."""

import json
import tempfile
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from configs.load import dump_config
from fkd import __version__
from fkd.measures import REPORTED
from fkd.methods import method
from tasks.data.load import describe_rows, table_parts
from tasks.plan.splits import Fold
from tasks.plan.trials import Trial, record_key
from tasks.select.champion import Champion, select_champion
from tasks.select.checks import check_study
from tasks.select.held_out import held_out_record, held_out_record_name
from tasks.select.judgement import broken_limits, verdict
from tasks.select.results import SCORES, Finding, TrialResult, flat_parameters, tidy, write_results
from tasks.select.selection import NoChampionError
from tasks.select.study import Study
from tasks.storage.environment import MEMORY
from tasks.storage.files import pack_npz, write_atomic
from tasks.storage.settings import plain_markdown, without_credentials
from tasks.track.registry import CANDIDATE, CHAMPION, ModelVersion, Registry
from tasks.track.run_index import (
    Recorded,
    identity_of,
    note_place,
    note_run,
    now,
    owns_files,
    recorded,
)
from tasks.track.runs import RunDetails, Span, Tracking, TrialRun, UsedData, keep_file, metric_name

_SHOWN = 15  # characters of a run's name in MLflow's table
_DIGEST = 32  # characters that MLflow keeps of a data set's digest
_METRICS = """\
`…_mean` and `…_std` are the mean and the standard deviation over the outer folds; results.csv of
the parent run has the value of each fold. `seconds` is the time of the fits of a trial.
`peak_memory_mib` is the largest resident memory of a worker during a job with one of these fits;
other trials of the job count too. `held_out/…` are measured on rows that took no part in the
selection, with 95 % intervals from `_low` to `_high`. The duration of a run is the time that its
fits took one after another."""

_EXAMPLE = (
    "The input example is made up, no row of the data: deciles of each number, common labels."
)
_SEARCHED = """\
Its parameters were searched on rows that all folds but the held-out one test on, so its means over
folds look a little too good."""


def parent_details(
    study: Study, champion: Champion | None = None, finding: Finding | None = None
) -> RunDetails:
    """Return what the run of a whole configuration carries."""
    config, data = study.config, study.config.data
    params = {
        "problem": data.problem,
        "source": data.source,
        "rows": str(study.loaded.table.n),
        "sensitive": " ".join(data.sensitive),
        "measured_on": " ".join(data.measure_on),
        "folds": str(len(study.inputs.splits.outer(study.loaded.table))),
        "inner_folds": str(config.inner_folds),
        "seed": str(config.seed),
        "methods": " ".join(dict.fromkeys(entry.name for entry in config.methods)),
    }
    params |= _weights(study)
    if choices := study.choices():
        params["approximation"] = "; ".join(choices)
    # A champion among trials of which some failed, or are to come, may yet be another one.
    if champion is not None and not study.failures() and not study.missing():
        params |= champion_params(champion)
    note = "\n\n".join([_subject(study), *_chosen(study, champion, finding), _METRICS])
    return RunDetails(note, params, used_data(study), _span(study, study.trials, inner=True))


def trial_run(study: Study, result: TrialResult, name: str, tags: dict[str, str]) -> TrialRun:
    """Return the run of one trial. Metrics of further columns carry the column's name."""
    metrics: dict[str, float] = {}
    undefined: dict[str, str] = {}  # reason by name of the metric
    for i, column in enumerate(study.inputs.measure_on):
        for measure in SCORES:
            metric = metric_name(measure if i == 0 else f"{measure}.{column}")
            if not result.is_defined(measure, column):
                undefined[metric] = REPORTED[measure].undefined
                continue
            metrics[f"{metric}_mean"] = result.mean(measure, column)
            metrics[f"{metric}_std"] = result.std(measure, column)
    metrics["seconds"] = sum(record.seconds for record in result.records)
    metrics |= _memory(result)
    trial, title = result.trial, study.title(result.trial)
    searched = [_SEARCHED] if trial.key in study.searched else []
    opening = f"{title}, one trial of {study.config.name}. {_subject(study)}"
    missing = [f"Undefined: {metric} ({why})." for metric, why in undefined.items()]
    if undefined:
        tags = {**tags, "fkd.undefined": " ".join(undefined)}
    note = "\n\n".join([opening, *searched, *missing, _METRICS])
    details = RunDetails(note, _params(trial), span=_span(study, [trial], inner=False))
    return TrialRun(trial.key, name, tags, metrics, details)


def run_names(study: Study) -> dict[str, str]:
    """Return the names of the trials' runs by key.

    They differ in their first 15 characters, because MLflow's table shows no more.
    """
    names = {}
    for trial in study.trials:
        plain, name = method(trial.method).strength is None, study.names[trial.key]
        names[trial.key] = name if plain else f"{trial.strength:g} {name}"
    if len({name[:_SHOWN] for name in names.values()}) == len(names):
        return names
    return {key: f"{i} {name}" for i, (key, name) in enumerate(names.items(), start=1)}


def _memory(result: TrialResult) -> dict[str, float]:
    """Return the greatest memory of the jobs of a trial in MiB, nothing where a record lacks it."""
    told = [record.environment.get(MEMORY) for record in result.records]
    known = [one["peak_rss"] for one in told if one is not None]
    return {"peak_memory_mib": max(known) / 2**20} if known and len(known) == len(told) else {}


def champion_params(champion: Champion) -> dict[str, str]:
    """Return the parameters of a selected model under names of their own."""
    return {f"champion.{name}": value for name, value in _params(champion.trial).items()}


def held_out_metrics(champion: Champion) -> dict[str, float]:
    """Return a model's numbers on rows that took no part in choosing it, with their intervals."""
    found = {"mae": champion.judgement.held_out.mae}
    for i, (column, measures) in enumerate(champion.judgement.held_out.measures.items()):
        for measure, ends in measures.items():
            found[measure if i == 0 else f"{measure}.{column}"] = ends
    return {
        metric_name(f"held_out/{name}{ending}"): value
        for name, ends in found.items()
        for ending, value in zip(("", "_low", "_high"), ends, strict=True)
    }


def model_note(study: Study, champion: Champion, finding: Finding | None = None) -> str:
    """Return the description of a registered model's version."""
    return "\n\n".join([_subject(study), *_chosen(study, champion, finding), _EXAMPLE])


def used_data(study: Study) -> UsedData:
    """Return the rows of a study as MLflow names data."""
    table, story = study.loaded.table, study.loaded.provenance
    columns = [
        *((name, "double") for name in (*table.numeric_names, *table.sensitive_names)),
        *((name, "string") for name in table.categorical_names),
        (table.target_name, "double"),
    ]
    named = dict(columns)
    spec = [{"name": name, "type": kind, "required": True} for name, kind in named.items()]
    dropped = {f"rows dropped: {why}": count for why, count in story["rows_dropped"].items()}
    rows = {"num_rows": table.n, "num_elements": table.n * len(named)}
    profile = {**rows, "rows read": story["rows_read"], **dropped, "synthetic": story["synthetic"]}
    kind, source = _source(story["files"])
    return UsedData(
        name=study.config.data.problem,
        digest=study.loaded.digest[:_DIGEST],
        source_type=kind,
        source=json.dumps(source),
        schema=json.dumps({"mlflow_colspec": spec}),
        profile=json.dumps(profile),
    )


def _source(files: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """Return where rows came from, in one of the forms that MLflow knows."""
    first, names = files[0], [file["name"] for file in files]
    sums = [file.get("sha256", "") for file in files]
    origin = str(first["from"])
    if origin.startswith(("http://", "https://")):
        return "http", {"url": without_credentials(origin), "files": names, "sha256": sums}
    if origin == "the user":
        return "local", {"uri": first["name"], "sha256": sums}
    return "code", {"tags": {"fkd.data": " ".join(names), "fkd.from": origin}}


def _params(trial: Trial) -> dict[str, str]:
    """Return method, strength and every parameter of a trial."""
    strength = f"{trial.strength:g}"
    return {"method": trial.method, "strength": strength, **flat_parameters(trial)}


def _weights(study: Study) -> dict[str, str]:
    """Return by which column rows were weighed in what, nothing where each counts once."""
    weights = study.config.weights
    return {} if weights is None else {"weights": weights.told()}


def _subject(study: Study) -> str:
    """Return what was predicted from which rows, with what removed."""
    data, table = study.config.data, study.loaded.table
    removed = ", ".join(_named(study, name) for name in data.sensitive)
    measured = ", ".join(f"`{name}`" for name in data.measure_on)
    title = plain_markdown(data.declaration.title)
    return (
        f"Predicts {_named(study, table.target_name)} of {title} with {removed} removed, "
        f"dependence measured on {measured}. "
        f"{describe_rows(study.loaded.provenance)}; digest of the data "
        f"`{study.loaded.digest[:_DIGEST]}`."
    )


def _named(study: Study, column: str) -> str:
    """Return a column's name with its title and unit, where it has them."""
    problem = study.config.data.declaration
    unit = problem.target_unit if column == problem.target else problem.units.get(column, "")
    unit = "" if unit.endswith(column) else unit  # "units of rent" says nothing
    told = ", ".join(filter(None, (problem.titles.get(column), unit and f"in {unit}")))
    return f"`{column}`" + (f" ({plain_markdown(told)})" if told else "")


def _chosen(study: Study, champion: Champion | None, finding: Finding | None) -> list[str]:
    """Return what was found, then which model was selected how, with its held-out numbers."""
    policy = study.config.select
    if champion is None or policy is None:
        return []
    limits = ", ".join(f"{name} ≤ {most:g}" for name, most in policy.subject_to.items())
    how = f"at the knee of {policy.knee_of}" if policy.knee_of else "by least mae"
    judgement = champion.judgement
    held_out = held_out_metrics(champion)
    names = [name for name in held_out if not name.endswith(("_low", "_high"))]
    rows = [
        f"| {name.removeprefix('held_out/')} | {held_out[name]:.4f} | "
        f"{held_out[f'{name}_low']:.4f} – {held_out[f'{name}_high']:.4f} |"
        for name in names
    ]
    told = (
        [] if finding is None else [plain_markdown(" ".join((*finding.broken, *finding.sentences)))]
    )
    return [
        *told,
        f"Champion: {plain_markdown(champion.title)}, selected {how}"
        f"{f' under {limits}' if limits else ''} on {study.config.inner_folds} inner folds of "
        f"{judgement.rows_choosing} rows. On {judgement.rows_held_out} held-out rows:",
        "\n".join(["| measure | value | 95 % interval |", "|---|---|---|", *rows]),
    ]


def _span(study: Study, trials: Iterable[Trial], *, inner: bool) -> Span:
    """Return when the fits of trials were written, how long they took one after another."""
    table, splits = study.loaded.table, study.inputs.splits
    folds: list[Fold] = list((splits.all(table) if inner else splits.outer(table)).values())
    seconds, ends = 0.0, [0.0]
    for key in (record_key(trial, fold, study.inputs) for trial in trials for fold in folds):
        record = study.store.read(key)
        if record is not None:
            seconds += record.seconds
            ends.append(study.store.written_at(key))
    last = max(ends) or time.time()
    return Span(round(1000 * (last - seconds)), seconds)


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
    names = run_names(study)
    runs = (trial_run(study, result, names[result.trial.key], tags) for result in results)
    added = tracking.log_trials(parent, runs)
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
        keep_file(registry, parent, held_out_record_name(champion.key), pack_npz(record.arrays()))
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
        "mlflow.source.name": f"fkd run {study.config.name}",
        "fkd.config": study.config.digest,
        "fkd.synthetic": str(bool(study.loaded.provenance["synthetic"])).lower(),
    }
