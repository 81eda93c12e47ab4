"""What every picture has: numbers by column, axes to draw on."""

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
from fkd.measures.registry import get_measure
from fkd.measures.resampling import Interval, interval, noise_floor
from fkd.measures.scorers import worst_column

# matplotlib and pandas are imported where they are used: the library needs neither.


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


if TYPE_CHECKING:
    import pandas as pd


class FrontDisplay:
    """Models as points: mean absolute error against a measure, with intervals and noise floor.

    Make one by `from_estimator` or `from_predictions`; `plot` draws it again, `frame` gives the
    numbers.

    Parameters
    ----------
    labels
        Names of the models.
    error, error_low, error_high
        Mean absolute errors with the ends of their intervals, (k,).
    value, value_low, value_high
        The measure on the worst sensitive column with the ends of its intervals, (k,).
    floor
        What the measure says of the same predictions after the sensitive rows were shuffled, (k,):
        no model can be expected below it.
    measure
        ``"gdp"``, ``"hgr"``, ``"pf"``, ``"chi2"`` or ``"gedi"``.

    Attributes
    ----------
    best : array of bool
        Which models no other one beats in both coordinates.
    ax_, figure_
        Where it was last drawn.

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

    def __init__(
        self,
        *,
        labels: list[str],
        error: Array,
        error_low: Array,
        error_high: Array,
        value: Array,
        value_low: Array,
        value_high: Array,
        floor: Array,
        measure: str,
    ) -> None:
        self.labels = labels
        self.error, self.error_low, self.error_high = error, error_low, error_high
        self.value, self.value_low, self.value_high = value, value_low, value_high
        self.floor = floor
        self.measure = measure
        self.best = non_dominated(np.column_stack([error, value]))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        measure: str = "gdp",
        level: float = 0.95,
        replicates: int = REPLICATES,
        random_state: int = 0,
        ax: Any = None,
        plot: bool = True,
    ) -> Self:
        """Return the picture of fitted models on rows that they were not fitted to.

        Parameters
        ----------
        estimator
            A fitted model, or several by name, such as `fit_path` returns.
        X, y, sensitive_features
            Rows (n, d), target (n,), sensitive columns (n,) or (n, l).
        measure
            ``"gdp"``, ``"hgr"``, ``"pf"``, ``"chi2"`` or ``"gedi"``.
        level, replicates, random_state
            Of the intervals.
        ax
            Where to draw; None makes new axes.
        plot
            Whether to draw at once.
        """
        models = estimator if isinstance(estimator, Mapping) else {"model": estimator}
        return cls.from_predictions(
            y,
            {str(name): answers(model, X) for name, model in models.items()},
            sensitive_features=sensitive_features,
            measure=measure,
            level=level,
            replicates=replicates,
            random_state=random_state,
            ax=ax,
            plot=plot,
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
        """Return the picture of predictions.

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
            Of the intervals.
        ax
            Where to draw; None makes new axes.
        plot
            Whether to draw at once.
        """
        named = y_pred if isinstance(y_pred, Mapping) else {"model": y_pred}
        if not named:
            raise ValueError("y_pred must hold at least one prediction, got none")
        rows = Judged.of(
            y_true,
            sensitive_features,
            measure=measure,
            level=level,
            replicates=replicates,
            random_state=random_state,
        )
        columns = [as_column(f, f"y_pred of {name}") for name, f in named.items()]
        error, error_low, error_high = ends_of([rows.error(f) for f in columns])
        value, value_low, value_high = ends_of([rows.value(f) for f in columns])
        display = cls(
            labels=[str(name) for name in named],
            error=error,
            error_low=error_low,
            error_high=error_high,
            value=value,
            value_low=value_low,
            value_high=value_high,
            floor=np.array([rows.floor(f) for f in columns]),
            measure=measure,
        )
        return display.plot(ax=ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        """Draw, the front's points joined; return self.

        Parameters
        ----------
        ax
            Where to draw; None makes new axes.
        """
        ax = new_axes(ax)
        ax.errorbar(
            self.value,
            self.error,
            xerr=whiskers(self.value, self.value_low, self.value_high),
            yerr=whiskers(self.error, self.error_low, self.error_high),
            fmt="o",
            elinewidth=0.8,
            label="models",
        )
        order = np.flatnonzero(self.best)[np.argsort(self.value[self.best])]
        ax.plot(self.value[order], self.error[order], color="0.4", linewidth=1, label="front")
        ax.axvline(
            float(self.floor.max()), color="0.6", linestyle=":", label="noise floor (greatest)"
        )
        for label, x, y in zip(self.labels, self.value, self.error, strict=True):
            ax.annotate(label, (x, y), xytext=(4, 4), textcoords="offset points", fontsize="small")
        ax.set(xlabel=get_measure(self.measure).title, ylabel="mean absolute error")
        ax.legend(fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def frame(self) -> "pd.DataFrame":
        """Return one row per model: error and measure with their intervals, floor, best."""
        return as_frame(
            {
                "label": self.labels,
                "error": self.error,
                "error_low": self.error_low,
                "error_high": self.error_high,
                self.measure: self.value,
                f"{self.measure}_low": self.value_low,
                f"{self.measure}_high": self.value_high,
                "floor": self.floor,
                "best": self.best,
            }
        )


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


if TYPE_CHECKING:
    import pandas as pd

# Of a shrinkage, where nothing says which penalties matter.
_PENALTIES = (0.0, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)


class StrengthDisplay:
    """A measure along the strength: iterations m of a path, penalties of a shrinkage.

    Make one by `from_estimator` or `from_predictions`; `plot` draws it again, `frame` gives the
    numbers.

    Parameters
    ----------
    strength
        Rising, (k,).
    value, low, high
        The measure on the worst sensitive column with the ends of its intervals, (k,).
    floor
        What the measure says after the sensitive rows were shuffled, (k,).
    measure
        ``"gdp"``, ``"hgr"``, ``"pf"``, ``"chi2"`` or ``"gedi"``.

    Attributes
    ----------
    ax_, figure_
        Where it was last drawn.

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

    def __init__(
        self,
        *,
        strength: Array,
        value: Array,
        low: Array,
        high: Array,
        floor: Array,
        measure: str,
    ) -> None:
        self.strength = strength
        self.value, self.low, self.high = value, low, high
        self.floor = floor
        self.measure = measure

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike,
        strengths: Sequence[float] | None = None,
        measure: str = "gdp",
        level: float = 0.95,
        replicates: int = REPLICATES,
        random_state: int = 0,
        ax: Any = None,
        plot: bool = True,
    ) -> Self:
        """Return the picture of a fitted model at several strengths.

        Parameters
        ----------
        estimator
            A fitted model that has `at`, or several by strength, such as `fit_path` returns.
        X, y, sensitive_features
            Rows (n, d), target (n,), which only ``"pf"`` looks at, sensitive columns.
        strengths
            Which ones; None is every iteration of a path, decades of a penalty.
        measure
            ``"gdp"``, ``"hgr"``, ``"pf"``, ``"chi2"`` or ``"gedi"``.
        level, replicates, random_state
            Of the intervals.
        ax
            Where to draw; None makes new axes.
        plot
            Whether to draw at once.
        """
        models = estimator
        if not isinstance(estimator, Mapping):
            models = {m: estimator.at(m) for m in _strengths(estimator, strengths)}
        return cls.from_predictions(
            y,
            {strength: answers(model, X) for strength, model in models.items()},
            sensitive_features=sensitive_features,
            measure=measure,
            level=level,
            replicates=replicates,
            random_state=random_state,
            ax=ax,
            plot=plot,
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
        """Return the picture of predictions by strength.

        Parameters
        ----------
        y_true
            Target (n,), which only ``"pf"`` looks at.
        y_pred
            Predictions (n,) by strength.
        sensitive_features
            Sensitive columns (n,) or (n, l).
        measure
            ``"gdp"``, ``"hgr"``, ``"pf"``, ``"chi2"`` or ``"gedi"``.
        level, replicates, random_state
            Of the intervals.
        ax
            Where to draw; None makes new axes.
        plot
            Whether to draw at once.
        """
        if not y_pred:
            raise ValueError("y_pred must hold at least one prediction, got none")
        rows = Judged.of(
            y_true,
            sensitive_features,
            measure=measure,
            level=level,
            replicates=replicates,
            random_state=random_state,
        )
        known = sorted(y_pred)
        columns = [as_column(y_pred[m], f"y_pred of {m}") for m in known]
        value, low, high = ends_of([rows.value(f) for f in columns])
        display = cls(
            strength=np.array(known, dtype=np.float64),
            value=value,
            low=low,
            high=high,
            floor=np.array([rows.floor(f) for f in columns]),
            measure=measure,
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
        band = self.value, self.low, self.high
        draw_band(ax, self.strength, *band, marker="o", label=get_measure(self.measure).title)
        ax.plot(self.strength, self.floor, color="0.6", linestyle=":", label="noise floor")
        if self.strength.max() > 100:  # penalties span decades
            ax.set_xscale("symlog", linthresh=float(self.strength[self.strength > 0].min()))
        ax.set(xlabel="strength", ylabel=get_measure(self.measure).title)
        ax.set_ylim(bottom=0.0)
        ax.legend(fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def frame(self) -> "pd.DataFrame":
        """Return one row per strength: the measure with its interval, the noise floor."""
        return as_frame(
            {
                "strength": self.strength,
                self.measure: self.value,
                "low": self.low,
                "high": self.high,
                "floor": self.floor,
            }
        )


def _strengths(estimator: Any, strengths: Sequence[float] | None) -> Sequence[float]:
    """Return the strengths of a fitted model to look at."""
    if strengths is not None:
        return list(strengths)
    if estimator.effective_iterations_ is None:
        return _PENALTIES
    return range(int(estimator.strength_) + 1)
