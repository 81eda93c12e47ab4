"""Pairwise fairness for a continuous attribute, after Narasimhan et al. (2020), section 2.

Pairs of rows are counted exactly, by sorting: counting the pairs that two keys order alike is
counting the ascents of a permutation, O(n log n), and three keys reduce to two at a time
(`PairOrders`). Subsamples of the same rows, for intervals, are counted together by matrix products
over tiles of pairs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fkd.core.arrays import AnyArray, Array, IntArray, row_blocks
from fkd.core.validation import (
    as_column,
    as_numbers,
    as_sensitive,
    choice,
    require_length,
    weight_vector,
)
from fkd.measures.columns import drop_zero_weights, float_or_array, is_constant
from fkd.measures.groups import UndefinedMeasureError, by_stratum

Criterion = Literal["eo", "dp"]
Ties = Literal["strict", "half"]
Ranks = NDArray[np.int64]
# Measured: with more rows, counting each subsample alone is faster than comparing all pairs.
SUBSAMPLES_FROM = 1 << 13
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
    criterion: Criterion = "eo",
    ties: Ties = "strict",
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
    f = as_column(y_pred, "y_pred")
    S = as_sensitive(sensitive_features, len(f))
    if control_features is None:
        rows = PairwiseRows(y_true, S, criterion=criterion, sample_weight=sample_weight)
        return rows.fairness(f, ties=ties)
    y = _truth(y_true, len(f), criterion)
    within = partial(pairwise_fairness, criterion=criterion, ties=ties)
    return by_stratum(
        within, y, f, S, control_features=control_features, sample_weight=sample_weight
    ).mean


def pairwise_rates(
    y_true: ArrayLike | None,
    y_pred: ArrayLike,
    sensitive_features: ArrayLike,
    *,
    criterion: Criterion = "eo",
    ties: Ties = "strict",
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
    f = as_column(y_pred, "y_pred")
    S = as_sensitive(sensitive_features, len(f))
    rows = PairwiseRows(y_true, S, criterion=criterion, sample_weight=sample_weight)
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
        criterion: Criterion = "eo",
        sample_weight: ArrayLike | None = None,
    ) -> None:
        numbers = as_numbers(sensitive_features, "sensitive_features")
        S = as_sensitive(numbers, len(numbers) if numbers.ndim else 0)
        y = _truth(y_true, len(S), criterion)
        self._rows = len(S)
        w = weight_vector(sample_weight, len(S))
        # Rows of weight zero have no pairs.
        self._kept: slice | IntArray = slice(None) if w is None or w.all() else np.flatnonzero(w)
        w, (y, S) = drop_zero_weights(w, y, S)
        y_ranks = None if y is None else dense_ranks(y)
        self._orders = [PairOrders(y_ranks, dense_ranks(s), w) for s in S.T]

    def fairness(self, y_pred: ArrayLike, *, ties: Ties = "strict") -> float | Array:
        """Return `pairwise_fairness` of a prediction."""
        f = self._checked(y_pred, ties)
        if is_constant(f):
            return float_or_array([0.0 for _ in self._orders])
        above, below = self._rates(f, ties)
        return float_or_array(np.abs(np.subtract(above, below)))

    def rates(
        self, y_pred: ArrayLike, *, ties: Ties = "strict"
    ) -> tuple[float | Array, float | Array]:
        """Return `pairwise_rates` of a prediction."""
        above, below = self._rates(self._checked(y_pred, ties), ties)
        return float_or_array(above), float_or_array(below)

    def _checked(self, y_pred: ArrayLike, ties: str) -> Array:
        """Return the prediction on the rows that count."""
        choice("ties", ties, ("strict", "half"))
        f = as_column(y_pred, "y_pred")
        require_length(f, self._rows, "y_pred")
        return np.asarray(f[self._kept])

    def _rates(self, f: Array, ties: str) -> tuple[Array, Array]:
        """Return both rates, each (l,)."""
        ranks = dense_ranks(f)
        above, below = np.array([orders.rates(ranks, ties) for orders in self._orders]).T
        if np.isnan([above, below]).any():
            given = "" if self._orders[0].y is None else "y > y', "
            raise UndefinedMeasureError(
                "sensitive_features must leave pairs to compare in both directions, got none with "
                f"{given}s > s' or none with {given}s < s'. Pairwise fairness is undefined"
            )
        return above, below


def _truth(y_true: ArrayLike | None, n: int, criterion: str) -> Array | None:
    """Return the checked truth, or None if the criterion does not use it."""
    choice("criterion", criterion, ("eo", "dp"))
    if y_true is None:
        if criterion == "eo":
            raise ValueError("y_true must be given for criterion='eo', got None")
        return None
    y = as_column(y_true, "y_true")
    require_length(y, n, "y_true")
    return y if criterion == "eo" else None


def pairwise_on_subsamples(
    y: Array,
    predictions: Sequence[Array],
    s: Array,
    subsamples: Iterable[IntArray | slice],
    w: Array | None = None,
) -> Array:
    """Return the signed gap of the two rates on subsamples of the rows, NaN without pairs.

    The gap of a constant prediction is 0, with or without pairs.

    Parameters
    ----------
    y, predictions, s
        Truth, predictions and one sensitive column, each (n,).
    subsamples
        Positions of the rows of each subsample, or a slice.
    w
        Weights (n,), above zero.

    Returns
    -------
    Array
        Gaps (predictions, subsamples). The absolute value is `pairwise_fairness`.
    """
    if len(y) < SUBSAMPLES_FROM:
        return _gaps_by_tiles(y, predictions, s, list(subsamples), w)
    # Rows are ranked once. Ranks among all rows order every subsample.
    everything = PairOrders(dense_ranks(y), dense_ranks(s), w)
    ranks = [None if is_constant(f) else dense_ranks(f) for f in predictions]
    gaps = []
    for rows in subsamples:
        part = everything.take(rows)
        rates = [(0.0, 0.0) if f is None else part.rates(f[rows]) for f in ranks]
        gaps.append([above - below for above, below in rates])
    return np.array(gaps).T


def _gaps_by_tiles(
    y: Array,
    predictions: Sequence[Array],
    s: Array,
    subsamples: Sequence[IntArray | slice],
    w: Array | None,
) -> Array:
    """Return the signed gaps (predictions, subsamples) by comparing all pairs of rows.

    A subsample changes the weight of a pair, never its order. Pairs are therefore compared once
    for all subsamples, whose sums are matrix products: O(n² subsamples), tens of times faster than
    counting each subsample alone.
    """
    n, order = len(y), np.argsort(-y, kind="stable")
    # The weight of each row in each subsample. Without weights float32 is exact: n < 2²⁴.
    W = np.zeros((n, len(subsamples)), dtype=np.float32 if w is None else np.float64, order="F")
    for b, rows in enumerate(subsamples):
        W[rows, b] = 1 if w is None else w[rows]
    y, s, W = y[order], s[order], W[order]
    gaps = np.zeros((len(predictions), len(subsamples)))
    for k, f in enumerate(predictions):
        if is_constant(f):
            continue
        f = f[order]
        # Pairs, then those ranked correctly, if the row of larger truth has the larger s; then the
        # same if it has the smaller s.
        sums = np.zeros((4, W.shape[1]))
        for tile in row_blocks(n, max(1, PAIR_TILE_CELLS // n)):
            later = slice(tile.start, None)  # rows of larger truth come first
            larger = y[tile, None] > y[later]
            right = f[tile, None] > f[later]
            for i, condition in enumerate((s[tile, None] > s[later], s[tile, None] < s[later])):
                pairs = larger & condition
                for j, mask in enumerate((pairs, pairs & right)):
                    found = mask.astype(W.dtype) @ W[later]
                    sums[2 * i + j] += np.einsum("ib,ib->b", found, W[tile], dtype=np.float64)
        # A subsample may lack all rows of a rare s or y.
        above, below = (np.where(sums[i] > 0, sums[i], np.nan) for i in (0, 2))
        gaps[k] = sums[1] / above - sums[3] / below
    return gaps


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

    def take(self, rows: IntArray | slice) -> "PairOrders":
        """Return some of the rows. They keep their ranks among all rows, so nothing is sorted."""
        y = None if self.y is None else self.y[rows]
        part = PairOrders(y, self.s[rows], None if self.w is None else self.w[rows])
        if y is not None:
            vars(part)["_joint_ranks"] = [ranks[rows] for ranks in self._joint_ranks]
        return part

    def rates(self, f: Ranks, ties: str = "strict") -> tuple[float, float]:
        """Return the rate of f > f' among pairs with s > s', and among those with s < s'.

        With the truth only pairs with y > y' count. A rate without pairs is NaN.

        Parameters
        ----------
        f
            Ranks of the prediction (n,), which may have gaps.
        ties
            "half" counts pairs with f = f' as half.
        """
        found = []
        for pairs, right, wrong in self._counts(f):
            if pairs <= self._rounding:
                found.append(float("nan"))
                continue
            # Rounding of fractional weights may move them out of this range.
            right, wrong = (min(max(part, 0), pairs) for part in (right, wrong))
            found.append(
                right / pairs if ties == "strict" else (pairs + right - wrong) / (2 * pairs)
            )
        return found[0], found[1]

    def _counts(self, f: Ranks) -> list[tuple[float, float, float]]:
        """Return all pairs, those with f > f' and those with f < f', for s > s' and for s < s'."""
        w, (above, below) = self.w, self._pairs
        tied_f = _tied(*_sorted(f, w))
        same_sf, tied_sf = _concordant(self.s, f, w)
        if self.y is None:
            opposed = above - tied_f + tied_sf - same_sf
            return [(above, same_sf, opposed), (below, opposed, same_sf)]
        sy, ys = self._joint_ranks
        same_yf, tied_yf = _concordant(self.y, f, w)
        yf_in_s, tied_in_all = _concordant_within(self.s, sy, f, w)
        sf_in_y, _ = _concordant_within(self.y, ys, f, w)
        untied = above + below - tied_f + tied_yf + tied_sf - tied_in_all
        # Concordant pairs that are untied in all three.
        same = above - _same_within(f, self.y, self.s, w), same_yf - yf_in_s, same_sf - sf_in_y
        twice = sum(same) - untied
        agree = twice // 2 if w is None else twice / 2
        ys_only, yf_only, sf_only = (pairs - agree for pairs in same)
        return [(above, agree, ys_only), (below, yf_only, sf_only)]

    @cached_property
    def _rounding(self) -> float:
        """Bound of the rounding error of a number of pairs."""
        if self.w is None:
            return 0.0
        total = float(self.w.sum(axis=0))
        exact = total < EXACT_BELOW and bool((self.w == np.rint(self.w)).all())
        return 0.0 if exact else _ROUNDING * total**2

    @cached_property
    def _pairs(self) -> tuple[float, float]:
        """Numbers of pairs with s > s' and with s < s', given y > y' if there is a truth."""
        total, tied_s = _all_pairs(len(self.s), self.w), _tied(*_sorted(self.s, self.w))
        if self.y is None:
            return total - tied_s, total - tied_s
        same, tied_in_both = _concordant(self.y, self.s, self.w)
        untied = total - _tied(*_sorted(self.y, self.w)) - tied_s + tied_in_both
        return same, untied - same

    @cached_property
    def _joint_ranks(self) -> list[Ranks]:
        """Ranks of (s, y) and of (y, s)."""
        assert self.y is not None
        return [_pair_ranks(self.s, self.y), _pair_ranks(self.y, self.s)]


