"""Pairwise fairness for a continuous attribute, after Narasimhan et al. (2020), section 2.

Pairs of rows are counted exactly. Few rows are compared each with each, many are sorted: counting
the pairs that two keys order alike is counting the inversions of a permutation, O(n log n), and
three keys reduce to two at a time (`PairOrders`). Subsamples of the same rows, for intervals, are
counted together by matrix products over tiles of pairs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fkd.core.arrays import AnyArray, Array, IntArray, row_blocks
from fkd.core.validation import as_column, as_numbers, as_sensitive, require_length, weight_vector
from fkd.measures.columns import is_constant, per_column, require_two_rows
from fkd.measures.groups import UndefinedMeasureError, by_stratum

Ranks = NDArray[np.int64]
_Both = tuple[float, float]
# Measured: with more rows, sorting is faster than comparing all pairs.
SORT_FROM = 500
# Measured: with more rows, counting each subsample alone is faster than comparing all pairs.
SUBSAMPLES_FROM = 1 << 13
TILE_CELLS = 1 << 18  # booleans of one tile, which fit the cache
# Entries of a tile of pairs. Its four masks fit the outer cache.
PAIR_TILE_CELLS = 1 << 21
# With fewer values, importing numba and compiling takes longer than it saves.
COMPILED_FROM = 1 << 17
# Positions have 32 bits. The number of pairs is then below 2^61 and fits 64 bits.
MOST_ROWS = 2**31 - 1
_KEY_BITS = 63
# Below this sum, sums of products of integer weights are exact in float64.
EXACT_BELOW = 1 << 26
# Bound of the rounding error of other sums, as a share of all pairs.
_ROUNDING = 1e-12


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

    Of two rows, the first has the larger truth. The value is how much the probability of ranking
    it first depends on which of the two has the larger s.

    Parameters
    ----------
    y_true
        Truth (n,). It is not used with criterion "dp", and may then be None.
    y_pred
        Predictions f (n,), n >= 2.
    sensitive_features
        One column (n,) or several (n, l). Only their order matters.
    criterion
        "eo" conditions on y > y' (equal opportunity), "dp" does not (statistical parity).
    ties
        Pairs with f = f' count as ranked incorrectly ("strict") or as half ("half"). Pairs tied in
        y or s never count.
    control_features
        Conditioning columns (n,) or (n, k). The measure is computed within each of their groups of
        rows and averaged, weighted by rows. `by_stratum` returns the groups.
    sample_weight
        Weights (n,), >= 0. A pair counts the product of its two weights, so that their unit does
        not matter.

    Returns
    -------
    float or Array
        A value in [0, 1] per sensitive column, exactly 0.0 for a constant prediction.

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
        within = partial(pairwise_fairness, criterion=criterion, ties=ties)
        return by_stratum(
            within, y, f, S, control_features=control_features, sample_weight=sample_weight
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
    """Return P(f > f' | y > y', s > s') and P(f > f' | y > y', s < s'), per sensitive column.

    The absolute difference of the two is `pairwise_fairness`.

    Parameters
    ----------
    y_true
        Truth (n,), or None with criterion "dp".
    y_pred
        Predictions f (n,), n >= 2.
    sensitive_features
        One column (n,) or several (n, l). Only their order matters.
    criterion
        "eo" conditions on y > y' (equal opportunity), "dp" does not (statistical parity).
    ties
        Pairs with f = f' count as ranked incorrectly ("strict") or as half ("half").
    sample_weight
        Weights (n,), >= 0. A pair counts the product of its two weights, so that their unit does
        not matter.

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
    """Truth and sensitive columns, sorted once for any number of predictions.

    Its values equal those of `pairwise_fairness` and `pairwise_rates` exactly.

    Parameters
    ----------
    y_true
        Truth (n,), or None with criterion "dp".
    sensitive_features
        One column (n,) or several (n, l). Only their order matters.
    criterion
        "eo" conditions on y > y' (equal opportunity), "dp" does not (statistical parity).
    sample_weight
        Weights (n,), >= 0. A pair counts the product of its two weights, so that their unit does
        not matter.

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
        # Rows of weight zero have no pairs.
        self._kept: slice | IntArray = (
            slice(None) if w is None or (w > 0).all() else np.flatnonzero(w)
        )
        if w is not None:
            require_two_rows(w)
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
            return _float_or_array([0.0 for _ in self._orders])
        return _float_or_array([abs(above - below) for above, below in self._rates(f, ties)])

    def rates(
        self, y_pred: ArrayLike, *, ties: Literal["strict", "half"] = "strict"
    ) -> tuple[float | Array, float | Array]:
        """Return `pairwise_rates` of a prediction."""
        f = self._checked(y_pred)
        _check_ties(ties)
        above, below = zip(*self._rates(f, ties), strict=True)
        return _float_or_array(above), _float_or_array(below)

    def _checked(self, y_pred: ArrayLike) -> Array:
        f = as_column(y_pred, "y_pred")
        require_length(f, self._rows, "y_pred")
        return np.asarray(f[self._kept])

    def _rates(self, f: Array, ties: str) -> list[tuple[float, float]]:
        """Return per column the rates of f > f' given s > s', and given s < s'."""
        ranks = dense_ranks(f)
        return [
            _rates(_counts(orders, ranks), ties, orders.y is not None) for orders in self._orders
        ]


