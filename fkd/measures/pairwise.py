"""Pairwise fairness for a continuous attribute, after Narasimhan et al. (2020), section 2."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array, IntArray
from fkd.core.border import (
    as_column,
    as_numbers,
    as_sensitive,
    require_length,
    weight_vector,
)
from fkd.measures.ascents import Ranks
from fkd.measures.columns import is_constant, per_column
from fkd.measures.pair_counts import dense_ranks, orders_by_tiles
from fkd.measures.pair_orders import OrderCounts, PairOrders
from fkd.measures.repeated_rows import require_two
from fkd.measures.strata import UndefinedMeasureError, by_stratum

# Measured: from about here sorting beats comparing each row with each.
SORT_FROM = 500


def pairwise_fairness(
    y_true: ArrayLike | None,
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    criterion: Literal["eo", "dp"] = "eo",
    ties: Literal["strict", "half"] = "strict",
    control_features: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float | Array:
    """Return |P(f > f' | y > y', s > s') - P(f > f' | y > y', s < s')| per sensitive column.

    Read: of two rows where the first has the larger truth, how much does it matter for ranking
    them rightly which of the two has the larger s.

    Parameters
    ----------
    y_true
        Truth (n,). With criterion "dp" it plays no part, so None is accepted there.
    y_pred
        Predictions f (n,), n >= 2.
    sensitive_features
        One column (n,) or several (n, l); only their order matters.
    criterion
        "eo" conditions on y > y' (equal opportunity), "dp" does not (statistical parity).
    ties
        Pairs with f = f' count as not ranked rightly ("strict") or as half ("half"). Pairs tied in
        y or s never count.
    control_features
        Legitimate columns (n,) or (n, k): the measure is taken within each of their groups of rows,
        and the mean weighted by rows returned. See `by_stratum`, which tells the groups apart.
    sample_weight
        How many rows each row stands for (n,), >= 0: a pair counts as often as the product of its
        two weights says. Their unit does not matter here.

    Returns
    -------
    float or Array
        A value in [0, 1], one per sensitive column; exactly 0.0 for a constant prediction.

    References
    ----------
    Narasimhan et al. (2020), "Pairwise Fairness for Ranking and Regression", AAAI.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import pairwise_fairness
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> y = rng.normal(size=400)
    >>> bool(pairwise_fairness(y, f, s) > 0.5), bool(pairwise_fairness(y, y, s) < 0.2)
    (True, True)
    """
    _check_ties(ties)
    f = as_column(y_pred, "y_pred")
    S = as_sensitive(sensitive_features, len(f))
    y = _truth(y_true, len(f), criterion)
    if control_features is not None:
        own = partial(pairwise_fairness, criterion=criterion, ties=ties)
        return by_stratum(
            own, y, f, S, control_features=control_features, sample_weight=sample_weight
        ).mean
    if sample_weight is None and is_constant(f):
        return per_column(lambda s: 0.0, S)
    rows = PairwiseRows(y, S, criterion=criterion, sample_weight=sample_weight)
    return rows.fairness(f, ties=ties)


def pairwise_rates(
    y_true: ArrayLike | None,
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    criterion: Literal["eo", "dp"] = "eo",
    ties: Literal["strict", "half"] = "strict",
    sample_weight: ArrayLike | None = None,
) -> tuple[float | Array, float | Array]:
    """Return P(f > f' | y > y', s > s') with P(f > f' | y > y', s < s'), per sensitive column.

    The two numbers whose distance is `pairwise_fairness`.

    Parameters
    ----------
    y_true
        Truth (n,); None with criterion "dp".
    y_pred
        Predictions f (n,), n >= 2.
    sensitive_features
        One column (n,) or several (n, l); only their order matters.
    criterion
        "eo" conditions on y > y' (equal opportunity), "dp" does not (statistical parity).
    ties
        Pairs with f = f' count as not ranked rightly ("strict") or as half ("half").
    sample_weight
        How many rows each row stands for (n,), >= 0: a pair counts as often as the product of its
        two weights says. Their unit does not matter here.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import pairwise_rates
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> above, below = pairwise_rates(rng.normal(size=400), f, s)
    >>> bool(above > 0.8 > 0.2 > below)
    True
    """
    _check_ties(ties)
    f = as_column(y_pred, "y_pred")
    S = as_sensitive(sensitive_features, len(f))
    y = _truth(y_true, len(f), criterion)
    rows = PairwiseRows(y, S, criterion=criterion, sample_weight=sample_weight)
    return rows.rates(f, ties=ties)


class PairwiseRows:
    """Truth and sensitive columns of some rows, sorted once for any number of predictions.

    Its numbers are those of `pairwise_fairness` and `pairwise_rates`, bit for bit.

    Parameters
    ----------
    y_true
        Truth (n,); None with criterion "dp".
    sensitive_features
        One column (n,) or several (n, l); only their order matters.
    criterion
        "eo" conditions on y > y' (equal opportunity), "dp" does not (statistical parity).
    sample_weight
        How many rows each row stands for (n,), >= 0: a pair counts as often as the product of its
        two weights says. Their unit does not matter here.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import PairwiseRows, pairwise_fairness
    >>> rng = np.random.default_rng(0)
    >>> s = rng.uniform(size=400)
    >>> f = s + 0.1 * rng.normal(size=400)
    >>> y = rng.normal(size=400)
    >>> rows = PairwiseRows(y, s)
    >>> rows.fairness(f) == pairwise_fairness(y, f, s)
    True
    """

    def __init__(
        self,
        y_true: ArrayLike | None,
        sensitive_features: ArrayLike,
        *,
        criterion: Literal["eo", "dp"] = "eo",
        sample_weight: ArrayLike | None = None,
    ) -> None:
        numbers = as_numbers(sensitive_features, "sensitive_features")
        S = as_sensitive(numbers, len(numbers) if numbers.ndim else 0)
        y = _truth(y_true, len(S), criterion)
        self._rows = len(S)
        w = weight_vector(sample_weight, len(S))
        # A row of weight zero is not there: nor are its pairs.
        self._kept: slice | IntArray = (
            slice(None) if w is None or (w > 0).all() else np.flatnonzero(w)
        )
        if w is not None:
            require_two(w)
            w, S, y = w[self._kept], S[self._kept], None if y is None else y[self._kept]
        y_ranks = None if y is None else dense_ranks(y)
        self._orders = [PairOrders(y_ranks, dense_ranks(s), w) for s in S.T]

    def fairness(
        self, y_pred: ArrayLike, *, ties: Literal["strict", "half"] = "strict"
    ) -> float | Array:
        """Return `pairwise_fairness` of a prediction."""
        f = self._checked(y_pred)
        _check_ties(ties)
        if is_constant(f):
            return _plain([0.0 for _ in self._orders])
        return _plain([abs(above - below) for above, below in self._rates(f, ties)])

    def rates(
        self, y_pred: ArrayLike, *, ties: Literal["strict", "half"] = "strict"
    ) -> tuple[float | Array, float | Array]:
        """Return `pairwise_rates` of a prediction."""
        f = self._checked(y_pred)
        _check_ties(ties)
        above, below = zip(*self._rates(f, ties), strict=True)
        return _plain(above), _plain(below)

    def _checked(self, y_pred: ArrayLike) -> Array:
        f = as_column(y_pred, "y_pred")
        require_length(f, self._rows, "y_pred")
        return np.asarray(f[self._kept])

    def _rates(self, f: Array, ties: str) -> list[tuple[float, float]]:
        """Rates of f > f' where s > s', then where s < s', by column."""
        ranks = dense_ranks(f)
        return [
            _rates(_counts(orders, ranks), ties, orders.y is not None) for orders in self._orders
        ]


