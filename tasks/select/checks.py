"""Checks of a study: data, limits, recoverability, gate."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np
from scipy.stats import ks_2samp

from fkd.core.arrays import Array, IntArray
from fkd.measures import REPORTED
from fkd.measures.recoverability import FEWEST_ROWS
from fkd.problems.table import Table, check_finite
from tasks.select.champion import Champion, select_champion
from tasks.select.judgement import Judgement, broken_limits
from tasks.select.refit import predicted_targets
from tasks.select.selection import NoChampionError
from tasks.select.study import Study
from tasks.storage.records import digest
from tasks.storage.store import open_store

PAGE = "docs/reference/checks.md"


class CheckOutcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    ISSUE = "issue"
    TIP = "tip"
    NOT_APPLICABLE = "not applicable"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Check:
    """What is looked at, whatever comes of it."""

    code: str  # a letter for the section, a number
    title: str
    section: str
    explanation: str

    @property
    def address(self) -> str:
        """Where the documentation tells of it."""
        return f"{PAGE}#{self.code.lower()}"


@dataclass(frozen=True)
class CheckResult:
    """A check with what was found: numbers, or why nothing could be."""

    check: Check
    outcome: CheckOutcome
    said: str

    @property
    def line(self) -> str:
        """The result in one line."""
        return f"{self.check.code} {self.check.title}: {self.outcome}. {self.said}"


ROWS = Check(
    "D1",
    "Enough held-out rows",
    "data",
    "Of few rows every measure reads mostly noise: below 30 nothing can be said, below 200 HGR "
    "reads more than 0.1 of columns that have nothing to do with each other.",
)
DRIFT = Check(
    "D2",
    "Held-out rows like those before",
    "data",
    "Target and sensitive columns of the held-out rows are compared with those of the rows that "
    "the model was chosen on. Where they differ, as they may when folds follow time or place, the "
    "held-out numbers say how the model does elsewhere, not here.",
)
PROXY = Check(
    "D3",
    "No input stands in for the attribute",
    "data",
    "An input that goes along with a removed column almost perfectly is that column under another "
    "name. It may be dropped by data.drop; what removal has to contend with is then less.",
)
FLOOR = Check(
    "L1",
    "Limits above the noise floor",
    "limits",
    "HGR of independent columns is not zero. A limit below what they read cannot be kept by any "
    "model, or only by chance.",
)
KEPT = Check(
    "L2",
    "Limits kept on held-out rows",
    "limits",
    "The model was chosen to keep select.subject_to on inner folds; here is what the held-out rows "
    "say, which took no part.",
)
RECOVERABLE = Check(
    "M1",
    "The attribute cannot be recovered",
    "model",
    "Probe models guess the attribute from the features that the removal leaves. What they explain "
    "of its variation on rows they have not seen could be used by any model on these features.",
)
COLLAPSE = Check(
    "M2",
    "More than a constant",
    "model",
    "A model that predicts nearly the same for all depends on nothing, and is of no use. Its "
    "spread is compared with that of the truth, its error with that of the best constant.",
)
GATE = Check(
    "G1",
    "The gate",
    "gate",
    "Limits that the chosen model must keep on the held-out rows (gate in the configuration). A "
    "model that breaks one is registered as a candidate; what was champion before stays so.",
)
CHECKS = (ROWS, DRIFT, PROXY, FLOOR, KEPT, RECOVERABLE, COLLAPSE, GATE)


@dataclass(frozen=True)
class Proxy:
    """An input with how closely it goes along with a sensitive column, from 0 to 1."""

    name: str
    correlation: float


def strongest_proxies(
    table: Table, column: str, *, most: int = 3, above: float = 0.3
) -> list[Proxy]:
    """Return the inputs most related to a sensitive column, strongest first, at least one.

    A number by its absolute correlation, a category by the correlation ratio: the correlation of
    the column with its own mean in each category.

    Parameters
    ----------
    table, column
        Rows, and the sensitive column's name; the column itself is left out.
    most, above
        How many at most; how closely related the second and further ones are at least.
    """
    s = table.S([column])[:, 0]
    found = [
        Proxy(name, _correlation(x, s))
        for name, x in zip(table.numeric_names, table.numeric.T, strict=True)
        if name != column
    ]
    found += [
        Proxy(name, _correlation(_group_means(codes, s), s))
        for name, codes in zip(table.categorical_names, table.codes.T, strict=True)
        if name != column
    ]
    ordered = sorted(found, key=lambda proxy: -proxy.correlation)
    close = [proxy for proxy in ordered if proxy.correlation > above]
    return close[:most] or [proxy for proxy in ordered[:1] if proxy.correlation > 0]


def _group_means(codes: IntArray, s: Array) -> Array:
    """Return for each row the mean of s over the rows of its category."""
    group = codes - codes.min()  # small numbers already: sorting a million rows would be the price
    rows = np.bincount(group)
    return np.asarray((np.bincount(group, weights=s) / np.maximum(rows, 1))[group])


def _correlation(x: Array, s: Array) -> float:
    """Return the absolute correlation in the rows that have both, 0 where one is constant."""
    present = ~np.isnan(x)
    x, s = x[present], s[present]
    if not len(x):
        return 0.0
    a, b = x - x.mean(), s - s.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return abs(float(a @ b)) / scale if scale > 0 else 0.0


VERSION = 1  # to be raised whenever these numbers change; part of their key


@dataclass(frozen=True)
class Distance:
    """How far two distributions of a column lie apart, with the chance of that among equals."""

    statistic: float  # of Kolmogorov and Smirnov
    chance: float


@dataclass(frozen=True)
class RowFacts:
    """Inputs close to a sensitive column, held-out rows against those before, the middle of these.

    Parameters
    ----------
    proxies
        What `strongest_proxies` finds, by removed or measured column.
    distances
        Of target and sensitive columns, by name.
    median
        Of the target, over the rows that a model is chosen on.
    """

    proxies: Mapping[str, tuple[Proxy, ...]]
    distances: Mapping[str, Distance]
    median: float

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the facts that `asdict` and JSON made plain."""
        close, apart = plain["proxies"], plain["distances"]
        return cls(
            {name: tuple(Proxy(**one) for one in found) for name, found in close.items()},
            {name: Distance(**one) for name, one in apart.items()},
            plain["median"],
        )


