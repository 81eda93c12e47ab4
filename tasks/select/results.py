"""Results of trials: numbers by fold, tables, names of variants."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from configs.data import DataConfig
from fkd.measures import REPORTED
from fkd.methods import method
from fkd.problems.table import Table
from tasks.fit.job import end_names
from tasks.plan.trials import Inputs, Trial, record_key
from tasks.storage.files import write_atomic
from tasks.storage.records import TrialRecord, TrialStore

MAE = "mae"
SCORES = (MAE, *REPORTED)
_WRITTEN = (MAE, "mse", *REPORTED)
_MOST_VARIANTS = 8  # of a method in one figure or table
_KIND = "approximation.kind"


@dataclass(frozen=True)
class TrialResult:
    """A trial with its records, in the order of the folds."""

    trial: Trial
    records: tuple[TrialRecord, ...]

    def values(self, measure: str, column: str) -> list[float]:
        """Return a measure on one column by fold. It is NaN on a fold if it is undefined."""
        return [record.measures[column].get(measure, np.nan) for record in self.records]

    def is_defined(self, measure: str, column: str) -> bool:
        """Return whether a measure is defined on every fold."""
        return all(measure in record.measures[column] for record in self.records)

    def mean(self, measure: str, column: str) -> float:
        """Return the mean over folds, NaN if the measure is undefined on one of them."""
        return float(np.mean(self.values(measure, column)))

    def std(self, measure: str, column: str) -> float:
        """Return the standard deviation over folds, without a correction for their number."""
        return float(np.std(self.values(measure, column)))

    def ends(self, measure: str, column: str) -> tuple[float, float] | None:
        """Return the 95 % interval of the mean over folds, None if some fold has none.

        Folds test on different rows, so the squares of their half widths add up.
        """
        names = end_names(measure)
        if not all(name in record.measures[column] for record in self.records for name in names):
            return None
        mean, values = self.mean(measure, column), np.array(self.values(measure, column))
        low, high = (
            float(np.sqrt(np.sum((np.array(self.values(name, column)) - values) ** 2)))
            / len(values)
            for name in names
        )
        return mean - low, mean + high


def collect(
    trials: Iterable[Trial], inputs: Inputs, table: Table, store: TrialStore, *, inner: bool = False
) -> list[TrialResult]:
    """Return the trials that are stored on every outer (or inner) fold."""
    folds = inputs.splits.inner(table) if inner else inputs.splits.outer(table)
    keys = {t: [record_key(t, fold, inputs) for fold in folds.values()] for t in trials}
    known = store.read_all(key for own in keys.values() for key in own)
    return [
        TrialResult(trial, tuple(known[key] for key in own))
        for trial, own in keys.items()
        if all(key in known for key in own)
    ]


def tidy(results: Sequence[TrialResult], data: DataConfig) -> pd.DataFrame:
    """Return one row per trial, fold and measured column."""
    rows = [
        {
            "problem": data.problem,
            "method": result.trial.method,
            "strength": result.trial.strength,
            **other_parameters(result.trial),
            "sensitive": column,
            "removed": " ".join(data.sensitive),
            "fold": fold,
            **{measure: found.get(measure) for measure in _WRITTEN},
            "seconds": record.seconds,
        }
        for result in results
        for fold, record in enumerate(result.records)
        for column, found in record.measures.items()
    ]
    frame = pd.DataFrame(rows)
    last = ["sensitive", "removed", "fold", *_WRITTEN, "seconds"]
    return frame[[name for name in frame if name not in last] + last] if rows else frame


def write_results(results: Sequence[TrialResult], data: DataConfig, folder: Path) -> None:
    """Write results.csv as a whole."""
    write_atomic(folder / "results.csv", tidy(results, data).to_csv(index=False).encode())


def other_parameters(trial: Trial) -> dict[str, Any]:
    """Return the parameters apart from the strength, nested ones under dotted names."""
    strength = method(trial.method).strength
    return {k: v for k, v in flat(trial.parameters).items() if k != strength}


def flat(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested parameters under dotted names."""
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def flat_parameters(trial: Trial) -> dict[str, str]:
    """Return all parameters of a trial as text, nested ones under dotted names."""
    return {name: str(value) for name, value in flat(trial.parameters).items()}


def variant_names(trials: Iterable[Trial]) -> dict[str, str]:
    """Return by trial key the method's title, with the parameters that differ between variants.

    Trials that differ in strength only are one variant. If a method has too many variants, those
    with a single strength share a name.
    """
    by_method: dict[str, list[Trial]] = {}
    for trial in trials:
        by_method.setdefault(trial.method, []).append(trial)
    names: dict[str, str] = {}
    for name, own in by_method.items():
        title = method(name).title
        groups: dict[str, list[Trial]] = {}
        for trial in own:
            groups.setdefault(repr(sorted(shown_parameters(trial).items())), []).append(trial)
        variants = list(groups.values())
        named, rest = variants, title
        if len(variants) > _MOST_VARIANTS:
            named, rest = (
                [group for group in variants if len(group) > 1],
                f"{title} (other settings)",
            )
        if len(variants) == 1 or not 0 < len(named) <= _MOST_VARIANTS:
            named, rest = [], title
        names |= dict.fromkeys((trial.key for trial in own), rest)
        parameters = [shown_parameters(group[0]) for group in variants]
        for group in named:
            label = f"{title} ({_differences(shown_parameters(group[0]), parameters)})"
            names |= dict.fromkeys((trial.key for trial in group), label)
    return names


def shown_parameters(trial: Trial) -> dict[str, Any]:
    """Return the parameters apart from the strength; an exact kernel has no landmarks."""
    parameters = other_parameters(trial)
    if parameters.get(_KIND) != "exact":
        return parameters
    return {k: v for k, v in parameters.items() if not k.startswith("approximation.")}


def _differences(own: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]) -> str:
    """Return the parameters of one variant that not all variants share."""
    shown = []
    for name, value in own.items():
        values = [repr(variant[name]) for variant in variants if name in variant]
        # Only an exact kernel lacks a kind.
        if len(set(values)) > 1 or (name == _KIND and len(values) < len(variants)):
            text = value_text(value)
            shown.append(text if name == _KIND else f"{name.rpartition('.')[2]} {text}")
    return ", ".join(shown) or "exact"


def value_text(value: Any) -> str:
    """Return the value of a parameter, numbers without trailing zeros."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, int | float) else str(value)


@dataclass(frozen=True)
class Finding:
    """The comparison of the champion with the same model without removal, in sentences."""

    word: str  # nothing removed, fell, rose, within noise ...; "limit broken" if one is
    broken: tuple[str, ...]  # one sentence per limit that the held-out rows break
    sentences: tuple[str, ...]  # the selected model, the change and its cost