def _counts(orders: PairOrders, f: Ranks) -> OrderCounts:
    """Return the pairs by the faster of two ways, which give the same numbers."""
    if len(f) >= SORT_FROM:
        return orders.counts(f)
    return orders_by_tiles(orders.y, orders.s, f, orders.w)


def _rates(counts: OrderCounts, ties: str, with_truth: bool) -> tuple[float, float]:
    """Rate of f > f' among the pairs with s > s', then among those with s < s'."""
    if 0 in counts.pairs:
        given = "y > y', " if with_truth else ""
        raise UndefinedMeasureError(
            "sensitive_features must leave pairs to compare in both directions, got none with "
            f"{given}s > s' or none with {given}s < s'; pairwise fairness is undefined here"
        )
    above, below = (
        right / pairs if ties == "strict" else (pairs + right - wrong) / (2 * pairs)
        for pairs, right, wrong in zip(counts.pairs, counts.right, counts.wrong, strict=True)
    )
    return above, below


def _plain(values: Sequence[float]) -> float | Array:
    """Return the value of the only column as a float, those of several as an array (l,)."""
    return float(values[0]) if len(values) == 1 else np.array(values, dtype=np.float64)


def _check_ties(ties: str) -> None:
    if ties not in ("strict", "half"):
        raise ValueError(f"ties must be 'strict' or 'half', got {ties!r}")


def _truth(y_true: ArrayLike | None, n: int, criterion: str) -> Array | None:
    """Return the checked truth, None where it plays no part."""
    if criterion not in ("eo", "dp"):
        raise ValueError(f"criterion must be 'eo' or 'dp', got {criterion!r}")
    if y_true is None:
        if criterion == "eo":
            raise ValueError("y_true must be given for criterion='eo', got None")
        return None
    y = as_column(y_true, "y_true")
    require_length(y, n, "y_true")
    return y if criterion == "eo" else None
