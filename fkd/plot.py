"""Figures of measures and predictions, in the style of scikit-learn's displays.

- `FrontDisplay`: the error of several models against a measure of dependence.
- `StrengthDisplay`: a measure against the strength of a removal.
- `SensitiveDisplay`: the mean prediction along a sensitive attribute.

Make one by `from_estimator` or `from_predictions`; `plot` draws it again, `frame` returns its
numbers. matplotlib and pandas are imported when they are used, since the library does not require
them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.validation import as_column, as_sensitive, require_length, whole
from fkd.measures.columns import by_range, is_constant, mean_absolute_error
from fkd.measures.gdp import level_totals, rate, smooth_at_points
from fkd.measures.pareto import non_dominated
from fkd.measures.registry import get_measure, worst_column
from fkd.measures.resampling import Interval, interval, noise_floor

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FrontDisplay", "SensitiveDisplay", "StrengthDisplay"]

# Enough for intervals in a figure. A table may need more.
REPLICATES = 200
_PERMUTATIONS = 100
# Default penalties of a shrinkage.
_PENALTIES = (0.0, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)


class _Display(ABC):
    """Axes and numbers of a figure."""

    def plot(self, ax: Any = None) -> Self:
        """Draw the figure and return self.

        Parameters
        ----------
        ax
            Axes to draw on; None creates new ones.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        self._draw(ax)
        ax.legend(fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def frame(self) -> "pd.DataFrame":
        """Return the numbers of the figure as a data frame with one row per point."""
        import pandas as pd

        return pd.DataFrame(self._columns())

    @abstractmethod
    def _draw(self, ax: Any) -> None:
        """Draw on axes."""

    @abstractmethod
    def _columns(self) -> dict[str, Any]:
        """Return the columns of `frame`."""


@dataclass(kw_only=True, eq=False, repr=False)
class FrontDisplay(_Display):
    """Models as points: mean absolute error against a measure, with intervals and noise floor.

    Parameters
    ----------
    labels
        Names of the models.
    error, error_low, error_high
        Mean absolute errors and the ends of their intervals, (k,).
    value, value_low, value_high
        The measure of the worst sensitive column and the ends of its intervals, (k,).
    floor
        Mean of the measure after permutations of the sensitive rows, (k,). Lower values cannot be
        distinguished from noise.
    measure
        ``"gdp"``, ``"hgr"``, ``"pf"``, ``"chi2"`` or ``"gedi"``.

    Attributes
    ----------
    best : array of bool
        True for the models that no other model beats in both coordinates.
    ax_, figure_
        Axes and figure of the last `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import FairKernelRidge
    >>> from fkd.plot import FrontDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> s, y = X[:, 0], X[:, 0] + X[:, 1]
    >>> path = FairKernelRidge(gamma=0.1).fit_path(X, y, sensitive_features=s, iterations=[0, 5])
    >>> front = FrontDisplay.from_estimator(path, X, y, sensitive_features=s, replicates=50)
    >>> list(front.frame()["label"])
    ['0', '5']
    """

    labels: list[str]
    error: Array
    error_low: Array
    error_high: Array
    value: Array
    value_low: Array
    value_high: Array
    floor: Array
    measure: str

    def __post_init__(self) -> None:
        self.best = non_dominated(np.column_stack([self.error, self.value]))

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, sensitive_features: ArrayLike, **options: Any
    ) -> Self:
        """Return the figure of fitted models on rows that they were not fitted to.

        Parameters
        ----------
        estimator
            A fitted model, or several by name, such as `fit_path` returns.
        X, y, sensitive_features
            Rows (n, d), target (n,), sensitive columns (n,) or (n, l).
        options
            Further parameters of `from_predictions`.
        """
        models = estimator if isinstance(estimator, Mapping) else {"model": estimator}
        predictions = {str(name): _scores(model, X) for name, model in models.items()}
        return cls.from_predictions(
            y, predictions, sensitive_features=sensitive_features, **options
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike | Mapping[str, ArrayLike],
        *,
        sensitive_features: ArrayLike,
        measure: str = "gdp",
        level: float = 0.95,
        replicates: int = REPLICATES,
        random_state: int = 0,
        ax: Any = None,
        plot: bool = True,
    ) -> Self:
        """Return the figure of predictions.

        Parameters
        ----------
        y_true
            Target (n,).
        y_pred
            Predictions (n,), or several by name.
        sensitive_features
            Sensitive columns (n,) or (n, l).
        measure
            ``"gdp"``, ``"hgr"``, ``"pf"``, ``"chi2"`` or ``"gedi"``.
        level, replicates, random_state
            Level, number of replicates and seed of the intervals.
        ax
            Axes to draw on; None creates new ones.
        plot
            Draw at once.
        """
        named = y_pred if isinstance(y_pred, Mapping) else {"model": y_pred}
        options = {"level": level, "replicates": replicates}
        rows = _Rows(y_true, sensitive_features, measure, random_state, **options)
        columns = _prediction_columns(named)
        display = cls(
            labels=[str(name) for name in named],
            **_ends("error", "error_", [rows.error(f) for f in columns]),
            **_ends("value", "value_", [rows.value(f) for f in columns]),
            floor=np.array([rows.floor(f) for f in columns]),
            measure=measure,
        )
        return display.plot(ax) if plot else display

    def _draw(self, ax: Any) -> None:
        ax.errorbar(
            self.value,
            self.error,
            xerr=_error_bars(self.value, self.value_low, self.value_high),
            yerr=_error_bars(self.error, self.error_low, self.error_high),
            fmt="o",
            elinewidth=0.8,
            label="models",
        )
        order = np.flatnonzero(self.best)[np.argsort(self.value[self.best])]
        ax.plot(self.value[order], self.error[order], color="0.4", linewidth=1, label="front")
        highest = float(self.floor.max())
        ax.axvline(highest, color="0.6", linestyle=":", label="noise floor (greatest)")
        for label, x, y in zip(self.labels, self.value, self.error, strict=True):
            ax.annotate(label, (x, y), xytext=(4, 4), textcoords="offset points", fontsize="small")
        ax.set(xlabel=get_measure(self.measure).label, ylabel="mean absolute error")

    def _columns(self) -> dict[str, Any]:
        errors = {name: getattr(self, name) for name in ("error", "error_low", "error_high")}
        return {
            "label": self.labels,
            **errors,
            self.measure: self.value,
            f"{self.measure}_low": self.value_low,
            f"{self.measure}_high": self.value_high,
            "floor": self.floor,
            "best": self.best,
        }


