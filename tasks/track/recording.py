"""Record the trials, the champion and the files of a study in MLflow."""

import json
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mlflow.entities import Dataset

from configs.load import dump_config
from fkd import __version__
from fkd.measures import REPORTED
from fkd.methods import method
from tasks.data.load import describe_rows, table_parts
from tasks.plan.trials import Trial, record_key
from tasks.select.champion import Champion, NoChampionError, select_champion
from tasks.select.checks import check_study
from tasks.select.judgement import broken_limits, held_out_record, held_out_record_name, verdict
from tasks.select.results import SCORES, Finding, TrialResult, flat_parameters, write_results
from tasks.select.study import Study
from tasks.storage.environment import MEMORY
from tasks.storage.files import pack_npz, write_atomic
from tasks.storage.settings import plain_markdown, without_credentials
from tasks.track.registry import CANDIDATE, CHAMPION, CHECK_TAG, Registry
from tasks.track.run_index import identity_of, note_place, note_run, now, owns_files
from tasks.track.runs import RunDetails, Span, Tracking, TrialRun, keep_file, metric_name

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
Its parameters were searched on rows on which all folds but the held-out one test, so its means over
folds are slightly optimistic."""


def record_trials(study: Study, *, afterwards: bool = False) -> int:
    """Record the trials of a study and return the number of new runs.

    Parameters
    ----------
    study
        Its parent run is found by settings, rows and versions of the code, so that the same command
        again adds no run. It updates the time of the last run.
    afterwards
        True for results that an earlier run has computed.
    """
    if not afterwards:
        # Before anything is recorded, because `fkd sync` finds runs by this entry.
        note_run(study)
        write_atomic(study.folder / "config.yaml", dump_config(study.config).encode())
    results = study.results()
    tracking = Tracking(study.settings, study.config.experiment)
    if not results and tracking.find_parent(identity_of(study)) is None:
        return 0
    tags = _tags(study)
    details = parent_details(study)
    parent = tracking.parent_run(identity_of(study), study.config.name, tags, details)
    names = _run_names(study)
    runs = (trial_run(study, result, names[result.trial.key], tags) for result in results)
    added = tracking.log_trials(parent, runs)
    if not afterwards:
        tracking.tag(parent, {"fkd.last_run": now()})
    note_place(study, tracking.experiment_id, parent)
    return added


def record_champion(
    study: Study, finding: Finding | None = None, *, ran: str | None = None
) -> str | None:
    """Register the champion once and return its address, None without a champion.

    A model that breaks the gate is registered as a candidate, with the verdict. The champion then
    stays what it was.

    Parameters
    ----------
    study
        A recorded study.
    finding
        Its finding, for descriptions and tags of the run and of the model's version.
    ran
        Time of its computation, now by default. A version that was promoted later keeps its alias.
    """
    try:
        champion = select_champion(study)
    except NoChampionError:
        return None
    registry = Registry(study.settings, study.config.experiment)
    parent = registry.find_parent(identity_of(study))
    if parent is None:
        return None
    found = {f"{CHECK_TAG}{r.check.code}": str(r.outcome) for r in check_study(study)}
    if finding is not None:
        found["fkd.finding"] = finding.word
    address = registry.register(
        parent,
        study.config.model,
        champion,
        RunDetails(
            model_note(study, champion, finding),
            _champion_params(champion),
            held_out_metrics(champion),
            _used_data(study),
        ),
        verdict={
            "fkd.verdict": verdict(champion.judgement, study.config.gate, study.refused),
            **found,
        },
        alias=_alias(study, champion),
        ran=ran or now(),
    )
    if (record := held_out_record(study, champion.trial)) is not None:
        name = held_out_record_name(champion.key)
        keep_file(registry, parent, name, pack_npz(record.arrays()))
    details = parent_details(study, champion, finding)
    registry.mark_champion(parent, champion.trial.key, details)
    registry.tag(parent, found)
    return address


def model_address(study: Study, champion: Champion) -> str:
    """Return the address of a champion in the registry."""
    return f"models:/{study.config.model}@{_alias(study, champion)}"


def _alias(study: Study, champion: Champion) -> str:
    """Return the alias under which a model is registered."""
    broken = broken_limits(champion.judgement, study.config.gate)
    return CANDIDATE if broken or study.refused else CHAMPION


def record_files(study: Study) -> None:
    """Upload report, figures, results and configuration to the parent run."""
    tracking = Tracking(study.settings, study.config.experiment)
    parent = tracking.find_parent(identity_of(study))
    if parent is None:
        return
    details = RunDetails(span=_span(study, study.trials, inner=True))
    if owns_files(study):
        tracking.finish(parent, _tags(study), study.folder, details)
    elif not tracking.is_complete(parent):
        # A later run of the same name has replaced the files, so the main ones are written again.
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_results(study.results(), study.config.data, folder)
            write_atomic(folder / "config.yaml", dump_config(study.config).encode())
            tracking.finish(parent, _tags(study), folder, details)


def parent_details(
    study: Study, champion: Champion | None = None, finding: Finding | None = None
) -> RunDetails:
    """Return description, parameters, data and duration of the parent run."""
    config, data = study.config, study.config.data
    params = {
        "problem": data.problem,
        "source": data.source,
        "rows": str(study.table.n),
        "sensitive": " ".join(data.sensitive),
        "measured_on": " ".join(data.measure_on),
        "folds": str(len(study.inputs.splits.outer(study.table))),
        "inner_folds": str(config.inner_folds),
        "seed": str(config.seed),
        "methods": " ".join(dict.fromkeys(entry.name for entry in config.methods)),
    }
    if config.weights is not None:
        params["weights"] = config.weights.text()
    if choices := study.choices():
        params["approximation"] = "; ".join(choices)
    # With failed or missing trials, another champion may be selected later.
    if champion is not None and not study.failures() and not study.missing():
        params |= _champion_params(champion)
    note = "\n\n".join([_subject(study), *_selection(study, champion, finding), _METRICS])
    metrics = {} if champion is None else held_out_metrics(champion)
    span = _span(study, study.trials, inner=True)
    return RunDetails(note, params, metrics, _used_data(study), span)


def trial_run(study: Study, result: TrialResult, name: str, tags: dict[str, str]) -> TrialRun:
    """Return the run of one trial. Metrics of further columns have the column's name."""
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
    memory = [one for record in result.records if (one := record.environment.get(MEMORY))]
    if memory and len(memory) == len(result.records):
        metrics["peak_memory_mib"] = max(one["peak_rss"] for one in memory) / 2**20
    trial = result.trial
    note = [f"{study.title(trial)}, one trial of {study.config.name}. {_subject(study)}"]
    note += [_SEARCHED] if trial.key in study.searched else []
    note += [f"Undefined: {metric} ({why})." for metric, why in undefined.items()]
    if undefined:
        tags = {**tags, "fkd.undefined": " ".join(undefined)}
    span = _span(study, [trial], inner=False)
    details = RunDetails("\n\n".join([*note, _METRICS]), _params(trial), metrics, span=span)
    return TrialRun(trial.key, name, tags, details)


