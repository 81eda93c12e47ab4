"""The content of a report as plain values."""

import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version

from configs.load import dump_config
from configs.run import SelectConfig
from fkd import __version__
from fkd.core.predictors import FourierExpansion, KernelExpansion
from fkd.measures import REPORTED
from fkd.methods import method
from tasks.data.load import table_parts
from tasks.select.champion import Champion, NoChampionError, select_champion, worst
from tasks.select.checks import CheckResult, check_study, row_facts
from tasks.select.groups import StudyProfiles, WithinGroups, along_study, within_groups
from tasks.select.judgement import Judgement, strictest, verdict
from tasks.select.limit_moves import LimitMoves, limit_moves
from tasks.select.results import MAE, TrialResult, shown_parameters
from tasks.select.study import Study, rerun_command
from tasks.track.recording import model_address
from tasks.track.run_index import recorded, time_taken

Scalar = str | int | float | bool | None
Estimate = tuple[float, float, float]  # a value with the ends of its interval


@dataclass(frozen=True)
class ReportedNumber:
    """A mean over folds with its spread.

    Parameters
    ----------
    mean
        The mean.
    std
        The standard deviation over folds, None if there is one number only.
    ends
        The ends of the interval of the mean, known for large test sets only.
    """

    mean: float
    std: float | None = None
    ends: tuple[float, float] | None = None

    @property
    def bar(self) -> float:
        """Half of the interval if it is known, else the standard deviation, else 0."""
        if self.ends is not None:
            return (self.ends[1] - self.ends[0]) / 2
        return self.std if self.std is not None and math.isfinite(self.std) else 0.0


@dataclass(frozen=True)
class TargetColumn:
    """The predicted column. A scaled error times `scale` is an error in `unit`."""

    title: str
    unit: str = ""
    scale: float = 1.0


@dataclass(frozen=True)
class SensitiveColumn:
    """A column for which the fairness measures are computed.

    Parameters
    ----------
    name, title
        The name in the table, and the name for readers.
    removed
        True if the column was to be removed, False if it was only measured.
    is_input
        True if the column is an input of the models.
    noise_floor
        Mean and 95 % quantile of a measure on permuted held-out rows, by measure.
    proxies
        The inputs with the greatest correlation with the column, each with its correlation.
    """

    name: str
    title: str = ""
    removed: bool = True
    is_input: bool = False
    noise_floor: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    proxies: tuple[tuple[str, float], ...] = ()

    @property
    def text(self) -> str:
        """The title, or the name if there is no title."""
        return self.title or self.name


@dataclass(frozen=True)
class TrialSummary:
    """One setting of one method, evaluated on every fold.

    Parameters
    ----------
    key, label
        The key of the trial, and the name of its method for readers.
    mae
        The mean absolute error, scaled.
    scores
        By measured column, then measure. A measure that is undefined on a fold is absent.
    folds
        The number of folds.
    strength_name, strength
        The parameter that sets the strength of the removal, None if the method has none.
    params
        All other parameters.
    seconds
        The sum over folds.
    dummy
        True if the method predicts a constant.
    needs_sensitive
        True if predictions need the sensitive column.
    removes_nothing
        True if the method has no removal, or its strength is 0.
    searched
        True if a search chose the parameters on rows that most folds test on.
    """

    key: str
    label: str
    mae: ReportedNumber
    scores: Mapping[str, Mapping[str, ReportedNumber]]
    folds: int
    strength_name: str | None = None
    strength: float = 0.0
    params: Mapping[str, Scalar] = field(default_factory=dict)
    seconds: float = math.nan
    dummy: bool = False
    needs_sensitive: bool = False
    removes_nothing: bool = False
    searched: bool = False

    def is_known(self, column: str, measure: str) -> bool:
        """Return whether error and measure are both finite."""
        score = self.scores[column].get(measure)
        return score is not None and math.isfinite(score.mean) and math.isfinite(self.mae.mean)


