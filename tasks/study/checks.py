"""The checks of a study, each with its outcome."""

from collections.abc import Iterable, Mapping

import numpy as np

from fkd.core.arrays import Array
from fkd.measures import REPORTED
from fkd.measures.recoverability import FEWEST_ROWS
from tasks.study.champion import Champion, select_champion
from tasks.study.check_values import (
    CHECKS,
    COLLAPSE,
    DRIFT,
    FLOOR,
    GATE,
    KEPT,
    PROXY,
    RECOVERABLE,
    ROWS,
    Check,
    CheckOutcome,
    CheckResult,
)
from tasks.study.gate import broken_limits
from tasks.study.judgement import Judgement
from tasks.study.opening import Study
from tasks.study.predicted_targets import predicted_targets
from tasks.study.row_facts import Distance, row_facts
from tasks.study.selection import NoChampionError

PASSED, ISSUE, TIP = CheckOutcome.PASSED, CheckOutcome.ISSUE, CheckOutcome.TIP
NOT_APPLICABLE, SKIPPED = CheckOutcome.NOT_APPLICABLE, CheckOutcome.SKIPPED

# Held-out rows below which nothing can be said, or not much.
_NONE, _FEW = 30, 200
# Correlation of an input with a removed column that makes it a copy, or a close relative.
_COPY, _RELATIVE = 0.95, 0.7
# Share of an attribute's variation that probes recover.
_MOST, _SOME = 0.5, 0.1
# Spread of predictions as a share of that of the truth.
_CONSTANT, _FLAT = 0.1, 0.3
# Greatest distance of two distributions that is too small to matter, however sure.
_DISTANCE, _CHANCE = 0.1, 0.05


def check_study(study: Study) -> tuple[CheckResult, ...]:
    """Return the outcome of every check, in the order of their codes' list."""
    found = [check_drift(row_facts(study).distances), _proxies(study)]
    try:
        champion = select_champion(study)
    except NoChampionError as error:
        done = {result.check for result in found}
        found += [
            CheckResult(check, SKIPPED, f"There is no chosen model: {error}")
            for check in CHECKS
            if check not in done
        ]
    else:
        found += list(_on_champion(study, champion))
    return tuple(sorted(found, key=lambda result: CHECKS.index(result.check)))


def has_issue(results: Iterable[CheckResult]) -> bool:
    """Return whether one of the checks found an issue."""
    return any(result.outcome is ISSUE for result in results)


def _on_champion(study: Study, champion: Champion) -> Iterable[CheckResult]:
    """Yield the checks on the chosen model."""
    judgement = champion.judgement
    limits = dict(champion.policy.subject_to)
    yield check_rows(judgement.rows_held_out)
    yield check_floor(judgement, (limits, study.config.gate))
    yield check_kept(judgement, limits)
    yield check_recoverable(judgement)
    yield study.once((COLLAPSE, champion.key), lambda: _collapse(study, champion))
    yield check_gate(judgement, study.config.gate)


def check_rows(rows: int) -> CheckResult:
    """Return whether there are enough rows to judge on."""
    outcome = ISSUE if rows < _NONE else TIP if rows < _FEW else PASSED
    return CheckResult(ROWS, outcome, f"{rows:,} rows took no part in choosing.")


def check_floor(judgement: Judgement, limits: Iterable[Mapping[str, float]]) -> CheckResult:
    """Return whether limits exceed the noise floor of their measure."""
    floors = {name for found in judgement.noise.values() for name in found}
    found = []
    for own in limits:
        for name, limit in own.items():
            if name not in floors:
                continue
            on_columns = [found[name] for found in judgement.noise.values()]
            mean, upper = (max(ends) for ends in zip(*on_columns, strict=True))
            said = (
                f"The limit on {REPORTED[name].label} is {limit:g}; on "
                f"{judgement.rows_held_out:,} independent rows it reads {mean:.3f} on average, up "
                f"to {upper:.3f} in 95 % of draws."
            )
            outcome = ISSUE if limit < mean else TIP if limit < upper else PASSED
            found.append(CheckResult(FLOOR, outcome, said))
    if not found:
        labels = ", ".join(REPORTED[name].label for name in sorted(floors))
        return CheckResult(FLOOR, NOT_APPLICABLE, f"There is no limit on {labels}.")
    return next((r for word in (ISSUE, TIP) for r in found if r.outcome is word), found[0])


