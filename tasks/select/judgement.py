"""Judge a model on held-out rows: scores with intervals, noise floors, recoverability, gate."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from configs.errors import UserError
from fkd import measures
from fkd.core.arrays import Array
from fkd.measures import REPORTED, compare, interval, noise_floor, recoverability
from fkd.measures.columns import mean_value
from fkd.measures.groups import UndefinedMeasureError
from fkd.measures.recoverability import FEWEST_ROWS, MAX_ROWS
from fkd.methods import Training, method
from fkd.problems.table import Table
from tasks.plan.trials import Trial
from tasks.select.held_out import held_out_predictions
from tasks.select.study import Study

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
