"""Pairwise fairness for a continuous attribute, after Narasimhan et al. (2020), section 2."""

from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fkd.core.arrays import Array
from fkd.core.border import as_column, as_sensitive, require_length
from fkd.measures.columns import is_constant, per_column
from fkd.measures.pair_counts import Ranks, dense_ranks, dominating_pairs
from fkd.measures.strata import UndefinedMeasureError, by_stratum


def pairwise_fairness(
    y_true: ArrayLike | None,
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    criterion: Literal["eo", "dp"] = "eo",
    ties: Literal["strict", "half"] = "strict",
    control_features: ArrayLike | None = None,
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

    Returns
    -------
    float or Array
        A value in [0, 1], one per sensitive column; exactly 0.0 for a constant prediction.
    """
    f, y, S = _inputs(y_true, y_pred, sensitive_features, criterion, ties)
    if control_features is not None:
        own = partial(pairwise_fairness, criterion=criterion, ties=ties)
        return by_stratum(own, y, f, S, control_features=control_features).mean
    if is_constant(f):
        return per_column(lambda s: 0.0, S)
    return per_column(lambda s: _gap(_rates(y, f, s, ties)), S)


def pairwise_rates(
    y_true: ArrayLike | None,
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    criterion: Literal["eo", "dp"] = "eo",
    ties: Literal["strict", "half"] = "strict",
) -> tuple[float | Array, float | Array]:
    """Return P(f > f' | y > y', s > s') with P(f > f' | y > y', s < s'), per sensitive column.

    The two numbers whose distance is `pairwise_fairness`; its parameters apply.
    """
    f, y, S = _inputs(y_true, y_pred, sensitive_features, criterion, ties)
    rates = np.array([_rates(y, f, s, ties) for s in S.T])
    above, below = rates.T
    return (float(above[0]), float(below[0])) if len(rates) == 1 else (above, below)


def _gap(rates: tuple[float, float]) -> float:
    """Return the distance of the two rates."""
    return abs(rates[0] - rates[1])


def _rates(y: Array | None, f: Array, s: Array, ties: str) -> tuple[float, float]:
    """Rate of f > f' among the pairs with s > s', then among those with s < s'."""
    condition = () if y is None else (dense_ranks(y),)
    f_ranks, s_ranks = dense_ranks(f), dense_ranks(s)
    above = _rate(f_ranks, (*condition, s_ranks), ties)
    below = _rate(f_ranks, (*condition, _reverse(s_ranks)), ties)
    return above, below


def _rate(f: Ranks, condition: tuple[Ranks, ...], ties: str) -> float:
    """Rate of f > f' among the pairs that dominate in every key of the condition."""
    pairs = dominating_pairs(*condition)
    if pairs == 0:
        given = "y > y', " if len(condition) > 1 else ""
        raise UndefinedMeasureError(
            "sensitive_features must leave pairs to compare in both directions, got none with "
            f"{given}s > s' or none with {given}s < s'; pairwise fairness is undefined here"
        )
    right = dominating_pairs(*condition, f)
    if ties == "strict":
        return right / pairs
    wrong = dominating_pairs(*condition, _reverse(f))
    return (pairs + right - wrong) / (2 * pairs)


def _reverse(ranks: Ranks) -> Ranks:
    """Dense ranks of the opposite order."""
    reversed_ranks: Ranks = ranks.max(axis=0) - ranks
    return reversed_ranks


def _inputs(
    y_true: ArrayLike | None,
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    criterion: str,
    ties: str,
) -> tuple[Array, Array | None, Array]:
    """Return checked predictions, truth (None where it plays no part), sensitive columns."""
    if criterion not in ("eo", "dp"):
        raise ValueError(f"criterion must be 'eo' or 'dp', got {criterion!r}")
    if ties not in ("strict", "half"):
        raise ValueError(f"ties must be 'strict' or 'half', got {ties!r}")
    f = as_column(y_pred, "y_pred")
    S = as_sensitive(sensitive_features, len(f))
    if y_true is None:
        if criterion == "eo":
            raise ValueError("y_true must be given for criterion='eo', got None")
        return f, None, S
    y = as_column(y_true, "y_true")
    require_length(y, len(f), "y_true")
    return f, (y if criterion == "eo" else None), S
