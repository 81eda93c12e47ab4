"""Rows of two samples, whose numbers are taken on any division of them."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from fkd.core.arrays import Array
from fkd.core.border import as_column, as_sensitive, require_length
from fkd.measures.columns import is_constant
from fkd.measures.gdp import gdp
from fkd.measures.hgr import hgr
from fkd.measures.pairwise import pairwise_fairness
from fkd.measures.profiles import ERROR
from fkd.measures.strata import UndefinedMeasureError

# Fewer rows on either side than this say nothing of a curve, and hardly anything of HGR.
FEWEST_COMPARED = 30
ERROR_RANK = "error_rank"
Sample = tuple[ArrayLike, ArrayLike, Any]  # truth, prediction, sensitive columns
_HGR: Any = partial(hgr, margins="standard")
_GDP: Any = partial(gdp, margins="given")


@dataclass(frozen=True)
class ExchangedRows:
    """The rows of both samples, those of the first before those of the second."""

    y: Array
    f: Array
    S: Array
    U: Array  # S in units of its range
    ranks: Array  # of the signed errors among all rows, in (0, 1]
    names: tuple[str, ...]
    n_before: int

    @classmethod
    def of(
        cls,
        before: Sample,
        after: Sample,
        rng: np.random.Generator,
        most: int,
        unit: ArrayLike | None,
        names: tuple[str, ...],
    ) -> "ExchangedRows":
        """Return the checked rows of both samples, at most so many of each."""
        first, second = (
            _drawn(*_checked(*sample, which), rng, most)
            for sample, which in ((before, "before"), (after, "after"))
        )
        if first[2].shape[1] != second[2].shape[1]:
            raise ValueError(
                f"before and after must have as many sensitive columns, got {first[2].shape[1]} "
                f"and {second[2].shape[1]}"
            )
        y, f, S = (np.concatenate(pair) for pair in zip(first, second, strict=True))
        names = names or tuple(str(j) for j in range(S.shape[1]))
        for name, s in zip(names, S.T, strict=True):
            if is_constant(s):
                raise ValueError(f"sensitive column {name} must vary, got {s[0]:g} in every row")
        ends = np.column_stack([S.min(axis=0), S.max(axis=0)])
        if unit is not None:
            given = np.asarray(unit, dtype=np.float64).reshape(-1, 2)
            ends = np.column_stack(
                [np.minimum(given[:, 0], ends[:, 0]), np.maximum(given[:, 1], ends[:, 1])]
            )
        U = (S - ends[:, 0]) / (ends[:, 1] - ends[:, 0])
        return cls(y, f, S, U, rankdata(f - y) / len(y), names, len(first[0]))

    @property
    def labels(self) -> list[tuple[str, str]]:
        """What the numbers are, in their order."""
        measured = [(name, column) for column in self.names for name in ("hgr", "gdp", "pf")]
        return [("mae", ""), (ERROR, ""), (ERROR_RANK, ""), *measured]

    @property
    def columns(self) -> Array:
        """What is followed along s, (n, 4).

        Ranks beside errors: of long-tailed errors a few decide the mean, and its band is wide.
        """
        error = self.f - self.y
        return np.column_stack([self.f, error, np.abs(error), self.ranks])

    def numbers(self, side: NDArray[np.bool_]) -> list[float]:
        """Return error and measures of one side; NaN where one is undefined."""
        y, f, U = self.y[side], self.f[side], self.U[side]
        error = f - y
        means = np.column_stack([np.abs(error), error, self.ranks[side]]).mean(axis=0)
        found = [float(mean) for mean in means]
        for u in U.T:
            found += [float(_HGR(f, u)), float(_GDP(f, u))]
            try:
                found.append(float(pairwise_fairness(y, f, u)))
            except UndefinedMeasureError:
                found.append(np.nan)
        return found


def _checked(y: ArrayLike, f: ArrayLike, S: Any, which: str) -> tuple[Array, Array, Array]:
    """Return one sample as arrays of equally many rows."""
    truth, predicted = as_column(y, f"truth {which}"), as_column(f, f"prediction {which}")
    require_length(predicted, len(truth), f"prediction {which}")
    if len(truth) < FEWEST_COMPARED:
        raise ValueError(
            f"the sample {which} must have at least {FEWEST_COMPARED} rows to be compared, got "
            f"{len(truth)}"
        )
    return truth, predicted, as_sensitive(S, len(truth))


def _drawn(
    y: Array, f: Array, S: Array, rng: np.random.Generator, most: int
) -> tuple[Array, Array, Array]:
    """Return at most so many rows, drawn without replacement."""
    if len(y) <= most:
        return y, f, S
    kept = np.sort(rng.choice(len(y), most, replace=False))
    return y[kept], f[kept], S[kept]
