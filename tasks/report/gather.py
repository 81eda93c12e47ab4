"""Collect the content of a report from a study."""

import platform
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version

from configs.load import dump_config
from fkd import __version__
from fkd.core.predictors import FourierExpansion, KernelExpansion
from fkd.measures import REPORTED, NoiseFloor
from fkd.methods import method
from tasks.data.load import table_parts
from tasks.report.model import (
    ChampionSummary,
    DataFile,
    DataProvenance,
    Failure,
    ReportData,
    ReportedNumber,
    RunProvenance,
    SelectionPolicy,
    SensitiveColumn,
    TargetColumn,
    TrialSummary,
)
from tasks.select.champion import Champion, select_champion
from tasks.select.checks import check_study, row_facts
from tasks.select.groups import along_study, within_groups
from tasks.select.judgement import DRAWS, verdict
from tasks.select.limit_moves import limit_moves
from tasks.select.results import MAE, TrialResult
from tasks.select.selection import NoChampionError, worst
from tasks.select.study import Study, command_again, shown_parameters
from tasks.track.recording import model_address, recorded
from tasks.track.run_index import time_taken

_PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "prefect", "dask", "distributed", "mlflow")
_PERMUTATIONS = 200  # the default of fkd.measures.noise_floor


def report_data(study: Study, *, curves: bool = True) -> ReportData:
    """Return the content of the report of a study.

    Parameters
    ----------
    study
        A study whose fits are stored.
    curves
        Whether to compute the curves along the sensitive columns, see `with_curves`.
    """
    try:
        champion, reason = select_champion(study), ""
    except NoChampionError as error:
        champion, reason = None, str(error)
    problem = study.config.data.declaration
    low, high = study.loaded.table.target_range
    target = problem.target
    report = ReportData(
        name=study.config.name,
        title=f"{problem.title}: accuracy against fairness",
        problem=problem.title,
        target=TargetColumn(
            target, problem.titles.get(target, target), problem.target_unit, high - low
        ),
        columns=tuple(_column(study, name, champion) for name in study.inputs.measure_on),
        trials=tuple(_trial(study, result) for result in study.results()),
        data=_data_provenance(study),
        run=_run_provenance(study, champion),
        removed=tuple(problem.titles.get(name, name) for name in study.inputs.sensitive),
        champion=None if champion is None else _champion(study, champion),
        no_champion=reason,
        failures=tuple(Failure(*pair) for pair in study.failures().items()),
        within=None if champion is None else within_groups(study, champion),
        control=tuple(problem.titles.get(name, name) for name in study.config.data.control),
        checks=check_study(study),
    )
    return with_curves(study, report) if curves else report


def with_curves(study: Study, report: ReportData) -> ReportData:
    """Return the report with the curves along the sensitive columns, which take most time."""
    try:
        profiles = along_study(study, select_champion(study).trial)
    except NoChampionError:
        profiles = None
    return replace(report, profiles=profiles, moves=limit_moves(study))


def _data_provenance(study: Study) -> DataProvenance:
    """Return the origin of the rows."""
    known, table, weights = study.loaded.provenance, study.loaded.table, study.config.weights
    own = study.config.data.path is not None
    census_weight = "PWGTP" if "PWGTP" in table.extra else ""
    uses = (
        {}
        if weights is None
        else {
            "the removal": weights.removal,
            "the fits": weights.fit,
            "every measure, curve and interval": weights.measures,
        }
    )
    return DataProvenance(
        source=known["source"],
        rows_read=known["rows_read"],
        rows_used=known["rows_used"],
        files=tuple(DataFile(f["name"], f.get("sha256", "")) for f in known["files"]),
        rows_dropped=known["rows_dropped"],
        row_noun=study.config.data.declaration.row_noun,
        inputs=len(table.numeric_names) + len(table.categorical_names),
        survey_weight=census_weight if weights is None else weights.column,
        weighted=tuple(text for text, used in uses.items() if used),
        synthetic=known["synthetic"],
        # A user may have changed the texts of an own table since it was stored.
        datasheet=study.config.data.declaration.datasheet if own else str(known["datasheet"]),
    )


