"""Judge a model on held-out rows: scores with intervals, noise floors, recoverability, gate."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from configs.errors import UserError
from fkd import measures
from fkd.core.arrays import Array
from fkd.measures import REPORTED, Comparison, compare, interval, noise_floor, recoverability
from fkd.measures.columns import mean_value
from fkd.measures.groups import UndefinedMeasureError
from fkd.measures.recoverability import FEWEST_ROWS, MAX_ROWS
from fkd.methods import Training, method
from fkd.problems.table import Table
from tasks.plan.trials import Trial, record_key
from tasks.select.refit import held_out_predictions
from tasks.select.study import Study

# Three figures of an interval's ends are stable at this many draws on a few hundred rows.
DRAWS = 300
VERSION = 7  # to be raised whenever a judgement's numbers change; part of a champion's key
# As published, s is in units of the range of its whole data set.
_MEASURES = {name: measure.scaled() for name, measure in REPORTED.items()}


@dataclass(frozen=True)
class ScoreIntervals:
    """A model's numbers on some rows: each is (value, low, high)."""

    mae: tuple[float, float, float]
    # By column, then measure. An undefined measure is left out.
    measures: Mapping[str, Mapping[str, tuple[float, float, float]]]

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the scores that `asdict` and JSON made plain."""
        measures = {
            column: {name: tuple(numbers) for name, numbers in found.items()}
            for column, found in plain["measures"].items()
        }
        return cls(tuple(plain["mae"]), measures)


@dataclass(frozen=True)
class Recovered:
    """Held-out R² of one sensitive column by one probe, of features before and after removal."""

    column: str
    probe: str
    before: float
    after: float


@dataclass(frozen=True)
class Judgement:
    """What the held-out rows say of a model."""

    held_out: ScoreIntervals
    reference: ScoreIntervals | None  # the same method with nothing removed, on the same rows
    changes: ScoreIntervals | None  # what the removal changed: after minus before, row by row
    # By column, then measure: mean and 95 % quantile on shuffled rows.
    noise: Mapping[str, Mapping[str, tuple[float, float]]]
    rows_choosing: int
    rows_held_out: int
    recovered: tuple[Recovered, ...] = ()

    def with_recovered(
        self, columns: Sequence[str], found: Sequence[measures.Recovery]
    ) -> "Judgement":
        """Return the judgement with what probes could still guess."""
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

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the judgement that `asdict` made plain."""
        parts = {name: plain[name] for name in ("held_out", "reference", "changes")}
        return cls(
            **{
                **plain,
                **{name: part and ScoreIntervals.from_plain(part) for name, part in parts.items()},
                "noise": {
                    column: {name: tuple(pair) for name, pair in found.items()}
                    for column, found in plain["noise"].items()
                },
                "recovered": tuple(Recovered(**row) for row in plain["recovered"]),
            }
        )


def judge(study: Study, trial: Trial, test: Table, y_pred: Array) -> Judgement:
    """Return a model's scores on the held-out rows, beside those without removal."""
    table = study.loaded.table
    columns = study.inputs.measure_on
    rng = np.random.default_rng(study.config.seed)
    plain = without_removal(study, trial)
    before = None if plain is None else held_out_predictions(study, [plain])[0]
    w = study.held_out_weights()
    noise: dict[str, dict[str, tuple[float, float]]] = {}
    for column in columns:
        f, s = y_pred if before is None else before, test.S([column])[:, 0]
        noise[column] = {}
        for name, measure in _MEASURES.items():
            if measure.noise_floor:
                floor = noise_floor(f, s, rng=rng, measure=measure, y_true=test.y, sample_weight=w)
                noise[column][name] = (float(floor.mean), float(floor.upper))
    if before is None:
        held_out, reference, changes = _scores(test, y_pred, columns, rng, w), None, None
    else:
        held_out, reference, changes = compared(test, y_pred, before, columns, rng, w)
    return Judgement(
        held_out=held_out,
        reference=reference,
        changes=changes,
        noise=noise,
        rows_choosing=table.n - test.n,
        rows_held_out=test.n,
    )


def probed_rows(test: Table, seed: int) -> Table:
    """Return as many of the rows as probes look at: features of more would only fill memory."""
    if test.n <= MAX_ROWS:
        return test
    return test.take(np.sort(np.random.default_rng(seed).choice(test.n, MAX_ROWS, replace=False)))