@dataclass(frozen=True)
class ChampionSummary:
    """The chosen trial, refitted, with its numbers on the held-out rows.

    Parameters
    ----------
    trial
        The key of one of the report's trials.
    policy
        The rule that chose it.
    judgement
        Its numbers on the held-out rows, and those of the same model without removal.
    within_noise
        True if the most accurate trial was chosen because it depends on no column beyond noise.
    deciding
        The means over inner folds that decided, by measure.
    approximation, stored_rows
        The kind of kernel approximation, and the training rows in the model's file.
    model_uri, gate, gate_limits
        The address in the registry, the verdict of the gate and its limits.
    """

    trial: str
    policy: SelectConfig
    judgement: Judgement
    within_noise: bool = False
    deciding: Mapping[str, float] = field(default_factory=dict)
    approximation: str = "exact"
    stored_rows: int = 0
    model_uri: str = ""
    gate: str = ""
    gate_limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def limits(self) -> dict[str, float]:
        """The limits for held-out rows, of policy and gate; the stricter one of two."""
        found = strictest(self.policy.subject_to, self.gate_limits)
        return {name: limit for name, limit in found.items() if name != MAE}


@dataclass(frozen=True)
class DataProvenance:
    """The origin of the rows.

    Parameters
    ----------
    source
        A description.
    rows_read, rows_used, rows_dropped
        Numbers of rows; dropped rows by reason.
    files
        Name and sha256 of each file; the latter is empty for synthetic data.
    inputs
        The number of input columns before encoding, None if unknown.
    row_noun
        The plural noun for rows, such as persons.
    survey_weight, weighted
        The column of weights if the data has one, and the computations that used it.
    synthetic
        True if a program generated the rows.
    datasheet
        Markdown.
    """

    source: str
    rows_read: int
    rows_used: int
    rows_dropped: Mapping[str, int] = field(default_factory=dict)
    files: tuple[tuple[str, str], ...] = ()
    inputs: int | None = None
    row_noun: str = "rows"
    survey_weight: str = ""
    weighted: tuple[str, ...] = ()
    synthetic: bool = False
    datasheet: str = ""


@dataclass(frozen=True)
class RunProvenance:
    """The facts that are needed to compute the same numbers again."""

    seed: int
    finished: datetime
    seconds: float  # NaN if unknown
    config_digest: str
    config_yaml: str
    data_digest: str = ""
    commands: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    tracking: Mapping[str, str] = field(default_factory=dict)  # MLflow ids and addresses


@dataclass(frozen=True)
class ReportData:
    """The content of one report.

    Parameters
    ----------
    name, title
        The name of the run, and the heading.
    problem
        The title of the data set.
    target, columns
        The predicted column and the measured columns.
    trials, failures
        The trials with numbers, and the causes of those without by trial.
    data, run
        Provenance.
    removed
        Titles of the removed columns; empty: the columns marked as removed.
    champion, no_champion
        The chosen model, or the reason why there is none.
    within, control
        The champion within groups of the control columns, and the titles of these columns.
    profiles
        The champion along the measured columns.
    checks
        The results of the checks.
    moves
        The choices under other limits.
    promotion
        Who promoted the champion's version, when and why.
    """

    name: str
    title: str
    problem: str
    target: TargetColumn
    columns: tuple[SensitiveColumn, ...]
    trials: tuple[TrialSummary, ...]
    data: DataProvenance
    run: RunProvenance
    removed: tuple[str, ...] = ()
    champion: ChampionSummary | None = None
    no_champion: str = ""
    failures: Mapping[str, str] = field(default_factory=dict)
    within: WithinGroups | None = None
    control: tuple[str, ...] = ()
    profiles: StudyProfiles | None = None
    checks: tuple[CheckResult, ...] = ()
    moves: LimitMoves | None = None
    promotion: str = ""

    @property
    def chosen(self) -> TrialSummary | None:
        """The champion's trial."""
        key = self.champion and self.champion.trial
        return next((trial for trial in self.trials if trial.key == key), None)

    @property
    def titles(self) -> dict[str, str]:
        """Titles of the measured columns by name."""
        return {column.name: column.text for column in self.columns}


_PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "prefect", "dask", "distributed", "mlflow")


def report_data(study: Study, *, curves: bool = True) -> ReportData:
    """Return the content of the report of a study.

    Parameters
    ----------
    study
        A study whose fits are stored.
    curves
        If True, compute the curves along the sensitive columns, see `with_curves`.
    """
    try:
        champion, reason = select_champion(study), ""
    except NoChampionError as error:
        champion, reason = None, str(error)
    problem = study.config.data.declaration
    low, high = study.loaded.table.target_range
    report = ReportData(
        name=study.config.name,
        title=f"{problem.title}: accuracy against fairness",
        problem=problem.title,
        target=TargetColumn(
            problem.titles.get(problem.target, problem.target), problem.target_unit, high - low
        ),
        columns=tuple(_column(study, name, champion) for name in study.inputs.measure_on),
        trials=tuple(_trial(study, result) for result in study.results()),
        data=_data_provenance(study),
        run=_run_provenance(study, champion),
        removed=tuple(problem.titles.get(name, name) for name in study.inputs.sensitive),
        champion=None if champion is None else _champion(study, champion),
        no_champion=reason,
        failures=study.failures(),
        within=None if champion is None else within_groups(study, champion),
        control=tuple(problem.titles.get(name, name) for name in study.config.data.control),
        checks=check_study(study),
    )
    return with_curves(study, report) if curves else report


