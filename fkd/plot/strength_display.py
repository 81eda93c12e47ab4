"""A measure along the strength of a removal."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.validation import as_column
from fkd.measures.registry import get_measure
from fkd.plot.display import (
    REPLICATES,
    Judged,
    answers,
    as_frame,
    draw_band,
    ends_of,
    new_axes,
)

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
