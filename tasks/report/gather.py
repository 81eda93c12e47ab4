"""Where the numbers of a report come from: rows, run, versions."""

import platform
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version

from configs.load import dump_config
from fkd import __version__
from fkd.core.predictors import FourierExpansion, KernelExpansion
from fkd.measures import REPORTED
from fkd.methods import method
from fkd.problems.own_table import NAME as TABLE
from tasks.data.load import table_parts
from tasks.report.model import (
    ChampionSummary,
    DataFile,
    DataProvenance,
    Failure,
    HeldOutScores,
    Recoverability,
    ReportData,
    ReportedInterval,
    ReportedNoiseFloor,
    ReportedNumber,
    RunProvenance,
    Scalar,
    SelectionPolicy,
    SensitiveColumn,
    TargetColumn,
    TrialSummary,
)
from tasks.select.champion import Champion, select_champion
from tasks.select.checks import check_study, row_facts
from tasks.select.groups import along_study, within_groups
from tasks.select.judgement import DRAWS, ScoreIntervals, verdict
from tasks.select.limit_moves import limit_moves
from tasks.select.results import MAE, TrialResult
from tasks.select.selection import NoChampionError, worst
from tasks.select.study import Study, command_again, shown_parameters
from tasks.track.recording import model_address, recorded
from tasks.track.run_index import time_taken

_PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "prefect", "dask", "distributed", "mlflow")


def data_provenance(study: Study) -> DataProvenance:
    """Return the story of the rows."""
    story = study.loaded.provenance
    table = study.loaded.table
    return DataProvenance(
        source=story["source"],
        rows_read=story["rows_read"],
        rows_used=story["rows_used"],
        files=tuple(DataFile(f["name"], f.get("sha256", "")) for f in story["files"]),
        rows_dropped=story["rows_dropped"],
        row_noun=study.config.data.declaration.row_noun,
        inputs=len(table.numeric_names) + len(table.categorical_names),
        survey_weight=_weight_column(study),
        weighed=_weighed(study),
        synthetic=story["synthetic"],
        datasheet=_datasheet(study),
    )


def _weight_column(study: Study) -> str:
    """Return the column of weights: the one that was used, else that of the census."""
    if study.config.weights is not None:
        return study.config.weights.column
    return "PWGTP" if "PWGTP" in study.loaded.table.extra else ""


def _weighed(study: Study) -> tuple[str, ...]:
    """Return in words what rows were weighed in."""
    weights = study.config.weights
    if weights is None:
        return ()
    uses = {
        "what was removed": weights.removal,
        "what was fitted": weights.fit,
        "every measure, curve and interval": weights.measures,
    }
    return tuple(words for words, used in uses.items() if used)


def _datasheet(study: Study) -> str:
    """Return the data's sheet; that of an own table in the words of today's configuration."""
    data = study.config.data
    if data.problem == TABLE:
        return data.declaration.datasheet
    return str(study.loaded.provenance["datasheet"])


def run_provenance(study: Study, champion: Champion | None) -> RunProvenance:
    """Return what is needed to make the same numbers again."""
    place = recorded(study)
    seconds, finished = time_taken(study)
    tracking: Mapping[str, str] = (
        {}
        if place is None
        else {
            "MLflow": place.uri,
            "experiment": f"{study.config.experiment} ({place.experiment_id})",
            "parent run": place.run_id,
            **({} if champion is None else {"model": model_address(study, champion)}),
        }
    )
    return RunProvenance(
        seed=study.config.seed,
        finished=finished or datetime.now(UTC),
        seconds=seconds,
        config_digest=study.config.digest,
        config_yaml=dump_config(study.config),
        data_digest=study.loaded.digest,
        # No configuration names joined rows.
        commands=(command_again(study),) if len(table_parts(study.loaded)) == 1 else (),
        versions={"fkd": __version__, **{name: version(name) for name in _PACKAGES}},
        machine={"system": platform.platform(), "python": platform.python_version()},
        tracking=tracking,
    )


def report_data(study: Study, *, curves: bool = True) -> ReportData:
    """Return everything the report of a study shows.

    Parameters
    ----------
    study
        What was computed.
    curves
        Whether the page is to be drawn; its finding alone needs no curves.
    """
    try:
        champion, why = select_champion(study), ""
    except NoChampionError as error:
        champion, why = None, str(error)
    problem = study.config.data.declaration
    low, high = study.loaded.table.target_range
    report = ReportData(
        name=study.config.name,
        title=f"{problem.title}: accuracy against fairness",
        problem=problem.title,
        target=TargetColumn(
            problem.target,
            problem.titles.get(problem.target, problem.target),
            problem.target_unit,
            high - low,
        ),
        columns=tuple(_column(study, name, champion) for name in study.inputs.measure_on),
        trials=tuple(_trial(study, result) for result in study.results()),
        data=data_provenance(study),
        run=run_provenance(study, champion),
        removed=tuple(problem.titles.get(name, name) for name in study.inputs.sensitive),
        champion=None if champion is None else _champion(study, champion),
        no_champion=why,
        recoverability=_recovered(champion),
        failures=tuple(Failure(*pair) for pair in study.failures().items()),
        within=None if champion is None else within_groups(study, champion),
        control=tuple(problem.titles.get(name, name) for name in study.config.data.control),
        checks=check_study(study),
    )
    return with_curves(study, report) if curves else report


