"""The content of a report as plain values."""

import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Literal

from configs.load import dump_config
from fkd import __version__
from fkd.core.predictors import FourierExpansion, KernelExpansion
from fkd.measures import REPORTED, NoiseFloor
from fkd.methods import method
from tasks.data.load import table_parts
from tasks.select.champion import Champion, select_champion
from tasks.select.checks import CheckResult, check_study, row_facts
from tasks.select.groups import StudyProfiles, WithinGroups, along_study, within_groups
from tasks.select.judgement import DRAWS, Recovered, ScoreIntervals, verdict
from tasks.select.limit_moves import LimitMoves, limit_moves
from tasks.select.results import MAE, TrialResult, shown_parameters
from tasks.select.selection import NoChampionError, worst
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

    name: str
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
        Whether the column was to be removed, not only measured.
    is_input
        Whether the models have the column among their inputs.
    noise_floor
        Values of a measure on shuffled held-out rows, by measure.
    proxies
        The inputs with the greatest correlation with the column, each with its correlation.
    """

    name: str
    title: str = ""
    removed: bool = True
    is_input: bool = False
    noise_floor: Mapping[str, NoiseFloor] = field(default_factory=dict)
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
    key, method, label
        The key of the trial, the name of the method, and its name for readers.
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
        Whether the method predicts a constant.
    needs_sensitive
        Whether predictions need the sensitive column.
    removes_nothing
        Whether the method has no removal, or its strength is 0.
    searched
        Whether a search chose the parameters on rows that most folds test on.
    """

    key: str
    method: str
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
class SelectionPolicy:
    """The rule that chose the champion: the smallest error under limits, or the knee of a front.

    Parameters
    ----------
    kind
        The kind of rule.
    minimise, subject_to
        The minimised error and the limits by measure, for "least".
    measure
        The measure of the front, for "knee".
    within_noise
        Whether the most accurate trial was chosen because it depends on no column beyond noise.
    """

    kind: Literal["least", "knee"]
    minimise: str = MAE
    subject_to: Mapping[str, float] = field(default_factory=dict)
    measure: str = ""
    within_noise: bool = False


@dataclass(frozen=True)
class ChampionSummary:
    """The chosen trial, refitted, with its numbers on the held-out rows.

    Parameters
    ----------
    trial
        The key of one of the report's trials.
    policy
        The rule that chose it.
    held_out
        Its error and measures on the held-out rows.
    rows_choosing, rows_held_out
        Numbers of rows.
    reference
        The same model without removal on the same rows, None if it was not fitted.
    changes
        `held_out` minus `reference`, row by row.
    deciding
        The means over inner folds that decided, by measure.
    approximation, stored_rows
        The kind of kernel approximation, and the training rows in the model's file.
    model_uri, gate, gate_limits
        The address in the registry, the verdict of the gate and its limits.
    recovered
        How well probes predict a sensitive column from the features.
    """

    trial: str
    policy: SelectionPolicy
    held_out: ScoreIntervals
    rows_choosing: int
    rows_held_out: int
    reference: ScoreIntervals | None = None
    changes: ScoreIntervals | None = None
    deciding: Mapping[str, float] = field(default_factory=dict)
    interval_method: str = "from random quarters of the held-out rows"
    approximation: str = "exact"
    stored_rows: int = 0
    model_uri: str = ""
    gate: str = ""
    gate_limits: Mapping[str, float] = field(default_factory=dict)
    recovered: tuple[Recovered, ...] = ()

    @property
    def limits(self) -> dict[str, float]:
        """The limits for held-out rows, of policy and gate; the stricter one of two."""
        both = (self.policy.subject_to, self.gate_limits)
        names = dict.fromkeys(name for limits in both for name in limits if name != MAE)
        return {name: min(limits[name] for limits in both if name in limits) for name in names}


@dataclass(frozen=True)
class Failure:
    """A trial without numbers."""

    trial: str
    cause: str


@dataclass(frozen=True)
class DataFile:
    """A file that rows were read from; synthetic data has no sha256."""

    name: str
    sha256: str


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
        The files.
    inputs
        The number of input columns before encoding, None if unknown.
    row_noun
        The plural noun for rows, such as persons.
    survey_weight, weighted
        The column of weights if the data has one, and the computations that used it.
    synthetic
        Whether a program generated the rows.
    datasheet
        Markdown.
    """

    source: str
    rows_read: int
    rows_used: int
    files: tuple[DataFile, ...] = ()
    rows_dropped: Mapping[str, int] = field(default_factory=dict)
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
        The trials with numbers, and those without.
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
    failures: tuple[Failure, ...] = ()
    within: WithinGroups | None = None
    control: tuple[str, ...] = ()
    profiles: StudyProfiles | None = None
    checks: tuple[CheckResult, ...] = ()
    moves: LimitMoves | None = None
    promotion: str = ""

    def __post_init__(self) -> None:
        if self.champion and self.champion.trial not in {trial.key for trial in self.trials}:
            raise ValueError(
                f"champion.trial must be the key of one of the {len(self.trials)} trials, "
                f"got {self.champion.trial!r}"
            )
        for trial in self.trials:
            self._check_columns(f"scores of trial {trial.key!r}", trial.scores)
        if self.champion:
            self._check_columns("champion.held_out.measures", self.champion.held_out.measures)
            if self.champion.reference:
                self._check_columns("champion.reference.measures", self.champion.reference.measures)

    def _check_columns(self, name: str, scores: Mapping[str, object]) -> None:
        """Raise an error unless the scores contain every measured column."""
        if missing := [column.name for column in self.columns if column.name not in scores]:
            raise ValueError(
                f"{name} must contain every measured column, got none for {', '.join(missing)}"
            )

    def trial(self, key: str) -> TrialSummary:
        """Return the trial with a key."""
        return next(trial for trial in self.trials if trial.key == key)

    @property
    def chosen(self) -> TrialSummary | None:
        """The champion's trial."""
        return self.trial(self.champion.trial) if self.champion else None

    @property
    def titles(self) -> dict[str, str]:
        """Titles of the measured columns by name."""
        return {column.name: column.text for column in self.columns}


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
        commands=(rerun_command(study),) if len(table_parts(study.loaded)) == 1 else (),
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