def dense_ranks(values: Array | Ranks) -> Ranks:
    """Return 0 for the smallest value, 1 for the next, and so on. Equal values share a rank."""
    ranks = np.unique(values, return_inverse=True)[1]
    return ranks.astype(np.int64, copy=False)


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


def _concordant(a: Ranks, b: Ranks, w: Array | None) -> tuple[float, float]:
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


def _same_within(group: Ranks, a: Ranks, b: Ranks, w: Array | None) -> float:
    """Return the pairs tied in `group` that a and b order alike, for groups of few rows."""
    shared = np.bincount(group)[group] > 1
    if not shared.any():
        return 0
    group, a, b = group[shared], dense_ranks(a[shared]), dense_ranks(b[shared])
    w = None if w is None else w[shared]
    return _concordant_within(group, _pair_ranks(group, a), b, w)[0]


def _sorted_by_both(a: Ranks, b: Ranks, w: Array | None) -> tuple[Ranks, Ranks, Array | None]:
    """Sort rows by ascending a and descending b. Return both as one key, b, and the weights."""
    width, top = _width(b), b.max()
    keys, w = _sorted((a << width) | (top - b), w)
    return keys, top - (keys & ((1 << width) - 1)), w


def _sorted(keys: Ranks, w: Array | None) -> tuple[Ranks, Array | None]:
    """Return sorted keys with the weights of their rows."""
    if w is None:
        return np.sort(keys), None
    order = np.argsort(keys)
    return keys[order], w[order]


