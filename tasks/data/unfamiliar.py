"""What rows hold that a model's training rows did not: values out of range, labels unseen."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pandas as pd

from fkd.core.arrays import Array
from fkd.problems.bundle import Bundle
from fkd.problems.labels import MISSING, factorize_labels

_EXAMPLES = 3
LABELS_KEPT = 1000  # of a column; a table of any size may have one in every row


@dataclass(frozen=True)
class Outside:
    """Values of one column beyond those that were trained on."""

    below: int
    above: int
    least: float  # of the rows seen here
    greatest: float

    def merge(self, other: "Outside") -> "Outside":
        """Return what both together hold."""
        return Outside(
            self.below + other.below,
            self.above + other.above,
            min(self.least, other.least),
            max(self.greatest, other.greatest),
        )


@dataclass(frozen=True)
class UnseenLabels:
    """How often labels of one column occur that no training row had, the frequent ones by name."""

    counts: Counter[str]
    further: int = 0  # rows with one that is not counted by name

    @property
    def rows(self) -> int:
        """How many rows have such a label."""
        return self.counts.total() + self.further

    def merge(self, other: "UnseenLabels") -> "UnseenLabels":
        """Return what both together hold, as many names as are kept."""
        counts = self.counts + other.counts
        kept = Counter(dict(counts.most_common(LABELS_KEPT)))
        return UnseenLabels(kept, self.further + other.further + counts.total() - kept.total())

    def listed(self) -> str:
        """Return the most frequent labels, with how many rows have others."""
        shown = self.counts.most_common(_EXAMPLES)
        words = [
            f"{label!r} {count:,} times" if label else f"a missing one {count:,} times"
            for label, count in shown
        ]
        more = self.rows - sum(count for _, count in shown)
        return ", ".join(words) + (f" and others {more:,} times" if more else "")


@dataclass(frozen=True)
class Unfamiliar:
    """Counts over rows; `merge` adds those of further rows.

    Parameters
    ----------
    rows
        How many rows were looked at.
    outside
        By numeric column, those that have values out of range.
    unseen
        By label column, those that have labels which no training row had.
    filled
        By numeric column, how many missing values the model fills.
    unscored
        By column, how many rows have no prediction for want of its value.
    """

    rows: int = 0
    outside: Mapping[str, Outside] = field(default_factory=dict)
    unseen: Mapping[str, UnseenLabels] = field(default_factory=dict)
    filled: Mapping[str, int] = field(default_factory=dict)
    unscored: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, bundle: Bundle, frame: pd.DataFrame) -> Self:
        """Return the counts of some rows: numbers as floats, labels as they are.

        A missing value is neither low nor high; as a label it is one like any other.
        """
        encoder = bundle.encoder
        numbers = {name: frame[name].to_numpy() for name in encoder.numeric_names}
        filled = {
            name: int(np.isnan(numbers[name]).sum(axis=0))
            for name, fill in zip(encoder.numeric_names, encoder.fill, strict=True)
            if not np.isnan(fill)
        }
        return cls(
            rows=len(frame),
            outside={
                name: found
                for name, limits in zip(encoder.numeric_names, bundle.ranges, strict=True)
                if (found := _outside(numbers[name], *limits)) is not None
            },
            unseen={
                name: labels
                for name, known in zip(encoder.categorical_names, encoder.levels, strict=True)
                if (labels := _unseen(frame[name], known)).rows
            },
            filled={name: count for name, count in filled.items() if count},
        )

    def merge(self, other: "Unfamiliar") -> "Unfamiliar":
        """Return the counts of both, other rows following ours."""
        outside, unseen = dict(self.outside), dict(self.unseen)
        for name, found in other.outside.items():
            outside[name] = outside[name].merge(found) if name in outside else found
        for name, labels in other.unseen.items():
            unseen[name] = unseen[name].merge(labels) if name in unseen else labels
        return Unfamiliar(
            self.rows + other.rows,
            outside,
            unseen,
            Counter(self.filled) + Counter(other.filled),
            Counter(self.unscored) + Counter(other.unscored),
        )

    def told(self, bundle: Bundle) -> list[str]:
        """Return one sentence per column with something in it, with counts and shares of rows."""
        ranges = dict(zip(bundle.encoder.numeric_names, bundle.ranges, strict=True))
        found = [
            f"column {name}: {self._share(out.below + out.above)} outside the training range "
            f"{ranges[name][0]:g} to {ranges[name][1]:g} ({out.below:,} below, {out.above:,} "
            f"above; {out.least:g} to {out.greatest:g} here)"
            for name, out in self.outside.items()
        ]
        found += [
            f"column {name}: {self._share(labels.rows)} with a label that no training row had, "
            f"counted as none of the known ones: {labels.listed()}"
            for name, labels in self.unseen.items()
        ]
        found += [
            f"column {name}: {self._share(count)} without a value, filled as the model learnt it"
            for name, count in self.filled.items()
        ]
        found += [
            f"column {name}: {self._share(count)} without a value that the model needs, hence "
            "without a prediction"
            for name, count in self.unscored.items()
        ]
        return found

    def _share(self, count: int) -> str:
        """Return how many rows that is of all."""
        return f"{count:,} of {self.rows:,} rows ({count / self.rows:.2%})"


def _outside(values: Array, low: float, high: float) -> Outside | None:
    """Return what lies beyond the limits, None where nothing does."""
    below, above = int((values < low).sum(axis=0)), int((values > high).sum(axis=0))
    if not below + above:
        return None
    return Outside(below, above, float(np.nanmin(values)), float(np.nanmax(values)))


def _unseen(column: "pd.Series[str]", known: tuple[str, ...]) -> UnseenLabels:
    """Return how often which label occurs that is none of the known ones."""
    codes, labels = factorize_labels(column)
    counts = np.bincount(codes + 1, minlength=len(labels) + 1)  # the first one is missing
    both = zip((MISSING, *labels), counts.tolist(), strict=True)
    return UnseenLabels(
        Counter({label: count for label, count in both if count and label not in known})
    )