def row_facts(study: Study) -> RowFacts:
    """Return what the rows of a study say, looked for once: a million of them take a second."""
    return study.once("row facts", lambda: _kept(study))


def _kept(study: Study) -> RowFacts:
    """Return the facts from the store, made where they are absent or damaged."""
    columns = tuple(dict.fromkeys((*study.inputs.sensitive, *study.inputs.measure_on)))
    fold = study.inputs.splits.held_out_fold(study.loaded.table)
    identity = {
        "data": study.loaded.digest,
        "columns": columns,
        "rows": fold.digest,
        "version": VERSION,
    }
    store, name = open_store(study.settings), f"rows/{digest(identity)}.json"
    stored = store.read(name)
    if stored is None:
        made = RowFacts(
            {column: tuple(strongest_proxies(study.loaded.table, column)) for column in columns},
            _distances(study),
            float(np.median(study.loaded.table.target[fold.train])),
        )
        stored = json.dumps(asdict(made), allow_nan=False).encode()
        store.write(name, stored)
    return RowFacts.from_plain(json.loads(stored))


def _distances(study: Study) -> dict[str, Distance]:
    """Compare the held-out rows with those that a model is chosen on."""
    table = study.loaded.table
    fold = study.inputs.splits.held_out_fold(table)
    names = (table.target_name, *table.sensitive_names)
    columns = dict(zip(names, (table.target, *table.sensitive.T), strict=True))
    for name, column in columns.items():
        check_finite((name,), column[:, None])  # of a table that is a view nobody else has looked
    before, after = (
        {name: column[rows] for name, column in columns.items()} for rows in (fold.train, fold.test)
    )
    return column_distances(before, after)


def column_distances(
    before: Mapping[str, Array], after: Mapping[str, Array]
) -> dict[str, Distance]:
    """Return how far later rows lie from those before, column by column."""
    found = {name: ks_2samp(before[name], after[name]) for name in before}
    return {name: Distance(float(one.statistic), float(one.pvalue)) for name, one in found.items()}


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