def pairwise_gap(y: Array, f: Array, s: Array, w: Array | None = None) -> float:
    """Return the first of the two rates minus the second, 0 for a constant prediction."""
    if is_constant(f):
        return 0.0
    above, below = PairwiseRows(y, s, sample_weight=w).rates(f)
    return float(above) - float(below)


def pairwise_on_subsamples(
    y: Array,
    predictions: Sequence[Array],
    s: Array,
    subsamples: Iterable[IntArray],
    w: Array | None = None,
) -> Array:
    """Return the signed gap of the two rates on subsamples of the rows, NaN without pairs.

    The gap of a constant prediction is 0, with or without pairs.

    Parameters
    ----------
    y, predictions, s
        Truth, predictions and one sensitive column, each (n,).
    subsamples
        Positions of the rows of each subsample.
    w
        Weights (n,), above zero.

    Returns
    -------
    Array
        Gaps (predictions, subsamples). The absolute value is `pairwise_fairness`.
    """
    constant = [is_constant(f) for f in predictions]
    if len(y) < SUBSAMPLES_FROM:
        membership = _membership(len(y), list(subsamples), w)
        return np.array(
            [
                np.zeros(membership.shape[1]) if same else _gaps_by_tiles(y, f, s, membership)
                for f, same in zip(predictions, constant, strict=True)
            ]
        )
    # Rows are ranked once. Ranks among all rows order every subsample.
    everything = PairOrders(dense_ranks(y), dense_ranks(s), w)
    ranks = [dense_ranks(f) for f in predictions]
    values = []
    for rows in subsamples:
        part = everything.take(rows)
        values.append(
            [
                0.0 if same else _signed_gap(part, f[rows])
                for f, same in zip(ranks, constant, strict=True)
            ]
        )
    return np.array(values).T


@dataclass(frozen=True)
class OrderCounts:
    """Numbers of ordered pairs of rows: with s > s', and with s < s'.

    With the truth only pairs with y > y' count, without it all pairs.
    """

    pairs: _Both
    right: _Both  # of these, pairs with f > f'
    wrong: _Both  # of these, pairs with f < f'