@dataclass(kw_only=True, eq=False, repr=False)
class StrengthDisplay(_Display):
    """A measure against the strength: iterations of a path, or penalties of a shrinkage.

    Parameters
    ----------
    strength
        Strengths, ascending, (k,).
    value, low, high
        The measure of the worst sensitive column and the ends of its intervals, (k,).
    floor
        Mean of the measure after permutations of the sensitive rows, (k,).
    measure
        ``"gdp"``, ``"hgr"``, ``"pf"``, ``"chi2"`` or ``"gedi"``.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd import FairKernelRidge
    >>> from fkd.plot import StrengthDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> s, y = X[:, 0], X[:, 0] + X[:, 1]
    >>> model = FairKernelRidge(gamma=0.1, iterations=4).fit(X, y, sensitive_features=s)
    >>> along = StrengthDisplay.from_estimator(model, X, sensitive_features=s, replicates=50)
    >>> along.frame()["strength"].tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """

    strength: Array
    value: Array
    low: Array
    high: Array
    floor: Array
    measure: str

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike,
        strengths: Sequence[float] | None = None,
        **options: Any,
    ) -> Self:
        """Return the figure of a fitted model at several strengths.

        Parameters
        ----------
        estimator
            A fitted model with a method `at`, or several by strength, such as `fit_path` returns.
        X, y, sensitive_features
            Rows (n, d), target (n,) if the measure needs it, sensitive columns.
        strengths
            Strengths to show. None is every iteration of a path, or decades of a penalty.
        options
            Further parameters of `from_predictions`.
        """
        models = estimator
        if not isinstance(estimator, Mapping):
            if strengths is None and estimator.effective_iterations_ is None:
                strengths = _PENALTIES
            elif strengths is None:
                strengths = range(int(estimator.strength_) + 1)
            models = {strength: estimator.at(strength) for strength in strengths}
        predictions = {strength: _scores(model, X) for strength, model in models.items()}
        return cls.from_predictions(
            y, predictions, sensitive_features=sensitive_features, **options
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike | None,
        y_pred: Mapping[float, ArrayLike],
        *,
        sensitive_features: ArrayLike,
        measure: str = "gdp",
        level: float = 0.95,
        replicates: int = REPLICATES,
        random_state: int = 0,
        ax: Any = None,
        plot: bool = True,
    ) -> Self:
        """Return the figure of predictions by strength.

        Parameters
        ----------
        y_true
            Target (n,) if the measure needs it, as ``"pf"`` does, else None.
        y_pred
            Predictions (n,) by strength.
        sensitive_features
            Sensitive columns (n,) or (n, l).
        measure
            ``"gdp"``, ``"hgr"``, ``"pf"``, ``"chi2"`` or ``"gedi"``.
        level, replicates, random_state
            Level, number of replicates and seed of the intervals.
        ax
            Axes to draw on; None creates new ones.
        plot
            Draw at once.
        """
        options = {"level": level, "replicates": replicates}
        rows = _Rows(y_true, sensitive_features, measure, random_state, **options)
        strengths = sorted(y_pred)
        columns = _prediction_columns({strength: y_pred[strength] for strength in strengths})
        display = cls(
            strength=np.array(strengths, dtype=np.float64),
            **_ends("value", "", [rows.value(f) for f in columns]),
            floor=np.array([rows.floor(f) for f in columns]),
            measure=measure,
        )
        return display.plot(ax) if plot else display

    def _draw(self, ax: Any) -> None:
        title = get_measure(self.measure).label
        _draw_band(ax, self.strength, self.value, self.low, self.high, marker="o", label=title)
        ax.plot(self.strength, self.floor, color="0.6", linestyle=":", label="noise floor")
        if self.strength.max() > 100:  # penalties span decades
            ax.set_xscale("symlog", linthresh=float(self.strength[self.strength > 0].min()))
        ax.set(xlabel="strength", ylabel=title)
        ax.set_ylim(bottom=0.0)

    def _columns(self) -> dict[str, Any]:
        return {
            "strength": self.strength,
            self.measure: self.value,
            "low": self.low,
            "high": self.high,
            "floor": self.floor,
        }


