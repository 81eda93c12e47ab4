"""Judge a model on held-out rows: scores with intervals, noise floors, recoverability, gate."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from configs.errors import UserError
from fkd import measures
from fkd.core.arrays import AnyArray, Array, IntArray
from fkd.core.predictors import Predictor
from fkd.measures import REPORTED, compare, interval, noise_floor, recoverability
from fkd.measures.columns import mean_value
from fkd.measures.groups import UndefinedMeasureError
from fkd.measures.recoverability import FEWEST_ROWS, MAX_ROWS
from fkd.methods import Training, method
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table
from tasks.fit.job import fitted_models, predict_rows, training_for
from tasks.kernels.shared_training import sums_of
from tasks.plan.trials import Trial
from tasks.select.study import Study
from tasks.storage.environment import blas_threads
from tasks.storage.records import PredictedRows

# With this number of draws, the ends of an interval have three stable digits on a few hundred rows.
DRAWS = 300
VERSION = 7  # to be raised whenever a judgement's numbers change; part of a champion's key
# As published, s is in units of the range of its whole data set.
_MEASURES = {name: measure.scaled() for name, measure in REPORTED.items()}

Ends = tuple[float, float, float]  # estimate, low, high


@dataclass(frozen=True)
class ScoreIntervals:
    """Scores of a model on some rows, with intervals."""

    mae: Ends
    measures: Mapping[str, Mapping[str, Ends]]  # by column and measure, without undefined ones


@dataclass(frozen=True)
class Recovered:
    """Held-out R² of one sensitive column by one probe, of features before and after removal."""

    column: str
    probe: str
    before: float
    after: float


@dataclass(frozen=True)
class Judgement:
    """Scores, noise floors and recoverability of a model on held-out rows.

    Parameters
    ----------
    held_out, reference
        Scores of the model, and of the same method without removal.
    changes
        Differences of these, row by row.
    noise
        By column and measure: mean and 95 % quantile on shuffled rows.
    rows_choosing, rows_held_out
        Numbers of rows.
    recovered
        Results of the probes.
    """

    held_out: ScoreIntervals
    reference: ScoreIntervals | None
    changes: ScoreIntervals | None
    noise: Mapping[str, Mapping[str, tuple[float, float]]]
    rows_choosing: int
    rows_held_out: int
    recovered: tuple[Recovered, ...] = ()

    def with_recovered(
        self, columns: Sequence[str], found: Sequence[measures.Recovery]
    ) -> "Judgement":
        """Return the judgement with the results of probes on these columns."""
        rows = tuple(
            Recovered(column, probe.model, float(before), float(after))
            for probe in found
            for column, before, after in zip(
                columns,
                np.atleast_1d(np.asarray(probe.before)),
                np.atleast_1d(np.asarray(probe.after)),
                strict=True,
            )
        )
        return replace(self, recovered=rows)


def judge(study: Study, trial: Trial, test: Table, y_pred: Array) -> Judgement:
    """Return a model's scores on the held-out rows, with those of the same without removal."""
    columns, w = study.inputs.measure_on, study.held_out_weights()
    rng = np.random.default_rng(study.config.seed)
    plain = without_removal(study, trial)
    before = None if plain is None else held_out_predictions(study, [plain])[0]
    noise: dict[str, dict[str, tuple[float, float]]] = {}
    for column in columns:
        f, s = y_pred if before is None else before, test.S([column])[:, 0]
        noise[column] = {}
        for name, measure in _MEASURES.items():
            if measure.noise_floor:
                floor = noise_floor(f, s, rng=rng, measure=measure, y_true=test.y, sample_weight=w)
                noise[column][name] = (float(floor.mean), float(floor.upper))
    held_out, *others = score_intervals(test, y_pred, before, columns, rng, w)
    reference, changes = others or (None, None)
    return Judgement(held_out, reference, changes, noise, study.table.n - test.n, test.n)


def score_intervals(
    test: Table,
    after: Array,
    before: Array | None,
    columns: Sequence[str],
    rng: np.random.Generator,
    w: Array | None = None,
) -> tuple[ScoreIntervals, ...]:
    """Return the scores of `after`; with `before`, also those of `before` and the differences.

    Intervals of all of them come from the same draws of rows.
    """
    y = test.y
    predictions = [after] if before is None else [after, before]

    def intervals(measure: Any, rows: Sequence[tuple[Array, ...]], **options: Any) -> list[Ends]:
        options |= {"rng": rng, "replicates": DRAWS, "sample_weight": w}
        if before is None:
            found = [interval(measure, *rows[0], **options)]
        else:
            pair = compare(measure, *rows, **options)
            found = [pair.first, pair.second, pair.difference]
        return [(float(one.estimate), float(one.low), float(one.high)) for one in found]

    scores: dict[str, dict[str, list[Ends]]] = {}
    for column in columns:
        s, scores[column] = test.S([column])[:, 0], {}
        for name, measure in _MEASURES.items():
            with suppress(UndefinedMeasureError):
                rows = [measure.columns(y, f, s) for f in predictions]
                scores[column][name] = intervals(measure, rows)
    mae = intervals(mean_value, [(np.abs(f - y),) for f in predictions], bounds=(0.0, np.inf))
    return tuple(
        ScoreIntervals(
            own, {c: {name: ends[i] for name, ends in found.items()} for c, found in scores.items()}
        )
        for i, own in enumerate(mae)
    )