@dataclass(frozen=True)
class PairOrders:
    """Ranks of truth and attribute, sorted once for any number of predictions.

    In a pair that is untied in y, f and s, either all three keys agree, which gives three
    agreements of two keys, or only two of them do, which gives one. With N such pairs, of which T
    agree in all three, the agreements of two keys sum to 2 T + N. Counting two keys at a time is
    therefore enough.

    Parameters
    ----------
    y
        Ranks of the truth (n,), equal for equal values, or None without the truth.
    s
        Ranks of the attribute (n,).
    w
        Weights (n,), or None. A pair counts the product of its two weights.
    """

    y: Ranks | None
    s: Ranks
    w: Array | None = None

    def take(self, rows: IntArray) -> "PairOrders":
        """Return some of the rows. They keep their ranks among all rows, so nothing is sorted."""
        y = None if self.y is None else self.y[rows]
        part = PairOrders(y, self.s[rows], None if self.w is None else self.w[rows])
        if y is not None:
            vars(part).update(_sy=self._sy[rows], _ys=self._ys[rows])
        return part

    def counts(self, f: Ranks) -> OrderCounts:
        """Return the pairs of a prediction from its ranks (n,), which may have gaps."""
        w = self.w
        total, tied_s, tied_f = _all_pairs(len(f), w), self._tied_s, _tied(*_sorted(f, w))
        same_sf, tied_sf = concordant(self.s, f, w)
        if self.y is None:
            pairs = total - tied_s
            opposed = pairs - tied_f + tied_sf - same_sf
            return self._without_rounding((pairs, pairs), (same_sf, opposed), (opposed, same_sf))
        same_ys, tied_ys = self._same_ys
        same_yf, tied_yf = concordant(self.y, f, w)
        yf_in_s, tied_in_all = _concordant_within(self.s, self._sy, f, w)
        sf_in_y, _ = _concordant_within(self.y, self._ys, f, w)
        ys_in_f = self._same_ys_within(f)
        untied_ys = total - self._tied_y - tied_s + tied_ys
        untied = untied_ys - tied_f + tied_yf + tied_sf - tied_in_all
        # Concordant pairs that are untied in all three.
        yf, ys, sf = same_yf - yf_in_s, same_ys - ys_in_f, same_sf - sf_in_y
        twice = yf + ys + sf - untied
        agree = twice // 2 if w is None else twice / 2
        return self._without_rounding(
            pairs=(same_ys, untied_ys - same_ys),
            right=(agree, yf - agree),
            wrong=(ys - agree, sf - agree),
        )

    def _without_rounding(self, pairs: _Both, right: _Both, wrong: _Both) -> OrderCounts:
        """Return the counts, with sums below the rounding error set to zero."""
        if self.w is None:
            return OrderCounts(pairs, right, wrong)
        found = [pair if pair > self._rounding else 0.0 for pair in pairs]
        (above, below), (wrong_above, wrong_below) = (
            [min(max(part, 0.0), pair) for part, pair in zip(parts, found, strict=True)]
            for parts in (right, wrong)
        )
        return OrderCounts((found[0], found[1]), (above, below), (wrong_above, wrong_below))

    @cached_property
    def _rounding(self) -> float:
        """Bound of the rounding error of a sum of products of weights."""
        assert self.w is not None
        total = float(self.w.sum(axis=0))
        exact = total < EXACT_BELOW and bool((self.w == np.rint(self.w)).all())
        return 0.0 if exact else _ROUNDING * total**2

    @cached_property
    def _tied_s(self) -> float:
        return _tied(*_sorted(self.s, self.w))

    @cached_property
    def _tied_y(self) -> float:
        return _tied(*_sorted(self._truth, self.w))

    @cached_property
    def _same_ys(self) -> tuple[float, float]:
        return concordant(self._truth, self.s, self.w)

    @cached_property
    def _sy(self) -> Ranks:
        return _pair_ranks(self.s, self._truth)

    @cached_property
    def _ys(self) -> Ranks:
        return _pair_ranks(self._truth, self.s)

    @property
    def _truth(self) -> Ranks:
        assert self.y is not None
        return self.y

    def _same_ys_within(self, f: Ranks) -> float:
        """Return the pairs tied in f that y and s order alike. Usually few rows are tied in f."""
        shared = np.bincount(f)[f] > 1
        if not shared.any():
            return 0
        y, s = (dense_ranks(key[shared]) for key in (self._truth, self.s))
        w = None if self.w is None else self.w[shared]
        return _concordant_within(f[shared], _pair_ranks(f[shared], y), s, w)[0]


def _counts(orders: PairOrders, f: Ranks) -> OrderCounts:
    """Return the counts by the faster of two methods, which agree exactly."""
    if len(f) >= SORT_FROM:
        return orders.counts(f)
    return orders_by_tiles(orders.y, orders.s, f, orders.w)


def _rates(counts: OrderCounts, ties: str, with_truth: bool) -> tuple[float, float]:
    """Return the rate of f > f' among pairs with s > s', and among pairs with s < s'."""
    if 0 in counts.pairs:
        given = "y > y', " if with_truth else ""
        raise UndefinedMeasureError(
            "sensitive_features must leave pairs to compare in both directions, got none with "
            f"{given}s > s' or none with {given}s < s'. Pairwise fairness is undefined"
        )
    above, below = (
        right / pairs if ties == "strict" else (pairs + right - wrong) / (2 * pairs)
        for pairs, right, wrong in zip(counts.pairs, counts.right, counts.wrong, strict=True)
    )
    return above, below


