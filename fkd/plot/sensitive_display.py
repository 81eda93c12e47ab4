"""Predictions along a sensitive attribute."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.validation import as_column, require_length, whole
from fkd.measures.columns import by_range, is_constant
from fkd.measures.gdp import level_totals, rate, smooth_at_points
from fkd.measures.resampling import interval
from fkd.plot.display import REPLICATES, answers, as_frame, draw_band, new_axes

if TYPE_CHECKING:
    import pandas as pd


class SensitiveDisplay:
    """The mean prediction along a sensitive attribute, smoothed as GDP smooths it, with a band.

    GDP is the mean distance of this curve from its level, weighted by how many rows are where.
    Make one by `from_estimator` or `from_predictions`; `plot` draws it again, `frame` gives the
    numbers.

    Parameters
    ----------
    points
        Values of the attribute, rising (g,).
    prediction, low, high
        Mean prediction near each with the ends of its interval, point by point, (g,).
    truth
        Mean target near each, (g,); None where no target was given.
    level
        Mean of all predictions.
    name
        Of the attribute, for the axis.

    Attributes
    ----------
    ax_, figure_
        Where it was last drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.plot import SensitiveDisplay
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=300)
    >>> curve = SensitiveDisplay.from_predictions(
    ...     2 * s, sensitive_features=s, points=5, replicates=50
    ... )
    >>> bool(curve.frame()["prediction"].is_monotonic_increasing)
    True
    """

    def __init__(
        self,
        *,
        points: Array,
        prediction: Array,
        low: Array,
        high: Array,
        truth: Array | None,
        level: float,
        name: str,
    ) -> None:
        self.points = points
        self.prediction, self.low, self.high = prediction, low, high
        self.truth = truth
        self.level = level
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike,
        **options: Any,
    ) -> Self:
        """Return the picture of a fitted model.

        Parameters
        ----------
        estimator
            A fitted model; of a classifier its decisions are drawn.
        X, y
            Rows (n, d); target (n,) to draw beside the predictions, None for none.
        sensitive_features
            One column (n,).
        options
            Those of `from_predictions`.
        """
        return cls.from_predictions(
            answers(estimator, X), y_true=y, sensitive_features=sensitive_features, **options
        )

    @classmethod
    def from_predictions(
        cls,
        y_pred: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        y_true: ArrayLike | None = None,
        points: int = 41,
        level: float = 0.95,
        replicates: int = REPLICATES,
        random_state: int = 0,
        ax: Any = None,
        plot: bool = True,
    ) -> Self:
        """Return the picture of predictions.

        Parameters
        ----------
        y_pred
            Predictions (n,).
        sensitive_features
            One column (n,) that varies.
        y_true
            Target (n,) to draw beside the predictions; None for none.
        points
            How many points the curve has.
        level, replicates, random_state
            Of the intervals.
        ax
            Where to draw; None makes new axes.
        plot
            Whether to draw at once.
        """
        f, s = as_column(y_pred, "y_pred"), as_column(sensitive_features, "sensitive_features")
        require_length(s, len(f), "sensitive_features")
        if is_constant(s):
            raise ValueError(
                f"sensitive_features must vary for a curve along it, got {len(s)} times {s[0]:g}"
            )
        places = np.linspace(0.0, 1.0, whole("points", points, low=2))
        found = interval(
            lambda f, s: smoothed(f, s, places),
            f,
            by_range(s),
            rng=np.random.default_rng(random_state),
            replicates=replicates,
            level=level,
        )
        truth = None
        if y_true is not None:
            y = as_column(y_true, "y_true")
            require_length(y, len(f), "y_true")
            truth = smoothed(y, by_range(s), places)
        display = cls(
            points=np.asarray(s.min(axis=0) + places * np.ptp(s)),
            prediction=np.asarray(found.estimate),
            low=np.asarray(found.low),
            high=np.asarray(found.high),
            truth=truth,
            level=float(f.mean(axis=0)),
            name=str(getattr(sensitive_features, "name", None) or "s"),
        )
        return display.plot(ax=ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        """Draw; return self.

        Parameters
        ----------
        ax
            Where to draw; None makes new axes.
        """
        ax = new_axes(ax)
        draw_band(ax, self.points, self.prediction, self.low, self.high, label="mean prediction")
        ax.axhline(self.level, color="0.6", linestyle=":", label="mean of all")
        if self.truth is not None:
            ax.plot(self.points, self.truth, color="0.3", linestyle="--", label="mean target")
        ax.set(xlabel=self.name, ylabel="mean prediction")
        ax.legend(fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def frame(self) -> "pd.DataFrame":
        """Return one row per point: mean prediction with its interval, mean target."""
        columns = {
            "s": self.points,
            "prediction": self.prediction,
            "low": self.low,
            "high": self.high,
        }
        return as_frame(columns if self.truth is None else {**columns, "truth": self.truth})


def smoothed(f: Array, s: Array, places: Array) -> Array:
    """Return the mean of f near each place, s and places in [0, 1], by the window of GDP."""
    level = float(f.mean(axis=0))
    smooth, _ = smooth_at_points(places, *level_totals(f - level, s), rate(len(s)))
    return np.asarray(smooth + level)