def _run_names(study: Study) -> dict[str, str]:
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


def _params(trial: Trial) -> dict[str, str]:
    """Return method, strength and every parameter of a trial."""
    strength = f"{trial.strength:g}"
    return {"method": trial.method, "strength": strength, **flat_parameters(trial)}


def _champion_params(champion: Champion) -> dict[str, str]:
    """Return the parameters of a champion, with a prefix."""
    return {f"champion.{name}": value for name, value in _params(champion.trial).items()}


def held_out_metrics(champion: Champion) -> dict[str, float]:
    """Return a champion's scores on held-out rows, with their intervals."""
    held_out = champion.judgement.held_out
    found = {"mae": held_out.mae}
    for i, (column, measures) in enumerate(held_out.measures.items()):
        for measure, ends in measures.items():
            found[measure if i == 0 else f"{measure}.{column}"] = ends
    return {
        metric_name(f"held_out/{name}{ending}"): value
        for name, ends in found.items()
        for ending, value in zip(("", "_low", "_high"), ends, strict=True)
    }


def model_note(study: Study, champion: Champion, finding: Finding | None = None) -> str:
    """Return the description of a registered model's version."""
    return "\n\n".join([_subject(study), *_selection(study, champion, finding), _EXAMPLE])


def _used_data(study: Study) -> Dataset:
    """Return the rows of a study as a data set of MLflow."""
    table, provenance = study.table, study.loaded.provenance
    types = {
        **dict.fromkeys((*table.numeric_names, *table.sensitive_names), "double"),
        **dict.fromkeys(table.categorical_names, "string"),
        table.target_name: "double",
    }
    columns = [{"name": name, "type": kind, "required": True} for name, kind in types.items()]
    profile = {
        "num_rows": table.n,
        "num_elements": table.n * len(types),
        "rows read": provenance["rows_read"],
        **{f"rows dropped: {why}": n for why, n in provenance["rows_dropped"].items()},
        "synthetic": provenance["synthetic"],
    }
    files = provenance["files"]
    names, sums = [f["name"] for f in files], [f.get("sha256", "") for f in files]
    origin = str(files[0]["from"])
    source: dict[str, Any]
    if origin.startswith(("http://", "https://")):
        kind = "http"
        source = {"url": without_credentials(origin), "files": names, "sha256": sums}
    elif origin == "the user":
        kind, source = "local", {"uri": names[0], "sha256": sums}
    else:
        kind, source = "code", {"tags": {"fkd.data": " ".join(names), "fkd.from": origin}}
    return Dataset(
        name=study.config.data.problem,
        digest=study.loaded.digest[:_DIGEST],
        source_type=kind,
        source=json.dumps(source),
        schema=json.dumps({"mlflow_colspec": columns}),
        profile=json.dumps(profile),
    )