def _float_or_array(values: Sequence[float]) -> float | Array:
    """Return a single value as a float, several as an array (l,)."""
    return float(values[0]) if len(values) == 1 else np.array(values, dtype=np.float64)


def _check_ties(ties: str) -> None:
    if ties not in ("strict", "half"):
        raise ValueError(f"ties must be 'strict' or 'half', got {ties!r}")


def _truth(y_true: ArrayLike | None, n: int, criterion: str) -> Array | None:
    """Return the checked truth, or None if the criterion does not use it."""
    if criterion not in ("eo", "dp"):
        raise ValueError(f"criterion must be 'eo' or 'dp', got {criterion!r}")
    if y_true is None:
        if criterion == "eo":
            raise ValueError("y_true must be given for criterion='eo', got None")
        return None
    y = as_column(y_true, "y_true")
    require_length(y, n, "y_true")
    return y if criterion == "eo" else None


def _signed_gap(rows: PairOrders, f: Ranks) -> float:
    """Return the first rate minus the second, NaN without pairs to compare."""
    counts = rows.counts(f)
    if 0 in counts.pairs:
        return float("nan")
    above, below = (right / pairs for right, pairs in zip(counts.right, counts.pairs, strict=True))
    return above - below


def _membership(n: int, subsamples: Sequence[IntArray], w: Array | None) -> NDArray[Any]:
    """Return the weight of each row in each subsample, zero if absent, (n, subsamples).

    Without weights float32 is exact: no sum over a row exceeds n < 2²⁴.
    """
    kind = np.float32 if w is None else np.float64
    found = np.zeros((n, len(subsamples)), dtype=kind, order="F")
    for b, rows in enumerate(subsamples):
        found[rows, b] = 1 if w is None else w[rows]
    return found