def probed_rows(test: Table, seed: int) -> Table:
    """Return the rows, or a draw of as many as probes use."""
    if test.n <= MAX_ROWS:
        return test
    return test.take(np.sort(np.random.default_rng(seed).choice(test.n, MAX_ROWS, replace=False)))


def recover(
    trial: Trial, training: Training, X: Array, S: Array, w: Array | None = None
) -> Sequence[measures.Recovery]:
    """Return how well probes predict S from the fair features, and from those without removal.

    Both are features of the same map, so that a change of the map does not count as removal. Errors
    of rows are weighted by w. The result is empty if the method has no features, if there are too
    few rows, or if S is constant among them.
    """
    declared, setting = method(trial.method), trial.setting()
    if declared.represent is None or (len(S) if w is None else np.count_nonzero(w)) < FEWEST_ROWS:
        return ()
    features = declared.represent(training, setting, X)
    before = declared.features_before(training, setting, X)
    seed = training.seed
    try:
        return recoverability(features, S, before=before, random_state=seed, sample_weight=w)
    except UndefinedMeasureError:
        return ()


def without_removal(study: Study, trial: Trial) -> Trial | None:
    """Return the same trial without removal, None without a record of it on the held-out fold."""
    other = plain_trial(study, trial)
    return other if other is not None and study.held_out_key(other) in study.store else None


def plain_trial(study: Study, trial: Trial) -> Trial | None:
    """Return the study's trial of the same method without removal, None if there is none."""
    plain = method(trial.method).without_removal(trial.setting())
    for other in study.trials:
        if other.method == trial.method and other.setting() == plain:
            return other
    return None


class GateError(UserError):
    """The selected model breaks a limit. Its run has failed, but everything was computed."""

    exit_code = 3


def verdict(judgement: Judgement, gate: Mapping[str, float], refused: tuple[str, ...] = ()) -> str:
    """Return the decision of the gate as it is stored; `refused` are further reasons against."""
    if not gate and not refused:
        return "no gate"
    broken = [*broken_limits(judgement, gate), *refused]
    return f"refused: {'; '.join(broken)}" if broken else "passed"


def strictest(*limits: Mapping[str, float]) -> dict[str, float]:
    """Return the least of several limits on each measure."""
    names = dict.fromkeys(name for own in limits for name in own)
    return {name: min(own[name] for own in limits if name in own) for name in names}


def broken_limits(judgement: Judgement, gate: Mapping[str, float]) -> list[str]:
    """Return one sentence per limit that is broken, or undecided, on the held-out rows."""
    return [
        f"{measure} on {column} is {found[measure][0]:.4f}, above the limit {limit:g}"
        if measure in found
        else f"{measure} on {column} is undefined ({REPORTED[measure].undefined}), so the "
        f"limit {limit:g} cannot be checked"
        for column, found in judgement.held_out.measures.items()
        for measure, limit in gate.items()
        if measure not in found or found[measure][0] > limit
    ]


# A refitted model is compared with kept predictions on at most this many rows.
COMPARED_ROWS = 16_384
# Tolerance of this comparison, for rounding errors.
_RELATIVE, _ABSOLUTE = 1e-6, 1e-9
# At most this many held-out rows are recorded with a champion for comparison with later rows.
MOST_KEPT = 20_000


@dataclass(frozen=True)
class Refitted:
    """A trial fitted to the held-out fold's training rows, with predictions of the test rows."""

    training: Training
    encoder: Encoder
    predictor: Predictor
    y_pred: Array


def refit(study: Study, trial: Trial) -> Refitted:
    """Return a trial's model of the held-out fold. It must predict what the store contains."""
    kept = study.store.predictions(study.held_out_key(trial))
    if kept is None or len(kept) <= COMPARED_ROWS:
        return _refit(study, [trial])[0]
    some = np.linspace(0, len(kept) - 1, COMPARED_ROWS).astype(np.intp)
    return replace(_refit(study, [trial], some)[0], y_pred=kept)