def with_curves(study: Study, report: ReportData) -> ReportData:
    """Return the report with its curves along s, which take the longest."""
    try:
        along = along_study(study, select_champion(study).trial)
    except NoChampionError:
        along = None
    return replace(report, along=along, moves=limit_moves(study))


def _column(study: Study, name: str, champion: Champion | None) -> SensitiveColumn:
    """Return one measured column with the noise floor on rows of a fold's number."""
    floor = {} if champion is None else _floors(champion)[name]
    inputs = (*study.loaded.table.numeric_names, *study.loaded.table.categorical_names)
    return SensitiveColumn(
        name=name,
        title=study.config.data.declaration.titles.get(name, ""),
        removed=name in study.inputs.sensitive,
        is_input=name in inputs,
        noise_floor=floor,
        proxies=tuple(
            (study.config.data.declaration.titles.get(proxy.name, proxy.name), proxy.correlation)
            for proxy in row_facts(study).proxies[name]
        ),
    )


def _floors(champion: Champion) -> dict[str, dict[str, ReportedNoiseFloor]]:
    """Return the noise floors on the held-out rows, by column, then measure."""
    rows = champion.judgement.rows_held_out
    return {
        column: {
            name: ReportedNoiseFloor(mean=mean, upper=upper, rows=rows, draws=200)
            for name, (mean, upper) in found.items()
        }
        for column, found in champion.judgement.noise.items()
    }


def _trial(study: Study, result: TrialResult) -> TrialSummary:
    """Return one trial's means with deviations over folds."""
    declared = method(result.trial.method)
    first = study.inputs.measure_on[0]
    params: dict[str, Scalar] = shown_parameters(result.trial)
    return TrialSummary(
        key=result.trial.key,
        method=declared.name,
        label=study.names[result.trial.key],
        mae=_number(result, MAE, first),
        scores={
            column: {
                m: _number(result, m, column) for m in REPORTED if result.is_defined(m, column)
            }
            for column in study.inputs.measure_on
        },
        folds=len(result.records),
        strength_name=declared.strength,
        strength=result.trial.strength,
        params=params,
        seconds=sum(record.seconds for record in result.records),
        dummy=declared.name in ("dummy", "median_dummy"),
        needs_sensitive=declared.needs_sensitive,
        removes_nothing=declared.removes_nothing(result.trial.setting()),
        searched=result.trial.key in study.searched,
    )


def _number(result: TrialResult, measure: str, column: str) -> ReportedNumber:
    """Return one of a trial's numbers."""
    known = result.mean(measure, column), result.std(measure, column)
    return ReportedNumber(*known, result.ends(measure, column))


def _deciding(study: Study, champion: Champion) -> dict[str, float]:
    """Return the inner folds' means that decided, worst column first where there are several."""
    select = champion.policy
    names = (MAE, *([select.knee_of] if select.knee_of else select.subject_to))
    (result,) = [r for r in study.results(inner=True) if r.trial == champion.trial]
    return {name: worst(result, name) for name in names}


def _champion(study: Study, champion: Champion) -> ChampionSummary:
    """Return the chosen model as the report tells of it."""
    judgement, predictor = champion.judgement, champion.bundle.predictor
    kind = "exact"
    if isinstance(predictor, FourierExpansion):
        kind = "fourier"
    approximation = champion.trial.parameters.get("approximation", {})
    return ChampionSummary(
        trial=champion.trial.key,
        policy=_policy(champion),
        held_out=_scores(judgement.held_out),
        reference=None if judgement.reference is None else _scores(judgement.reference),
        changes=None if judgement.changes is None else _scores(judgement.changes),
        rows_choosing=judgement.rows_choosing,
        rows_held_out=judgement.rows_held_out,
        noise_floor=_floors(champion),
        deciding=_deciding(study, champion),
        interval_method=f"from {DRAWS} random quarters of the held-out rows",
        approximation=approximation.get("kind", kind),
        stored_rows=len(predictor.centers) if isinstance(predictor, KernelExpansion) else 0,
        model_uri=model_address(study, champion),
        gate=verdict(judgement, study.config.gate, study.refused)
        if study.config.gate or study.refused
        else "",
        gate_limits=study.config.gate,
    )


def _policy(champion: Champion) -> SelectionPolicy:
    """Return the policy in the report's words."""
    select = champion.policy
    if select.knee_of:
        noise = champion.within_noise
        return SelectionPolicy("knee", measure=select.knee_of, within_noise=noise)
    return SelectionPolicy("least", select.minimise, select.subject_to)


def _scores(scores: ScoreIntervals) -> HeldOutScores:
    """Return scores with intervals."""
    measures = {
        column: {name: ReportedInterval(*numbers) for name, numbers in found.items()}
        for column, found in scores.measures.items()
    }
    return HeldOutScores(ReportedInterval(*scores.mae), measures)


def _recovered(champion: Champion | None) -> tuple[Recoverability, ...]:
    """Return what probes could guess before and after."""
    return tuple(
        Recoverability(row.column, row.probe, ReportedNumber(row.before), ReportedNumber(row.after))
        for row in (champion.judgement.recovered if champion else ())
    )
