"""Results of a configuration as tables: one row per fold, one summary per trial."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fkd.measures import REPORTED
from fkd.methods import method
from fkd.problems.table import Table
from tasks.fit.job import end_names
from tasks.plan.trials import Inputs, Trial, record_key
from tasks.storage.files import write_atomic
from tasks.storage.records import TrialRecord, TrialStore

MAE = "mae"
SCORES = (MAE, *REPORTED)
_WRITTEN = (MAE, "mse", *REPORTED)  # which method is best may depend on the error


@dataclass(frozen=True)
class TrialResult:
    """A trial with its records, in the order of the folds."""

    trial: Trial
    records: tuple[TrialRecord, ...]

    def values(self, measure: str, column: str) -> list[float]:
        """Return one measure on one column, fold by fold; NaN on a fold where it is undefined."""
        return [record.measures[column].get(measure, np.nan) for record in self.records]

    def is_defined(self, measure: str, column: str) -> bool:
        """Return whether a measure is defined on every fold."""
        return all(measure in record.measures[column] for record in self.records)

    def mean(self, measure: str, column: str) -> float:
        """Return the mean over folds, NaN if the measure is undefined on one of them."""
        return float(np.mean(self.values(measure, column)))

    def std(self, measure: str, column: str) -> float:
        """Return the standard deviation over folds, dividing by their number."""
        return float(np.std(self.values(measure, column)))

    def ends(self, measure: str, column: str) -> tuple[float, float] | None:
        """Return the 95 % interval of the mean over folds, None where fits know none.

        Folds test on different rows: their distances to the ends add up as squares.
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


def tidy(results: Sequence[TrialResult], problem: str, removed: Sequence[str]) -> pd.DataFrame:
    """Return one row per trial, fold and measured column."""
    rows = [
        {
            "problem": problem,
            "method": result.trial.method,
            "strength": result.trial.strength,
            **other_parameters(result.trial),
            "sensitive": column,
            "removed": " ".join(removed),
            "fold": fold,
            **{measure: found.get(measure) for measure in _WRITTEN},
            "seconds": record.seconds,
        }
        for result in results
        for fold, record in enumerate(result.records)
        for column, found in record.measures.items()
    ]
    return _last(pd.DataFrame(rows), ["sensitive", "removed", "fold", *_WRITTEN, "seconds"])


def write_results(frame: pd.DataFrame, folder: Path) -> Path:
    """Return the path of results.csv, rewritten as a whole."""
    path = folder / "results.csv"
    write_atomic(path, frame.to_csv(index=False).encode())
    return path


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


def _last(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Return the frame with these columns moved to its end."""
    return frame[[c for c in frame.columns if c not in columns] + columns] if len(frame) else frame


@dataclass(frozen=True)
class Finding:
    """The chosen model against the same one with nothing removed."""

    word: str  # nothing removed, fell, rose, within noise ...; with "limit broken" where it is so
    broken: tuple[str, ...]  # one sentence per limit that held-out rows break
    sentences: tuple[str, ...]  # what was chosen, what it changed, what that cost