def _refit(study: Study, trials: Sequence[Trial], some: IntArray | None = None) -> list[Refitted]:
    """Return the models of trials of one method, which share computations.

    `some` are positions of held-out rows to predict, all by default.
    """
    table, inputs, fold = study.table, study.inputs, study.held_out
    with blas_threads(inputs.blas_threads):
        training, encoder = training_for(trials, table, fold, inputs)
        predictors = list(fitted_models(training, trials[0].method, trials))
        rows = table.take(fold.test if some is None else fold.test[some])
        found = predict_rows(trials, predictors, encoder, rows, inputs)
    for trial, y_pred in zip(trials, found, strict=True):
        _check_same(study, trial, y_pred, some)
    return [
        Refitted(training, encoder, predictor, y_pred)
        for predictor, y_pred in zip(predictors, found, strict=True)
    ]


def _check_same(study: Study, trial: Trial, y_pred: Array, some: IntArray | None) -> None:
    """Raise an error if a refitted model differs from the one whose scores are stored.

    Rows are compared one by one if their predictions were kept, else by a summary of all rows.
    """
    key = study.held_out_key(trial)
    record, kept = study.store.read(key), study.store.predictions(key)
    if record is None:
        return
    if kept is not None:
        kept = kept if some is None else kept[some]
        gap = float(np.abs(kept - y_pred).max())
        same = np.allclose(kept, y_pred, rtol=_RELATIVE, atol=_ABSOLUTE)
    else:
        gap = record.predicted.distance(PredictedRows.from_predictions(y_pred))
        same = gap <= _ABSOLUTE + _RELATIVE * record.predicted.size
    if not same:
        raise RuntimeError(
            f"The refitted {trial.method} must predict what its trial predicted, got a difference "
            f"of {gap:.2e}. Its version was not raised."
        )


def held_out_predictions(study: Study, trials: Sequence[Trial]) -> list[Array]:
    """Return the predictions of the held-out rows by trials, in units of the target's range.

    Predictions that were not kept, or are damaged, are computed by refitting these trials together.
    They are written to the store unless the study drops all predictions.
    """
    found = study.predicted
    together: dict[tuple[str, bool], list[Trial]] = {}  # of one method, on one kind of feature map
    for trial in dict.fromkeys(trials):
        if trial in found:
            continue
        kept = study.store.predictions(study.held_out_key(trial))
        if kept is not None:
            found[trial] = kept
        else:
            kind = trial.method, sums_of(trial, study.inputs) is None
            together.setdefault(kind, []).append(trial)
    for members in together.values():
        for trial, model in zip(members, _refit(study, members), strict=True):
            found[trial] = model.y_pred
            record = study.store.read(study.held_out_key(trial))
            if study.inputs.predictions != "drop" and record is not None:
                study.store.write_predictions(record, model.y_pred)
    return [found[trial] for trial in trials]


def predicted_targets(study: Study, trial: Trial) -> Array | None:
    """Return the predictions of the held-out rows in the target's unit.

    They are None if the trial has no record on the held-out fold, because it failed there.
    """
    if study.held_out_key(trial) not in study.store:
        return None
    low, high = study.table.target_range
    return np.asarray(low + (high - low) * held_out_predictions(study, [trial])[0])


@dataclass(frozen=True)
class HeldOutRecord:
    """Held-out rows of a champion, for comparison with later rows.

    Parameters
    ----------
    y, y_pred
        Target and prediction in the target's unit, (n,).
    S
        The measured columns in their units, (n, l).
    columns
        Their names.
    target_range, sensitive_range
        The ranges by which measures are scaled.
    """

    y: Array
    y_pred: Array
    S: Array
    columns: tuple[str, ...]
    target_range: tuple[float, float]
    sensitive_range: Array

    def arrays(self) -> dict[str, AnyArray]:
        """Return the record as arrays of numbers or text, which npz stores without pickle."""
        return {
            **vars(self),
            "columns": np.array(self.columns, dtype=np.str_),
            "target_range": np.array(self.target_range),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Return the record with these `arrays`."""
        plain: dict[str, Any] = dict(arrays)
        plain["columns"] = tuple(str(name) for name in arrays["columns"])
        plain["target_range"] = tuple(arrays["target_range"].tolist())
        return cls(**plain)


def held_out_record_name(champion: str) -> str:
    """Return the name of the record among the files of the parent run, by the champion's key."""
    return f"watch/{champion}.npz"


def held_out_record(study: Study, trial: Trial) -> HeldOutRecord | None:
    """Return the record of a selected trial, None if it has no predictions of held-out rows."""
    y_pred = predicted_targets(study, trial)
    if y_pred is None:
        return None
    table, columns, rows = study.table, study.inputs.measure_on, study.held_out.test
    kept = np.arange(len(rows))
    if len(rows) > MOST_KEPT:
        rng = np.random.default_rng(study.config.seed)
        kept = np.sort(rng.choice(len(rows), MOST_KEPT, replace=False))
    places = np.array([table.sensitive_names.index(name) for name in columns])
    return HeldOutRecord(
        table.target[rows[kept]],
        y_pred[kept],
        table.sensitive[np.ix_(rows[kept], places)],
        columns,
        table.target_range,
        table.sensitive_range[places],
    )
