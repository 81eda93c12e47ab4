"""Checks of a study: data, limits, recoverability, gate."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np
from pydantic import TypeAdapter
from scipy.stats import ks_2samp

from fkd.core.arrays import Array, IntArray
from fkd.measures import REPORTED
from fkd.measures.recoverability import FEWEST_ROWS
from fkd.problems.table import Table, check_finite
from tasks.select.champion import Champion, NoChampionError, select_champion
from tasks.select.judgement import Judgement, broken_limits, predicted_targets
from tasks.select.study import Study, cached_on_study
from tasks.storage.records import digest
from tasks.storage.store import open_store

PAGE = "docs/reference/checks.md"
VERSION = 1  # to be raised whenever the facts of rows change; part of their key

# Numbers of held-out rows: below the first nothing can be measured, below the second not much.
_NONE, _FEW = 30, 200
# Correlation of an input with a removed column that makes it a copy, or a close relative.
_COPY, _RELATIVE = 0.95, 0.7
# Share of an attribute's variation that probes recover.
_MOST, _SOME = 0.5, 0.1
# Spread of predictions relative to that of the target.
_CONSTANT, _FLAT = 0.1, 0.3
# Drift needs a larger distance of two distributions, and a smaller p-value.
_DISTANCE, _CHANCE = 0.1, 0.05


class CheckOutcome(StrEnum):
    """Outcome of a check."""

    PASSED = "passed"
    ISSUE = "issue"
    TIP = "tip"
    NOT_APPLICABLE = "not applicable"
    SKIPPED = "skipped"


PASSED, ISSUE, TIP = CheckOutcome.PASSED, CheckOutcome.ISSUE, CheckOutcome.TIP
NOT_APPLICABLE, SKIPPED = CheckOutcome.NOT_APPLICABLE, CheckOutcome.SKIPPED


@dataclass(frozen=True)
class Check:
    """A check with its explanation for readers of a report."""

    code: str  # a letter for the section, a number
    title: str
    explanation: str

    @property
    def address(self) -> str:
        """The place of the check in the documentation."""
        return f"{PAGE}#{self.code.lower()}"


@dataclass(frozen=True)
class CheckResult:
    """A check with its outcome: numbers, or the reason why there are none."""

    check: Check
    outcome: CheckOutcome
    message: str

    @property
    def line(self) -> str:
        """The result in one line."""
        return f"{self.check.code} {self.check.title}: {self.outcome}. {self.message}"


ROWS = Check(
    "D1",
    "Enough held-out rows",
    "On few rows every measure is mostly noise. Below 30 rows nothing can be concluded; below 200 "
    "rows HGR of unrelated columns is above 0.1.",
)
DRIFT = Check(
    "D2",
    "Held-out rows like those before",
    "Target and sensitive columns of the held-out rows are compared with those of the rows on "
    "which the model was selected. If they differ, as they may when folds follow time or place, "
    "the held-out numbers describe the model under other conditions.",
)
PROXY = Check(
    "D3",
    "No input stands in for the attribute",
    "An input that is almost perfectly correlated with a removed column is a copy of it. "
    "data.drop removes it, which leaves less for the removal to do.",
)
FLOOR = Check(
    "L1",
    "Limits above the noise floor",
    "HGR of independent columns is not zero. No model satisfies a limit below this noise floor, "
    "except by chance.",
)
KEPT = Check(
    "L2",
    "Limits kept on held-out rows",
    "The model was selected under select.subject_to on inner folds. This check compares the same "
    "limits with the held-out rows, which were not used to select it.",
)
RECOVERABLE = Check(
    "M1",
    "The attribute cannot be recovered",
    "Probe models predict the attribute from the features that the removal leaves. Any model on "
    "these features could use the share of its variation that they explain on new rows.",
)
COLLAPSE = Check(
    "M2",
    "More than a constant",
    "A model that predicts nearly the same for all depends on nothing and has no use. The spread "
    "of its predictions is compared with that of the target, its error with that of the best "
    "constant.",
)
GATE = Check(
    "G1",
    "The gate",
    "The gate of the configuration sets limits for the held-out rows. A model that breaks one is "
    "registered as a candidate, and the champion stays what it was.",
)
CHECKS = (ROWS, DRIFT, PROXY, FLOOR, KEPT, RECOVERABLE, COLLAPSE, GATE)


def check_study(study: Study) -> tuple[CheckResult, ...]:
    """Return the outcome of every check, in the order of `CHECKS`."""
    found = [check_drift(row_facts(study).distances), _check_proxies(study)]
    try:
        found += _check_champion(study, select_champion(study))
    except NoChampionError as error:
        done = {result.check for result in found}
        why = f"There is no selected model: {error}"
        found += [CheckResult(check, SKIPPED, why) for check in CHECKS if check not in done]
    return tuple(sorted(found, key=lambda result: CHECKS.index(result.check)))


def _check_champion(study: Study, champion: Champion) -> Iterator[CheckResult]:
    """Yield the checks of the selected model."""
    judgement, limits = champion.judgement, dict(champion.policy.subject_to)
    yield check_rows(judgement.rows_held_out)
    yield check_floor(judgement, (limits, study.config.gate))
    yield check_kept(judgement, limits)
    yield check_recoverable(judgement)
    y_pred = predicted_targets(study, champion.trial)
    if y_pred is None:
        yield CheckResult(COLLAPSE, SKIPPED, "It has no predictions of the held-out rows.")
    else:
        y = study.table.target[study.held_out.test]
        yield check_collapse(y, y_pred, row_facts(study).median)
    yield check_gate(judgement, study.config.gate)


def _level(value: float, issue: float, tip: float) -> CheckOutcome:
    """Return the outcome for a value that should be small."""
    return ISSUE if value >= issue else TIP if value >= tip else PASSED


def check_rows(rows: int) -> CheckResult:
    """Check that there are enough held-out rows to judge a model."""
    outcome = ISSUE if rows < _NONE else TIP if rows < _FEW else PASSED
    return CheckResult(ROWS, outcome, f"{rows:,} rows were not used to select the model.")


def check_floor(judgement: Judgement, limits: Iterable[Mapping[str, float]]) -> CheckResult:
    """Check that limits exceed the noise floor of their measure."""
    floors = {name for found in judgement.noise.values() for name in found}
    found = []
    for own in limits:
        for name, limit in own.items():
            if name not in floors:
                continue
            on_columns = [found[name] for found in judgement.noise.values()]
            mean, upper = (max(ends) for ends in zip(*on_columns, strict=True))
            message = (
                f"The limit on {REPORTED[name].label} is {limit:g}; on "
                f"{judgement.rows_held_out:,} independent rows it reads {mean:.3f} on average, up "
                f"to {upper:.3f} in 95 % of draws."
            )
            outcome = ISSUE if limit < mean else TIP if limit < upper else PASSED
            found.append(CheckResult(FLOOR, outcome, message))
    if not found:
        labels = ", ".join(REPORTED[name].label for name in sorted(floors))
        return CheckResult(FLOOR, NOT_APPLICABLE, f"There is no limit on {labels}.")
    return min(found, key=lambda result: (ISSUE, TIP, PASSED).index(result.outcome))


def check_kept(judgement: Judgement, limits: Mapping[str, float]) -> CheckResult:
    """Check that the limits of the selection hold on held-out rows too."""
    if not limits:
        return CheckResult(KEPT, NOT_APPLICABLE, "The model was selected without limits.")
    if broken := broken_limits(judgement, limits):
        return CheckResult(KEPT, ISSUE, f"{'; '.join(broken)}.")
    kept = ", ".join(f"{name} at most {limit:g}" for name, limit in limits.items())
    return CheckResult(KEPT, PASSED, f"Kept: {kept}.")


def check_gate(judgement: Judgement, gate: Mapping[str, float]) -> CheckResult:
    """Check that the model keeps the limits of the gate."""
    if not gate:
        return CheckResult(GATE, NOT_APPLICABLE, "No gate is configured.")
    if broken := broken_limits(judgement, gate):
        return CheckResult(GATE, ISSUE, f"Refused: {'; '.join(broken)}.")
    return CheckResult(GATE, PASSED, "Every limit of the gate is kept.")


def check_recoverable(judgement: Judgement) -> CheckResult:
    """Check how much of an attribute probes recover from the remaining features."""
    if not judgement.recovered:
        rows = judgement.rows_held_out
        why = (
            f"Probes need at least {FEWEST_ROWS} held-out rows, got {rows}."
            if rows < FEWEST_ROWS
            else "This method leaves no features that could be probed, or an attribute is constant "
            "among the probed rows."
        )
        return CheckResult(RECOVERABLE, SKIPPED, why)
    worst = max(judgement.recovered, key=lambda row: row.after)
    message = (
        f"The best probe ({worst.probe}) explains {max(0.0, worst.after):.0%} of the variation of "
        f"{worst.column} from the features that are left, {max(0.0, worst.before):.0%} with "
        "nothing removed."
    )
    return CheckResult(RECOVERABLE, _level(worst.after, _MOST, _SOME), message)


def check_collapse(y: Array, y_pred: Array, constant: float) -> CheckResult:
    """Check that predictions have not shrunk to a constant, and are better than one.

    Parameters
    ----------
    y, y_pred
        Target and prediction of the held-out rows.
    constant
        The best constant for the other rows.
    """
    spread = float(y_pred.std(axis=0) / y.std(axis=0)) if y.std(axis=0) > 0 else 1.0
    errors = [float(np.abs(f - y).mean(axis=0)) for f in (y_pred, constant)]
    shown = [f"{error:,.0f}" if error >= 1000 else f"{error:.4g}" for error in errors]
    message = (
        f"Predictions spread {spread:.2f} times as far as the target; their mean absolute error is "
        f"{shown[0]}, that of a constant {shown[1]}."
    )
    if spread < _CONSTANT or errors[0] >= errors[1]:
        return CheckResult(COLLAPSE, ISSUE, message)
    return CheckResult(COLLAPSE, TIP if spread < _FLAT else PASSED, message)


@dataclass(frozen=True)
class Distance:
    """Kolmogorov-Smirnov statistic of two samples of a column, with its p-value."""

    statistic: float
    chance: float


def column_distances(
    before: Mapping[str, Array], after: Mapping[str, Array]
) -> dict[str, Distance]:
    """Return the distance between two samples of each column."""
    found = {name: ks_2samp(before[name], after[name]) for name in before}
    return {name: Distance(float(one.statistic), float(one.pvalue)) for name, one in found.items()}


def check_drift(distances: Mapping[str, Distance]) -> CheckResult:
    """Check that columns have the same distribution in both samples, by their distances."""
    name = max(distances, key=lambda one: distances[one].statistic)
    distance, chance = distances[name].statistic, distances[name].chance * len(distances)
    message = (
        f"{name} differs most: the two distributions are {distance:.3f} apart at most "
        f"(p = {min(1.0, chance):.2g} over {len(distances)} columns)."
    )
    drifted = distance > _DISTANCE and chance < _CHANCE
    return CheckResult(DRIFT, ISSUE if drifted else PASSED, message)


def _check_proxies(study: Study) -> CheckResult:
    """Check that no input is a copy of a removed column."""
    found = [
        (proxy.correlation, proxy.name, column)
        for column in study.inputs.sensitive
        for proxy in row_facts(study).proxies[column][:1]
    ]
    if not found:
        return CheckResult(PROXY, NOT_APPLICABLE, "There is no input beside the attribute.")
    correlation, name, column = max(found)
    message = f"{name} is correlated with {column} most, with a correlation of {correlation:.2f}."
    return CheckResult(PROXY, _level(correlation, _COPY, _RELATIVE), message)


@dataclass(frozen=True)
class Proxy:
    """An input with its correlation with a sensitive column, from 0 to 1."""

    name: str
    correlation: float


@dataclass(frozen=True)
class RowFacts:
    """Facts about a study's rows that no model decides.

    Parameters
    ----------
    proxies
        By removed or measured column, its `strongest_proxies`.
    distances
        Distances of target and sensitive columns between held-out and other rows, by name.
    median
        Median of the target over the other rows.
    """

    proxies: Mapping[str, tuple[Proxy, ...]]
    distances: Mapping[str, Distance]
    median: float


@cached_on_study
def row_facts(study: Study) -> RowFacts:
    """Return facts about the rows, computed once and then read from the store."""
    table, fold = study.table, study.held_out
    columns = tuple(dict.fromkeys((*study.inputs.sensitive, *study.inputs.measure_on)))
    identity = {
        "data": study.loaded.digest,
        "columns": columns,
        "rows": fold.digest,
        "version": VERSION,
    }
    store, name = open_store(study.settings), f"rows/{digest(identity)}.json"
    stored = store.read(name)
    if stored is not None:
        return TypeAdapter(RowFacts).validate_json(stored)
    values = {
        table.target_name: table.target,
        **dict(zip(table.sensitive_names, table.sensitive.T, strict=True)),
    }
    for column, s in values.items():
        check_finite((column,), s[:, None])  # a memory-mapped table was not checked
    train, test = ({c: v[rows] for c, v in values.items()} for rows in (fold.train, fold.test))
    found = RowFacts(
        {column: tuple(strongest_proxies(table, column)) for column in columns},
        column_distances(train, test),
        float(np.median(table.target[fold.train])),
    )
    store.write(name, json.dumps(asdict(found), allow_nan=False).encode())
    return found


def strongest_proxies(
    table: Table, column: str, *, most: int = 3, above: float = 0.3
) -> list[Proxy]:
    """Return the inputs most correlated with a sensitive column, strongest first, at least one.

    For a category this is the correlation ratio: the correlation of the column with its own mean in
    each category.

    Parameters
    ----------
    table, column
        Rows and the name of the sensitive column, which is left out.
    most, above
        The greatest number of inputs, and the least correlation of all but the first.
    """
    s = table.S([column])[:, 0]
    inputs = {
        **dict(zip(table.numeric_names, table.numeric.T, strict=True)),
        **dict(zip(table.categorical_names, table.codes.T, strict=True)),
    }
    found = [
        Proxy(name, _correlation(_group_means(x, s) if x.dtype.kind == "i" else x, s))
        for name, x in inputs.items()
        if name != column
    ]
    ordered = sorted(found, key=lambda proxy: -proxy.correlation)
    close = [proxy for proxy in ordered if proxy.correlation > above]
    return close[:most] or [proxy for proxy in ordered[:1] if proxy.correlation > 0]


def _group_means(codes: IntArray, s: Array) -> Array:
    """Return for each row the mean of s over the rows of its category."""
    group = codes - codes.min()  # counted by bins, which is faster than sorting
    rows = np.bincount(group)
    return np.asarray((np.bincount(group, weights=s) / np.maximum(rows, 1))[group])


def _correlation(x: Array, s: Array) -> float:
    """Return the absolute correlation over rows with both values, 0 if one is constant."""
    present = ~np.isnan(x)
    x, s = x[present], s[present]
    if not len(x):
        return 0.0
    a, b = x - x.mean(), s - s.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return abs(float(a @ b)) / scale if scale > 0 else 0.0