def _gaps_by_tiles(y: Array, f: Array, s: Array, membership: NDArray[Any]) -> Array:
    """Return the signed gap of every subsample, NaN without pairs, (subsamples,).

    A subsample changes the weight of a pair, never its order. Pairs are therefore compared once
    for all subsamples, whose sums are matrix products: O(n² subsamples), tens of times faster than
    counting each subsample alone.
    """
    order = np.argsort(-y, kind="stable")
    y, f, s, W = y[order], f[order], s[order], np.asarray(membership[order])
    # Pairs, then those ranked correctly, if the row of larger truth has the larger s; then the
    # same if it has the smaller s.
    sums = np.zeros((4, W.shape[1]))
    for rows in row_blocks(len(f), max(1, PAIR_TILE_CELLS // len(f))):
        later = slice(rows.start, None)  # rows of larger truth come first
        larger = y[rows, None] > y[later]
        right = f[rows, None] > f[later]
        for i, condition in enumerate((s[rows, None] > s[later], s[rows, None] < s[later])):
            pairs = larger & condition
            for j, mask in enumerate((pairs, pairs & right)):
                found = mask.astype(W.dtype) @ W[later]
                sums[2 * i + j] += np.einsum("ib,ib->b", found, W[rows], dtype=np.float64)
    # A subsample may lack all rows of a rare s or y.
    pairs_above, pairs_below = (np.where(sums[i] > 0, sums[i], np.nan) for i in (0, 2))
    return np.asarray(sums[1] / pairs_above - sums[3] / pairs_below)


def dense_ranks(values: Array | Ranks) -> Ranks:
    """Return 0 for the smallest value, 1 for the next, and so on. Equal values share a rank."""
    ranks = np.unique(values, return_inverse=True)[1]
    return ranks.astype(np.int64, copy=False)


def orders_by_tiles(y: Ranks | None, s: Ranks, f: Ranks, w: Array | None = None) -> OrderCounts:
    """Return `PairOrders(y, s, w).counts(f)` by comparing all pairs of rows."""
    conditions = [(s,), (_reversed(s),)] if y is None else [(y, s), (y, _reversed(s))]
    pairs, right, wrong = zip(
        *(
            [count_by_tiles([*given, *order], w) for order in ((), (f,), (_reversed(f),))]
            for given in conditions
        ),
        strict=True,
    )
    return OrderCounts((pairs[0], pairs[1]), (right[0], right[1]), (wrong[0], wrong[1]))


def count_by_tiles(keys: Sequence[Ranks], w: Array | None = None) -> float:
    """Return the number of ordered pairs (i, j) with key[i] > key[j] for every key, in O(n²).

    Parameters
    ----------
    keys
        Dense ranks (n,), one vector per key.
    w
        Weights (n,). A pair counts w[i] w[j].
    """
    n = len(keys[0])
    # 32-bit integers compare several times faster.
    narrow = [key.astype(np.int32) for key in keys]
    total: float = 0
    for tile in row_blocks(n, max(1, TILE_CELLS // n)):
        above = np.greater(narrow[0][tile, None], narrow[0])
        for key in narrow[1:]:
            above &= np.greater(key[tile, None], key)
        total += int(np.count_nonzero(above)) if w is None else float(w[tile] @ (above @ w))
    return total


def _reversed(ranks: Ranks) -> Ranks:
    """Return dense ranks of the opposite order."""
    reversed_ranks: Ranks = ranks.max(axis=0) - ranks
    return reversed_ranks


def concordant(a: Ranks, b: Ranks, w: Array | None = None) -> tuple[float, float]:
    """Return the number of pairs that two keys order alike, and of pairs tied in both."""
    keys, b, w = _sorted_by_both(a, b, w)
    return ascents(b, w), _tied(keys, w)


def _concordant_within(group: Ranks, pair: Ranks, b: Ranks, w: Array | None) -> tuple[float, float]:
    """Return the pairs tied in `group` that a and b order alike, and the pairs tied in all three.

    `pair` are the dense ranks of (group, a). Rows are sorted by group while the group index in the
    counted values decreases, so that no pair from two groups ascends.
    """
    of_pair = np.empty(int(pair.max()) + 1, dtype=np.int64)
    of_pair[pair] = group.max() - group
    width = _width(b)
    keys, b, w = _sorted_by_both(pair, b, w)
    return ascents((of_pair[keys >> width] << width) | b, w), _tied(keys, w)


def _sorted_by_both(a: Ranks, b: Ranks, w: Array | None) -> tuple[Ranks, Ranks, Array | None]:
    """Sort rows by ascending a and descending b. Return both as one key, b, and the weights."""
    width, top = _width(b), b.max()
    keys = (a << width) | (top - b)
    keys, w = _sorted(keys, w)
    return keys, top - (keys & ((1 << width) - 1)), w


def _sorted(keys: Ranks, w: Array | None) -> tuple[Ranks, Array | None]:
    """Return sorted keys with the weights of their rows."""
    if w is None:
        return np.sort(keys), None
    order = np.argsort(keys)
    return keys[order], w[order]


def _pair_ranks(a: Ranks, b: Ranks) -> Ranks:
    """Return dense ranks of the pairs (a, b)."""
    return dense_ranks((a << _width(b)) | b)


def _width(key: Ranks) -> int:
    return int(key.max()).bit_length()


def _all_pairs(n: int, w: Array | None) -> float:
    """Return the number of pairs. With weights, half of w² is added per row, as in `_tied`."""
    return n * (n - 1) // 2 if w is None else float(w.sum(axis=0)) ** 2 / 2


def _tied(ordered: Ranks, w: Array | None) -> float:
    """Return the number of pairs of equal values in a sorted array."""
    edges = np.flatnonzero(np.diff(ordered)) + 1
    if w is not None:
        at_level = np.add.reduceat(w, np.append(0, edges))
        return float(at_level @ at_level) / 2
    runs = np.diff(edges, prepend=0, append=len(ordered))
    return int((runs * (runs - 1)).sum()) // 2


def ascents(values: Ranks, w: Array | None = None) -> float:
    """Return the number of pairs i < j with values[i] < values[j], each counting w[i] w[j].

    It is compiled by numba if that is installed (`fkd[fast]`) and 2^17 values were once reached
    in this process. Otherwise it uses numpy. Both are exact.

    Parameters
    ----------
    values
        Non-negative integers (n,), n < 2^31.
    w
        Weights (n,). With them it is `weighted_ascents`.
    """
    if w is not None:
        return weighted_ascents(values, w)
    if len(values) > MOST_ROWS:
        raise ValueError(f"values must be at most {MOST_ROWS}, got {len(values)}; count a sample")
    # Once compiled it is faster for any number of values.
    compile_it = len(values) >= COMPILED_FROM or _compiled.cache_info().currsize
    compiled = _compiled() if compile_it else None
    if compiled is None:
        return ascents_by_bits(values)
    return int(compiled(values.copy(), np.empty_like(values)))


def ascents_by_bits(values: Ranks) -> int:
    """Return the ascents by a radix partition, one bit of the order at a time."""
    order = _untied_order(values)
    n, total = len(order), 0
    places = np.arange(n, dtype=np.int32)
    # Invariant: numbers that agree in all higher bits are contiguous, in their original order. A
    # pair i < j of such numbers rises at this bit if i has 0 and j has 1. The order is a
    # permutation, so numbers that agree in the higher bits occupy exactly their own positions.
    for bit in reversed(range((n - 1).bit_length())):
        one = (order >> bit) & 1
        ones = np.cumsum(one, dtype=np.int32)
        start = places & -(2 << bit)
        ones_before = ones - one
        ones_before -= ones_before[start]
        zeros_before = (places - start) - ones_before
        rising = one.view(np.int32) * zeros_before
        total += int(rising.sum(dtype=np.int64))
        parted = np.empty_like(order)
        parted[np.where(one, start + (1 << bit) + ones_before, start + zeros_before)] = order
        order = parted
    return total


def weighted_ascents(values: Ranks, w: Array) -> float:
    """Return the sum of w[i] w[j] over pairs i < j with values[i] < values[j].

    It is exact for integer weights whose sum is below 2^26.

    Parameters
    ----------
    values
        Non-negative integers (n,), n < 2^31.
    w
        Weights (n,).
    """
    order = _untied_order(values)
    weights, total = w[order], 0.0
    places = np.arange(len(order))
    # As in `ascents_by_bits`, with the weights of the zeros before each one instead of their count.
    for bit in reversed(range((len(order) - 1).bit_length())):
        one = (order >> bit & 1).astype(bool)
        start = places & -(2 << bit)
        total += float(weights[one] @ _sum_before(np.where(one, 0.0, weights), start)[one])
        zeros_before = _sum_before((~one).astype(np.int64), start)
        place = np.where(one, places + (1 << bit) - zeros_before, start + zeros_before)
        order[place], weights[place] = order.copy(), weights.copy()
    return total


def _sum_before(values: AnyArray, start: Ranks) -> AnyArray:
    """Return for each position the sum of the values from its start up to it, exclusive."""
    sums = np.cumsum(values) - values
    return np.asarray(sums - sums[start])


def _untied_order(values: Ranks) -> NDArray[np.int32]:
    """Return the positions sorted by value, those of equal values in descending order.

    This permutation has as many ascents as the values: a permutation and its inverse have equally
    many, and equal values do not ascend.
    """
    n = len(values)
    last = n - 1
    width = last.bit_length()
    if width + int(values.max(initial=0)).bit_length() <= _KEY_BITS:
        # Sorting value and position as one integer is several times faster than argsort.
        keys = (values << width) | np.arange(last, -1, -1)
        keys.sort()
        return (last - (keys & ((1 << width) - 1))).astype(np.int32)
    return (last - np.argsort(values[::-1], kind="stable")).astype(np.int32)


def ascents_by_merging(values: Ranks, spare: Ranks) -> int:
    """Return the ascents by a merge sort, to be compiled by numba. Both arrays are overwritten."""
    n, total, width = len(values), 0, 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, stop = min(start + width, n), min(start + 2 * width, n)
            i, j = start, middle
            for k in range(start, stop):
                # Of two equal values the right one goes first, so that only smaller ones count.
                if i < middle and (j >= stop or values[i] < values[j]):
                    spare[k] = values[i]
                    i += 1
                else:
                    spare[k] = values[j]
                    total += i - start
                    j += 1
        values, spare = spare, values
        width *= 2
    return total


@cache
def _compiled() -> Callable[[Ranks, Ranks], int] | None:
    """Return the compiled merge sort, or None if numba is missing or does not fit numpy."""
    try:
        import numba
    except ImportError:
        return None
    compiled: Callable[[Ranks, Ranks], int]
    try:
        # Cached on disk, because compiling takes a second in every process.
        compiled = numba.njit(nogil=True, cache=True)(ascents_by_merging)
        compiled(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    except (RuntimeError, OSError):  # the cache cannot be written
        compiled = numba.njit(nogil=True)(ascents_by_merging)
    return compiled