def _subject(study: Study) -> str:
    """Return a sentence on target, rows and sensitive columns."""
    data = study.config.data
    removed = ", ".join(_named(study, name) for name in data.sensitive)
    measured = ", ".join(f"`{name}`" for name in data.measure_on)
    return (
        f"Predicts {_named(study, study.table.target_name)} of "
        f"{plain_markdown(data.declaration.title)} with {removed} removed, dependence measured on "
        f"{measured}. {describe_rows(study.loaded.provenance)}; digest of the data "
        f"`{study.loaded.digest[:_DIGEST]}`."
    )


def _named(study: Study, column: str) -> str:
    """Return a column's name with its title and unit, if it has them."""
    problem = study.config.data.declaration
    unit = problem.target_unit if column == problem.target else problem.units.get(column, "")
    unit = "" if unit.endswith(column) else unit  # "units of rent" adds nothing
    text = ", ".join(filter(None, (problem.titles.get(column), unit and f"in {unit}")))
    return f"`{column}`" + (f" ({plain_markdown(text)})" if text else "")


def _selection(study: Study, champion: Champion | None, finding: Finding | None) -> list[str]:
    """Return paragraphs on the finding, the selection and the champion's held-out scores."""
    policy = study.config.select
    if champion is None or policy is None:
        return []
    limits = ", ".join(f"{name} ≤ {most:g}" for name, most in policy.subject_to.items())
    how = f"at the knee of {policy.knee_of}" if policy.knee_of else "by least mae"
    judgement, held_out = champion.judgement, held_out_metrics(champion)
    rows = [
        f"| {name.removeprefix('held_out/')} | {value:.4f} | "
        f"{held_out[f'{name}_low']:.4f} – {held_out[f'{name}_high']:.4f} |"
        for name, value in held_out.items()
        if not name.endswith(("_low", "_high"))
    ]
    found = [] if finding is None else [" ".join((*finding.broken, *finding.sentences))]
    return [
        *map(plain_markdown, found),
        f"Champion: {plain_markdown(champion.title)}, selected {how}"
        f"{f' under {limits}' if limits else ''} on {study.config.inner_folds} inner folds of "
        f"{judgement.rows_choosing} rows. On {judgement.rows_held_out} held-out rows:",
        "\n".join(["| measure | value | 95 % interval |", "|---|---|---|", *rows]),
    ]


def _span(study: Study, trials: Iterable[Trial], *, inner: bool) -> Span:
    """Return the time of the last fit of trials minus the sum of their durations, and this sum."""
    splits = study.inputs.splits
    folds = (splits.all if inner else splits.outer)(study.table).values()
    seconds, last = 0.0, 0.0
    for key in (record_key(trial, fold, study.inputs) for trial in trials for fold in folds):
        record = study.store.read(key)
        if record is not None:
            seconds += record.seconds
            last = max(last, study.store.written_at(key))
    return Span(round(1000 * ((last or time.time()) - seconds)), seconds)


def _tags(study: Study) -> dict[str, str]:
    """Return the tags of every run of the study."""
    parts = table_parts(study.loaded)
    return {
        "fkd.data": study.loaded.digest,
        **({"fkd.data.parts": " ".join(one[:16] for one in parts)} if len(parts) > 1 else {}),
        "fkd.version": __version__,
        "mlflow.source.name": f"fkd run {study.config.name}",
        "fkd.config": study.config.digest,
        "fkd.synthetic": str(bool(study.loaded.provenance["synthetic"])).lower(),
    }
