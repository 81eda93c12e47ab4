"""What changed between two samples of rows, as values."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import Array


@dataclass(frozen=True)
class NumberChange:
    """One number on two samples of rows.

    Parameters
    ----------
    quantity, column
        mae, error (the mean signed one), error_rank (its mean rank among all rows, as a share), or
        hgr, gdp, pf of a sensitive column.
    before, after
        On the earlier rows, on the later ones.
    change, low, high
        After minus before, less what the two numbers of rows alone make of it; ends of its band.
    crossed
        Whether the band leaves out zero.

    Examples
    --------
    >>> from fkd.measures import NumberChange
    >>> NumberChange("mae", "", 2.0, 3.0, 1.0, 0.4, 1.6, True).crossed
    True
    """

    quantity: str
    column: str
    before: float
    after: float
    change: float
    low: float
    high: float
    crossed: bool


@dataclass(frozen=True)
class CurveChange:
    """The mean of one column along s on two samples of rows.

    Parameters
    ----------
    quantity, column
        prediction, error, absolute_error or error_rank, along which sensitive column.
    points
        Values of s (g,), rising.
    before, after
        Means near each of them; NaN where a sample has too few rows.
    change, low, high
        After minus before with the ends of its band, which is one for all points and quantities.
    crossed
        Where the band leaves out zero.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import CurveChange
    >>> at, mean = np.array([20.0, 60.0]), np.array([1.0, 3.0])
    >>> moved = CurveChange("error", "age", at, mean, mean + 1, mean * 0 + 1, mean, mean, at > 30)
    >>> moved.points[moved.crossed]
    array([60.])
    """

    quantity: str
    column: str
    points: Array
    before: Array
    after: Array
    change: Array
    low: Array
    high: Array
    crossed: NDArray[np.bool_]


@dataclass(frozen=True)
class SampleChanges:
    """Everything that was compared on two samples, as `sample_changes` returns it.

    Parameters
    ----------
    numbers, curves
        Each with the band that holds all of them at once.
    chance
        How often rows of one distribution differ as much somewhere.
    rows
        How many rows were compared, before and after.
    level
        Share of samples of one distribution in which no band leaves out zero.

    Examples
    --------
    >>> from fkd.measures import SampleChanges
    >>> SampleChanges((), (), 0.5, (400, 900), 0.95).crossed
    False
    """

    numbers: tuple[NumberChange, ...]
    curves: tuple[CurveChange, ...]
    chance: float
    rows: tuple[int, int]
    level: float

    @property
    def crossed(self) -> bool:
        """Whether something changed by more than exchanged rows would."""
        return any(one.crossed for one in self.numbers) or any(
            bool(one.crossed.any()) for one in self.curves
        )
