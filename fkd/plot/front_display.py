"""Models by their error against their dependence."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.validation import as_column
from fkd.measures.pareto import non_dominated
from fkd.measures.registry import get_measure
from fkd.plot.display import (
    REPLICATES,
    Judged,
    answers,
    as_frame,
    ends_of,
    new_axes,
    whiskers,
)

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