def recover(
    trial: Trial, training: Training, X: Array, S: Array, w: Array | None = None
) -> Sequence[measures.Recovery]:
    """Return how well other models guess S from the fair features, against with nothing removed.

    Both are features of the same map: what a change of the map alone hides was not removed. Errors
    on rows count w times. There is nothing to return if the method has no features, or if the
    rows are too few to probe or agree in S.
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
    """Return the same with nothing removed, None where the held-out fold has no record of it."""
    other = plain_trial(study, trial)
    fold = study.inputs.splits.held_out_fold(study.loaded.table)
    stored = other is not None and record_key(other, fold, study.inputs) in study.store
    return other if stored else None


def plain_trial(study: Study, trial: Trial) -> Trial | None:
    """Return the trial of the same method with nothing removed, None where there is none."""
    plain = method(trial.method).without_removal(trial.setting())
    for other in study.trials:
        if other.method == trial.method and other.setting() == plain:
            return other
    return None


def _scores(
    test: Table, y_pred: Array, columns: Sequence[str], rng: np.random.Generator, w: Array | None
) -> ScoreIntervals:
    """Return each number with its interval, with rows weighted by w."""
    y = test.y
    drawn: Any = {"rng": rng, "replicates": DRAWS, "sample_weight": w}
    by_column = {}
    for column in columns:
        s, found = test.S([column])[:, 0], {}
        for name, measure in _MEASURES.items():
            with suppress(UndefinedMeasureError):
                found[name] = _ends(interval(measure, *measure.columns(y, y_pred, s), **drawn))
        by_column[column] = found
    mae = interval(mean_value, np.abs(y_pred - y), bounds=(0.0, np.inf), **drawn)
    return ScoreIntervals(_ends(mae), by_column)


def compared(
    test: Table,
    after: Array,
    before: Array,
    columns: Sequence[str],
    rng: np.random.Generator,
    w: Array | None = None,
) -> tuple[ScoreIntervals, ScoreIntervals, ScoreIntervals]:
    """Return each number after the removal, before it, and the change: all see the same rows."""
    y = test.y
    drawn: Any = {"rng": rng, "replicates": DRAWS, "sample_weight": w}

    pairs: dict[str, dict[str, Comparison]] = {}
    for column in columns:
        s = test.S([column])[:, 0]
        pairs[column] = {}
        for name, measure in _MEASURES.items():
            sides = [measure.columns(y, f, s) for f in (after, before)]
            with suppress(UndefinedMeasureError):
                pairs[column][name] = compare(measure, *sides, **drawn)
    errors = [(np.abs(f - y),) for f in (after, before)]
    mae = compare(mean_value, *errors, bounds=(0.0, np.inf), **drawn)
    first, second, difference = (
        ScoreIntervals(
            _ends(getattr(mae, side)),
            {
                column: {name: _ends(getattr(pair, side)) for name, pair in found.items()}
                for column, found in pairs.items()
            },
        )
        for side in ("first", "second", "difference")
    )
    return first, second, difference


def _ends(found: measures.Interval) -> tuple[float, float, float]:
    """Return an interval as three numbers."""
    return float(found.estimate), float(found.low), float(found.high)


class GateError(UserError):
    """The selected model breaks a limit: its run has failed though everything was computed."""

    exit_code = 3


def verdict(judgement: Judgement, gate: Mapping[str, float], refused: tuple[str, ...] = ()) -> str:
    """Return what the gate says of a model, as it is kept with it, with other reasons against."""
    if not gate and not refused:
        return "no gate"
    broken = [*broken_limits(judgement, gate), *refused]
    return f"refused: {'; '.join(broken)}" if broken else "passed"


def broken_limits(judgement: Judgement, gate: Mapping[str, float]) -> list[str]:
    """Return one sentence per limit that the held-out rows break, or leave undecided."""
    return [
        f"{measure} on {column} is {found[measure][0]:.4f}, above the limit {limit:g}"
        if measure in found
        else f"{measure} on {column} is undefined ({REPORTED[measure].undefined}), so the "
        f"limit {limit:g} cannot be checked"
        for column, found in judgement.held_out.measures.items()
        for measure, limit in gate.items()
        if measure not in found or found[measure][0] > limit
    ]