@dataclass(kw_only=True, eq=False, repr=False)
class SensitiveDisplay(_Display):
    """The mean prediction along a sensitive attribute, smoothed as by GDP, with a band.

    GDP is the mean distance of this curve from the mean of all predictions, weighted by the
    density of the attribute.

    Parameters
    ----------
    points
        Values of the attribute, ascending, (g,).
    prediction, low, high
        Mean prediction near each value and the ends of its pointwise interval, (g,).
    truth
        Mean target near each value, (g,); None without a target.
    level
        Mean of all predictions.
    name
        Name of the attribute, shown at the axis.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last `plot`.

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

    points: Array
    prediction: Array
    low: Array
    high: Array
    truth: Array | None
    level: float
    name: str

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
        """Return the figure of a fitted model.

        Parameters
        ----------
        estimator
            A fitted model. The decision values of a classifier are shown.
        X, y
            Rows (n, d); target (n,) to show with the predictions, or None.
        sensitive_features
            One column (n,).
        options
            Further parameters of `from_predictions`.
        """
        f = _scores(estimator, X)
        return cls.from_predictions(f, y_true=y, sensitive_features=sensitive_features, **options)

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
        """Return the figure of predictions.

        Parameters
        ----------
        y_pred
            Predictions (n,).
        sensitive_features
            One column (n,), not constant.
        y_true
            Target (n,) to show with the predictions, or None.
        points
            Number of points of the curve.
        level, replicates, random_state
            Level, number of replicates and seed of the intervals.
        ax
            Axes to draw on; None creates new ones.
        plot
            Draw at once.
        """
        f, s = as_column(y_pred, "y_pred"), as_column(sensitive_features, "sensitive_features")
        require_length(s, len(f), "sensitive_features")
        if is_constant(s):
            raise ValueError(
                f"sensitive_features must vary for a curve along it, got {len(s)} times {s[0]:g}"
            )
        places, scaled = np.linspace(0.0, 1.0, whole("points", points, low=2)), by_range(s)
        found = interval(
            lambda f, s: _smoothed(f, s, places),
            f,
            scaled,
            rng=np.random.default_rng(random_state),
            replicates=replicates,
            level=level,
        )
        truth = None
        if y_true is not None:
            y = as_column(y_true, "y_true")
            require_length(y, len(f), "y_true")
            truth = _smoothed(y, scaled, places)
        display = cls(
            points=np.asarray(s.min(axis=0) + places * np.ptp(s)),
            prediction=np.asarray(found.estimate),
            low=np.asarray(found.low),
            high=np.asarray(found.high),
            truth=truth,
            level=float(f.mean(axis=0)),
            name=str(getattr(sensitive_features, "name", None) or "s"),
        )
        return display.plot(ax) if plot else display

    def _draw(self, ax: Any) -> None:
        _draw_band(ax, self.points, self.prediction, self.low, self.high, label="mean prediction")
        ax.axhline(self.level, color="0.6", linestyle=":", label="mean of all")
        if self.truth is not None:
            ax.plot(self.points, self.truth, color="0.3", linestyle="--", label="mean target")
        ax.set(xlabel=self.name, ylabel="mean prediction")

    def _columns(self) -> dict[str, Any]:
        columns = {"s": self.points, "prediction": self.prediction}
        columns |= {"low": self.low, "high": self.high}
        return columns if self.truth is None else {**columns, "truth": self.truth}


class _Rows:
    """Rows on which predictions are judged, and the settings of the intervals."""

    def __init__(
        self,
        y: ArrayLike | None,
        sensitive_features: ArrayLike,
        measure: str,
        seed: int,
        **options: Any,
    ) -> None:
        numbers = np.asarray(sensitive_features)
        self.S = as_sensitive(numbers, len(numbers) if numbers.ndim else 0)
        self.measure, self.seed, self.options = get_measure(measure), int(seed), options
        if y is None and self.measure.needs_truth:
            raise ValueError(f"y must be given for measure={measure!r}, got None")
        # Zeros if the measure does not need the target.
        self.y = np.zeros(len(self.S)) if y is None else as_column(y, "y")
        if len(self.y) != len(self.S):
            raise ValueError(
                f"y must have one row per sensitive row ({len(self.S)}), got {len(self.y)}"
            )

    def value(self, f: Array) -> Interval:
        """Return the measure of the worst sensitive column with its interval."""
        if self.S.shape[1] == 1:
            return self._interval(self.measure, *self.measure.columns(self.y, f, self.S[:, 0]))
        return self._interval(self._worst, self.y, f, self.S, bounds=self.measure.range)

    def error(self, f: Array) -> Interval:
        """Return the mean absolute error with its interval."""
        return self._interval(mean_absolute_error, self.y, f, bounds=(0.0, np.inf))

    def floor(self, f: Array) -> float:
        """Return the mean of the measure after permutations of the sensitive rows."""
        found = noise_floor(
            f,
            self.S,
            rng=np.random.default_rng(self.seed),
            measure=lambda f, S: self._worst(self.y, f, S),
            permutations=_PERMUTATIONS,
        )
        return float(np.max(found.mean))

    def _interval(self, measure: Any, *columns: Array, **options: Any) -> Interval:
        rng = np.random.default_rng(self.seed)
        return interval(measure, *columns, rng=rng, **self.options, **options)

    def _worst(self, y: Array, f: Array, S: Array) -> float:
        return worst_column(y, f, measure=self.measure.name, sensitive_features=S)


def _prediction_columns(named: Mapping[Any, ArrayLike]) -> list[Array]:
    """Return the validated predictions."""
    if not named:
        raise ValueError("y_pred must contain at least one prediction, got none")
    return [as_column(f, f"y_pred of {name}") for name, f in named.items()]


def _scores(estimator: Any, X: Any) -> Array:
    """Return the decision values of a classifier, or the predictions of another estimator."""
    predict = getattr(estimator, "decision_function", None) or estimator.predict
    found = np.asarray(predict(X), dtype=np.float64)
    if found.ndim != 1:
        raise ValueError(
            f"estimator must return one number per row, got shape {found.shape}. Pass one class or "
            "target to from_predictions"
        )
    return found


def _smoothed(f: Array, s: Array, places: Array) -> Array:
    """Return the mean of f near each place by the kernel of GDP; s and places are in [0, 1]."""
    level = float(f.mean(axis=0))
    smooth, _ = smooth_at_points(places, *level_totals(f - level, s), rate(len(s)))
    return np.asarray(smooth + level)


def _ends(name: str, prefix: str, found: Sequence[Interval]) -> dict[str, Array]:
    """Return estimates, lower ends and upper ends of several intervals by field of a display."""
    columns = np.array([(one.estimate, one.low, one.high) for one in found]).T
    return dict(zip((name, f"{prefix}low", f"{prefix}high"), columns, strict=True))


def _error_bars(value: Array, low: Array, high: Array) -> Array:
    """Return the lengths of error bars around values, (2, k)."""
    return np.maximum(np.stack([value - low, high - value]), 0.0)


def _draw_band(ax: Any, x: Array, value: Array, low: Array, high: Array, **line: Any) -> None:
    """Draw a line and the band of its intervals in the same colour."""
    (drawn,) = ax.plot(x, value, **line)
    ax.fill_between(x, low, high, alpha=0.2, color=drawn.get_color())