def with_curves(study: Study, report: ReportData) -> ReportData:
    """Return the report with the curves along the sensitive columns, which take most time."""
    try:
        champion = select_champion(study).trial
    except NoChampionError:
        return replace(report, moves=limit_moves(study))
    moves = limit_moves(study, champion.key)
    return replace(report, profiles=along_study(study, champion), moves=moves)


def _column(study: Study, name: str, champion: Champion | None) -> SensitiveColumn:
    """Return one measured column with its noise floors and proxies."""
    table, titles = study.loaded.table, study.config.data.declaration.titles
    return SensitiveColumn(
        name=name,
        title=titles.get(name, ""),
        removed=name in study.inputs.sensitive,
        is_input=name in (*table.numeric_names, *table.categorical_names),
        noise_floor={} if champion is None else champion.judgement.noise[name],
        proxies=tuple(
            (titles.get(proxy.name, proxy.name), proxy.correlation)
            for proxy in row_facts(study).proxies[name]
        ),
    )


def _trial(study: Study, result: TrialResult) -> TrialSummary:
    """Return the means of one trial."""
    trial, declared = result.trial, method(result.trial.method)

    def number(measure: str, column: str) -> ReportedNumber:
        mean, std = result.mean(measure, column), result.std(measure, column)
        return ReportedNumber(mean, std, result.ends(measure, column))

    return TrialSummary(
        key=trial.key,
        label=study.names[trial.key],
        mae=number(MAE, study.inputs.measure_on[0]),
        scores={
            column: {m: number(m, column) for m in REPORTED if result.is_defined(m, column)}
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


def _champion(study: Study, champion: Champion) -> ChampionSummary:
    """Return the chosen model."""
    policy, predictor = champion.policy, champion.bundle.predictor
    deciding = (MAE, *([policy.knee_of] if policy.knee_of else policy.subject_to))
    (result,) = [r for r in study.results(inner=True) if r.trial == champion.trial]
    kind = "fourier" if isinstance(predictor, FourierExpansion) else "exact"
    gated = bool(study.config.gate or study.refused)
    return ChampionSummary(
        trial=champion.trial.key,
        policy=policy,
        judgement=champion.judgement,
        within_noise=champion.within_noise,
        deciding={name: worst(result, name) for name in deciding},
        approximation=champion.trial.parameters.get("approximation", {}).get("kind", kind),
        stored_rows=len(predictor.centers) if isinstance(predictor, KernelExpansion) else 0,
        model_uri=model_address(study, champion),
        gate=verdict(champion.judgement, study.config.gate, study.refused) if gated else "",
        gate_limits=study.config.gate,
    )


def _data_provenance(study: Study) -> DataProvenance:
    """Return the origin of the rows."""
    known, table, weights = study.loaded.provenance, study.loaded.table, study.config.weights
    data = study.config.data
    uses = weights and {
        "the removal": weights.removal,
        "the fits": weights.fit,
        "every measure, curve and interval": weights.measures,
    }
    census_weight = "PWGTP" if "PWGTP" in table.extra else ""
    return DataProvenance(
        **{name: known[name] for name in ("source", "rows_read", "rows_used", "rows_dropped")},
        files=tuple((file["name"], file.get("sha256", "")) for file in known["files"]),
        inputs=len(table.numeric_names) + len(table.categorical_names),
        row_noun=data.declaration.row_noun,
        survey_weight=weights.column if weights else census_weight,
        weighted=tuple(text for text, used in (uses or {}).items() if used),
        synthetic=known["synthetic"],
        # A user may have changed the texts of an own table since it was stored.
        datasheet=data.declaration.datasheet if data.path is not None else str(known["datasheet"]),
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
        commands=(rerun_command(study),) if len(table_parts(study.loaded)) == 1 else (),
        versions={"fkd": __version__, **{name: version(name) for name in _PACKAGES}},
        machine={"system": platform.platform(), "python": platform.python_version()},
        tracking=tracking,
    )