def ascents(values: Ranks, w: Array | None = None) -> float:
    """Return the number of pairs i < j with values[i] < values[j], each counting w[i] w[j].

    Without weights it is compiled by numba if that is installed (`fkd[fast]`) and 2^17 values were
    once reached in this process. It is exact without weights, and for integer weights whose sum is
    below 2^26.

    Parameters
    ----------
    values
        Non-negative integers (n,), n < 2^31.
    w
        Weights (n,).
    """
    if len(values) > MOST_ROWS:
        raise ValueError(f"values must be at most {MOST_ROWS}, got {len(values)}; count a sample")
    # Once compiled it is faster for any number of values.
    if w is None and (len(values) >= COMPILED_FROM or _compiled.cache_info().currsize):
        compiled = _compiled()
        if compiled is not None:
            return int(compiled(values.copy(), np.empty_like(values)))
    return ascents_by_bits(values, w)


def ascents_by_bits(values: Ranks, w: Array | None = None) -> float:
    """Return the ascents by a radix partition, one bit of the order at a time."""
    order = _untied_order(values)
    weights, total = None if w is None else w[order], 0.0 if w is not None else 0
    places = np.arange(len(order), dtype=np.int32)
    # Invariant: numbers that agree in all higher bits are contiguous, in their original order. A
    # pair i < j of such numbers rises at this bit if i has 0 and j has 1. The order is a
    # permutation, so numbers that agree in the higher bits occupy exactly their own positions.
    for bit in reversed(range((len(order) - 1).bit_length())):
        one = (order >> bit) & 1
        start = places & -(2 << bit)
        zeros_before = _sum_before(1 - one, start)
        place = np.where(one, places + (1 << bit) - zeros_before, start + zeros_before)
        if weights is None:
            total += int((one * zeros_before).sum(dtype=np.int64))
        else:
            rising = one.astype(bool)
            total += float(
                weights[rising] @ _sum_before(np.where(one, 0.0, weights), start)[rising]
            )
            weights[place] = weights.copy()
        order[place] = order.copy()
    return total


def _sum_before(values: AnyArray, start: NDArray[np.int32]) -> AnyArray:
    """Return for each position the sum of the values from its start up to it, exclusive."""
    sums = np.cumsum(values, dtype=values.dtype)
    sums -= values
    sums -= sums[start]
    return sums


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