def check_kept(judgement: Judgement, limits: Mapping[str, float]) -> CheckResult:
    """Return whether the limits of the choice hold on held-out rows too."""
    if not limits:
        return CheckResult(KEPT, NOT_APPLICABLE, "The model was chosen without limits.")
    broken = broken_limits(judgement, limits)
    if broken:
        return CheckResult(KEPT, ISSUE, f"{'; '.join(broken)}.")
    said = ", ".join(f"{name} at most {limit:g}" for name, limit in limits.items())
    return CheckResult(KEPT, PASSED, f"Kept: {said}.")


def check_recoverable(judgement: Judgement) -> CheckResult:
    """Return how much of an attribute probes read from the features that are left."""
    if not judgement.recovered:
        rows = judgement.rows_held_out
        why = (
            f"Probes need at least {FEWEST_ROWS} held-out rows, got {rows}."
            if rows < FEWEST_ROWS
            else "This method leaves no features that could be probed, or an attribute is constant "
            "among the probed rows."
        )
        return _skipped(RECOVERABLE, why)
    worst = max(judgement.recovered, key=lambda row: row.after)
    said = (
        f"The best probe ({worst.probe}) explains {max(0.0, worst.after):.0%} of the variation of "
        f"{worst.column} from the features that are left, {max(0.0, worst.before):.0%} with "
        "nothing removed."
    )
    outcome = ISSUE if worst.after >= _MOST else TIP if worst.after >= _SOME else PASSED
    return CheckResult(RECOVERABLE, outcome, said)


def check_gate(judgement: Judgement, gate: Mapping[str, float]) -> CheckResult:
    """Return whether the gate lets the model through."""
    if not gate:
        return CheckResult(GATE, NOT_APPLICABLE, "No gate is configured.")
    broken = broken_limits(judgement, gate)
    if broken:
        return CheckResult(GATE, ISSUE, f"Refused: {'; '.join(broken)}.")
    return CheckResult(GATE, PASSED, "Every limit of the gate is kept.")


def check_collapse(y: Array, y_pred: Array, constant: float) -> CheckResult:
    """Return whether predictions have shrunk to a constant, or do no better than one.

    Parameters
    ----------
    y, y_pred
        Truth and prediction on the held-out rows.
    constant
        The best constant that the rows before would have chosen.
    """
    spread = float(y_pred.std(axis=0) / y.std(axis=0)) if y.std(axis=0) > 0 else 1.0
    error = float(np.abs(y_pred - y).mean(axis=0))
    plain = float(np.abs(constant - y).mean(axis=0))
    said = (
        f"Predictions spread {spread:.2f} times as far as the truth; their mean absolute error is "
        f"{_short(error)}, that of a constant {_short(plain)}."
    )
    if spread < _CONSTANT or error >= plain:
        return CheckResult(COLLAPSE, ISSUE, said)
    return CheckResult(COLLAPSE, TIP if spread < _FLAT else PASSED, said)


def _short(value: float) -> str:
    """Return a number without an exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def check_drift(distances: Mapping[str, Distance]) -> CheckResult:
    """Return whether columns of later rows are distributed like those of rows before.

    Parameters
    ----------
    distances
        Of these columns, by name.
    """
    name = max(distances, key=lambda one: distances[one].statistic)
    distance, chance = distances[name].statistic, distances[name].chance * len(distances)
    said = (
        f"{name} differs most: the two distributions are {distance:.3f} apart at most "
        f"(p = {min(1.0, chance):.2g} over {len(distances)} columns)."
    )
    drifted = distance > _DISTANCE and chance < _CHANCE
    return CheckResult(DRIFT, ISSUE if drifted else PASSED, said)


def _proxies(study: Study) -> CheckResult:
    """Look for an input that is a removed column under another name."""
    found = [
        (proxy.correlation, proxy.name, column)
        for column in study.inputs.sensitive
        for proxy in row_facts(study).proxies[column][:1]
    ]
    if not found:
        return CheckResult(PROXY, NOT_APPLICABLE, "There is no input beside the attribute.")
    correlation, name, column = max(found)
    said = f"{name} goes along with {column} most, with a correlation of {correlation:.2f}."
    outcome = ISSUE if correlation >= _COPY else TIP if correlation >= _RELATIVE else PASSED
    return CheckResult(PROXY, outcome, said)


def _collapse(study: Study, champion: Champion) -> CheckResult:
    """Compare the champion's spread and error with those of truth and constant."""
    table = study.loaded.table
    fold = study.inputs.splits.held_out_fold(table)
    y_pred = predicted_targets(study, champion.trial)
    if y_pred is None:
        return _skipped(COLLAPSE, "It has no predictions of the held-out rows.")
    return check_collapse(table.target[fold.test], y_pred, row_facts(study).median)


def _skipped(check: Check, why: str) -> CheckResult:
    return CheckResult(check, SKIPPED, why)