def _run_provenance(study: Study, champion: Champion | None) -> RunProvenance:
    """Return the facts that are needed to compute the same numbers again."""
    place = recorded(study)
    seconds, finished = time_taken(study)
    tracking = {}
    if place is not None:
        tracking = {
            "MLflow": place.uri,
            "experiment": f"{study.config.experiment} ({place.experiment_id})",
            "parent run": place.run_id,
            **({} if champion is None else {"model": model_address(study, champion)}),
        }
    return RunProvenance(
        seed=study.config.seed,
        finished=finished or datetime.now(UTC),
        seconds=seconds,
        config_digest=study.config.digest,
        config_yaml=dump_config(study.config),
        data_digest=study.loaded.digest,
        # No configuration refers to joined rows.
        commands=(command_again(study),) if len(table_parts(study.loaded)) == 1 else (),
        versions={"fkd": __version__, **{name: version(name) for name in _PACKAGES}},
        machine={"system": platform.platform(), "python": platform.python_version()},
        tracking=tracking,
    )


def _column(study: Study, name: str, champion: Champion | None) -> SensitiveColumn:
    """Return one measured column with its noise floors and proxies."""
    table, titles = study.loaded.table, study.config.data.declaration.titles
    noise = {} if champion is None else champion.judgement.noise[name]
    return SensitiveColumn(
        name=name,
        title=titles.get(name, ""),
        removed=name in study.inputs.sensitive,
        is_input=name in (*table.numeric_names, *table.categorical_names),
        noise_floor={
            measure: NoiseFloor(mean, upper, 0.95, _PERMUTATIONS)
            for measure, (mean, upper) in noise.items()
        },
        proxies=tuple(
            (titles.get(proxy.name, proxy.name), proxy.correlation)
            for proxy in row_facts(study).proxies[name]
        ),
    )


def _trial(study: Study, result: TrialResult) -> TrialSummary:
    """Return the means of one trial."""
    trial, declared = result.trial, method(result.trial.method)
    first = study.inputs.measure_on[0]
    return TrialSummary(
        key=trial.key,
        method=declared.name,
        label=study.names[trial.key],
        mae=_number(result, MAE, first),
        scores={
            column: {
                m: _number(result, m, column) for m in REPORTED if result.is_defined(m, column)
            }
            for column in study.inputs.measure_on
        },
        folds=len(result.records),
        strength_name=declared.strength,
        strength=trial.strength,
        params=shown_parameters(trial),
        seconds=sum(record.seconds for record in result.records),
        dummy=declared.name in ("dummy", "median_dummy"),
        needs_sensitive=declared.needs_sensitive,
        removes_nothing=declared.removes_nothing(trial.setting()),
        searched=trial.key in study.searched,
    )


def _number(result: TrialResult, measure: str, column: str) -> ReportedNumber:
    """Return one number of a trial."""
    return ReportedNumber(
        result.mean(measure, column), result.std(measure, column), result.ends(measure, column)
    )


def _champion(study: Study, champion: Champion) -> ChampionSummary:
    """Return the chosen model."""
    judgement, predictor = champion.judgement, champion.bundle.predictor
    policy = SelectionPolicy("least", champion.policy.minimise, champion.policy.subject_to)
    if champion.policy.knee_of:
        knee = champion.policy.knee_of
        policy = SelectionPolicy("knee", measure=knee, within_noise=champion.within_noise)
    deciding = (MAE, *([policy.measure] if policy.measure else policy.subject_to))
    (result,) = [r for r in study.results(inner=True) if r.trial == champion.trial]
    kind = "fourier" if isinstance(predictor, FourierExpansion) else "exact"
    gated = bool(study.config.gate or study.refused)
    return ChampionSummary(
        trial=champion.trial.key,
        policy=policy,
        held_out=judgement.held_out,
        reference=judgement.reference,
        changes=judgement.changes,
        rows_choosing=judgement.rows_choosing,
        rows_held_out=judgement.rows_held_out,
        deciding={name: worst(result, name) for name in deciding},
        interval_method=f"from {DRAWS} random quarters of the held-out rows",
        approximation=champion.trial.parameters.get("approximation", {}).get("kind", kind),
        stored_rows=len(predictor.centers) if isinstance(predictor, KernelExpansion) else 0,
        model_uri=model_address(study, champion),
        gate=verdict(judgement, study.config.gate, study.refused) if gated else "",
        gate_limits=study.config.gate,
        recovered=judgement.recovered,
    )
