"""What every picture has: numbers by column, axes to draw on."""

# matplotlib and pandas are imported where they are used: the library needs neither.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.validation import as_column, as_sensitive
from fkd.measures.columns import mean_absolute_error
from fkd.measures.registry import get_measure
from fkd.measures.resampling import Interval, interval, noise_floor
from fkd.measures.scorers import worst_column

if TYPE_CHECKING:
    import pandas as pd

# Enough for the ends of an interval in a picture; a table may ask for more.
REPLICATES = 200
PERMUTATIONS = 100


@dataclass(frozen=True)
class Judged:
    """Rows on which predictions are judged."""

    y: Array | None
    S: Array
    measure: str
    level: float
    replicates: int
    seed: int

    @classmethod
    def of(
        cls,
        y: ArrayLike | None,
        sensitive_features: ArrayLike,
        *,
        measure: str,
        level: float,
        replicates: int,
        random_state: int,
    ) -> "Judged":
        """Return the checked rows."""
        numbers = np.asarray(sensitive_features)
        S = as_sensitive(numbers, len(numbers) if numbers.ndim else 0)
        truth = None if y is None else as_column(y, "y")
        if truth is not None and len(truth) != len(S):
            raise ValueError(f"y must have one row per sensitive row ({len(S)}), got {len(truth)}")
        name = get_measure(measure).name
        return cls(truth, S, name, level, replicates, int(random_state))

    def value(self, f: Array) -> Interval:
        """Return the measure on the worst sensitive column, with its interval."""
        rng = np.random.default_rng(self.seed)
        options: dict[str, Any] = {"rng": rng, "replicates": self.replicates, "level": self.level}
        declared = get_measure(self.measure)
        if self.S.shape[1] == 1:
            columns = declared.columns(self._truth(), f, self.S[:, 0])
            return interval(declared, *columns, **options)
        columns = (self._truth(), f, self.S)
        return interval(self._worst, *columns, bounds=declared.range, **options)

    def error(self, f: Array) -> Interval:
        """Return the mean absolute error with its interval."""
        rng = np.random.default_rng(self.seed)
        return interval(
            mean_absolute_error,
            self._truth(),
            f,
            rng=rng,
            replicates=self.replicates,
            level=self.level,
            bounds=(0.0, np.inf),
        )

    def floor(self, f: Array) -> float:
        """Return what the measure says of rows that have nothing to do with each other."""
        found = noise_floor(
            f,
            self.S,
            rng=np.random.default_rng(self.seed),
            measure=lambda f, S: self._worst(self._truth(), f, S),
            permutations=PERMUTATIONS,
        )
        return float(np.max(found.mean))

    def _truth(self) -> Array:
        """Return the target; measures that do not look at it take any."""
        if self.y is None and get_measure(self.measure).needs_truth:
            raise ValueError(f"y must be given for measure={self.measure!r}, got None")
        return np.zeros(len(self.S)) if self.y is None else self.y

    def _worst(self, y: Array, f: Array, S: Array) -> float:
        return worst_column(y, f, measure=self.measure, sensitive_features=S)


def ends_of(found: Sequence[Interval]) -> tuple[Array, Array, Array]:
    """Return estimates, lower and upper ends of several intervals, each as one vector."""
    estimate, low, high = (
        np.array([getattr(interval, part) for interval in found])
        for part in ("estimate", "low", "high")
    )
    return estimate, low, high


def answers(estimator: Any, X: Any) -> Array:
    """Return the decisions of a classifier, the predictions of any other estimator."""
    says = getattr(estimator, "decision_function", None) or estimator.predict
    found = np.asarray(says(X), dtype=np.float64)
    if found.ndim != 1:
        raise ValueError(
            f"estimator must give one number per row, got shape {found.shape}; take one class or "
            "target by from_predictions"
        )
    return found


def new_axes(ax: Any) -> Any:
    """Return the axes to draw on, new ones where None."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots()[1]


def draw_band(ax: Any, x: Array, value: Array, low: Array, high: Array, **line: Any) -> None:
    """Draw a line with the band of its intervals in the same colour."""
    (drawn,) = ax.plot(x, value, **line)
    ax.fill_between(x, low, high, alpha=0.2, color=drawn.get_color())


def as_frame(columns: Mapping[str, Any]) -> "pd.DataFrame":
    """Return the numbers of a picture as a data frame."""
    import pandas as pd

    return pd.DataFrame(dict(columns))


def whiskers(value: Array, low: Array, high: Array) -> Array:
    """Return the lengths of error bars around values, (2, k)."""
    return np.maximum(np.stack([value - low, high - value]), 0.0)
