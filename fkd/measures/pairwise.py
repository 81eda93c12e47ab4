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
from fkd.measures.columns import is_constant, per_column, require_two
from fkd.measures.groups import UndefinedMeasureError, by_stratum

Ranks = NDArray[np.int64]

# Positions are 32-bit; a number of pairs, below 2^61, then fits 64 bits with room to spare.
MOST_ROWS = 2**31 - 1
# Of fewer rows importing and compiling takes longer than it saves.
COMPILED_FROM = 1 << 17
_KEY_BITS = 63


def ascents(values: Ranks) -> int:
    """Return the number of pairs i < j with values[i] < values[j].

    Compiled by numba where it is installed (`fkd[fast]`), from the first 2^17 values on that a
    process counts, else by numpy: both are exact, so neither can be told from the result.

    Parameters
    ----------
    values
        Non-negative integers (n,), n < 2^31.
    """
    if len(values) > MOST_ROWS:
        raise ValueError(f"values must be at most {MOST_ROWS}, got {len(values)}; count a sample")
    # Once compiled it is faster on any number of values.
    worth = len(values) >= COMPILED_FROM or _compiled.cache_info().currsize
    compiled = _compiled() if worth else None
    if compiled is None:
        return ascents_by_bits(values)
    return int(compiled(values.copy(), np.empty_like(values)))


def ascents_by_bits(values: Ranks) -> int:
    """Return the ascents by parting the sequence by one bit of its order after the other."""
    order = _untied_order(values)
    n, total = len(order), 0
    places = np.arange(n, dtype=np.int32)
    # Before the step of a bit the numbers that share all higher bits stand together, in the order
    # of the sequence: i < j rise by this bit where i has 0 and j has 1. As every number below n is
    # there once, those that share the higher bits fill the places of just these numbers.
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

    Exact where weights are whole numbers with a sum below 2^26, as all sums are then integers.

    Parameters
    ----------
    values
        Non-negative integers (n,), n < 2^31.
    w
        Weight of each (n,).
    """
    order = _untied_order(values)
    own, total = w[order], 0.0
    places = np.arange(len(order))
    # As in `ascents_by_bits`, with weights in place of numbers of zeros before each one.
    for bit in reversed(range((len(order) - 1).bit_length())):
        one = (order >> bit & 1).astype(bool)
        start = places & -(2 << bit)
        total += float(own[one] @ _before(np.where(one, 0.0, own), start)[one])
        zeros_before = _before((~one).astype(np.int64), start)
        place = np.where(one, places + (1 << bit) - zeros_before, start + zeros_before)
        order[place], own[place] = order.copy(), own.copy()
    return total


def _before(values: AnyArray, start: Ranks) -> AnyArray:
    """Return the sum of what stands before each place from its start on."""
    sums = np.cumsum(values) - values
    return np.asarray(sums - sums[start])


def _untied_order(values: Ranks) -> NDArray[np.int32]:
    """Return the positions in rising order of the values, equal ones from the last to the first.

    It has as many ascents as the values: turning a permutation around swaps i with values[i], and
    equal values, which do not rise, fall here.
    """
    n = len(values)
    last = n - 1
    width = last.bit_length()
    if width + int(values.max(initial=0)).bit_length() <= _KEY_BITS:
        # One sort of plain numbers is several times faster than one that moves positions along.
        keys = (values << width) | np.arange(last, -1, -1)
        keys.sort()
        return (last - (keys & ((1 << width) - 1))).astype(np.int32)
    return (last - np.argsort(values[::-1], kind="stable")).astype(np.int32)


def ascents_by_merging(values: Ranks, spare: Ranks) -> int:
    """Return the ascents by a merge sort, for which numba has a compiler; both arrays change."""
    n, total, width = len(values), 0, 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, stop = min(start + width, n), min(start + 2 * width, n)
            i, j = start, middle
            for k in range(start, stop):
                # Of two equal values the right one goes first: only smaller ones stand below it.
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
    """Return the merge sort as machine code, None without numba or with one for another numpy."""
    try:
        import numba
    except ImportError:
        return None
    compiled: Callable[[Ranks, Ranks], int]
    try:
        # Kept beside this file, or for this user: compiling takes a second of every process.
        compiled = numba.njit(nogil=True, cache=True)(ascents_by_merging)
        compiled(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
    except (RuntimeError, OSError):  # where nothing may be written, or there is no room
        compiled = numba.njit(nogil=True)(ascents_by_merging)
    return compiled


# Below this sum, products of whole weights add up to integers that float64 holds exactly.
EXACT_BELOW = 1 << 26
# Sums of other products are off by less than this share of all pairs: fewer cannot be told from
# none.
_ROUNDING = 1e-12


_Two = tuple[float, float]


@dataclass(frozen=True)
class OrderCounts:
    """Ordered pairs of rows (i, j), those with s > s' first, then those with s < s'.

    Without truth all pairs untied in s count, else those with y > y'.
    """

    pairs: _Two
    right: _Two  # of these: f > f'
    wrong: _Two  # of these: f < f'


@dataclass(frozen=True)
class PairOrders:
    """Ranks of truth and attribute, sorted once for any number of predictions.

    Of a pair untied in y, f and s the three orders agree thrice or once: three agreements are
    counted, N pairs, so that 2 T + N of them are found if all three agree in T pairs. Two keys at
    a time are thus enough for three.

    Parameters
    ----------
    y
        Ranks of the truth (n,), equal for equal values, or None where it plays no part.
    s
        Ranks of the attribute (n,).
    w
        How many rows each row stands for (n,), or None where each is one: a pair counts as often
        as the product of its two says.
    """

    y: Ranks | None
    s: Ranks
    w: Array | None = None

    def take(self, rows: IntArray) -> "PairOrders":
        """Return some of the rows by their ranks among all of them: nothing is sorted again."""
        y = None if self.y is None else self.y[rows]
        part = PairOrders(y, self.s[rows], None if self.w is None else self.w[rows])
        if y is not None:
            vars(part).update(_sy=self._sy[rows], _ys=self._ys[rows])
        return part

    def counts(self, f: Ranks) -> OrderCounts:
        """Return the pairs of a prediction, by its ranks (n,), which may leave numbers out."""
        w = self.w
        everything, tied_s, tied_f = _all_pairs(len(f), w), self._tied_s, _tied(*_sorted(f, w))
        same_sf, tied_sf = concordant(self.s, f, w)
        if self.y is None:
            pairs = everything - tied_s
            opposed = pairs - tied_f + tied_sf - same_sf
            return self._told((pairs, pairs), (same_sf, opposed), (opposed, same_sf))
        same_ys, tied_ys = self._same_ys
        same_yf, tied_yf = concordant(self.y, f, w)
        yf_in_s, tied_in_all = _concordant_within(self.s, self._sy, f, w)
        sf_in_y, _ = _concordant_within(self.y, self._ys, f, w)
        ys_in_f = self._same_ys_within(f)
        untied_ys = everything - self._tied_y - tied_s + tied_ys
        untied = untied_ys - tied_f + tied_yf + tied_sf - tied_in_all
        # Pairs untied in all three.
        yf, ys, sf = same_yf - yf_in_s, same_ys - ys_in_f, same_sf - sf_in_y
        twice = yf + ys + sf - untied
        agree = twice // 2 if w is None else twice / 2
        return self._told(
            pairs=(same_ys, untied_ys - same_ys),
            right=(agree, yf - agree),
            wrong=(ys - agree, sf - agree),
        )

    def _told(self, pairs: _Two, right: _Two, wrong: _Two) -> OrderCounts:
        """Return the counts, without what rounding makes of none."""
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
        """Up to which sum of products of weights there may be no pair at all."""
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
        """Pairs tied in f that y and s order alike; most predictions have few such rows."""
        shared = np.bincount(f)[f] > 1
        if not shared.any():
            return 0
        y, s = (_renumbered(key[shared]) for key in (self._truth, self.s))
        w = None if self.w is None else self.w[shared]
        return _concordant_within(f[shared], _pair_ranks(f[shared], y), s, w)[0]


def concordant(a: Ranks, b: Ranks, w: Array | None = None) -> tuple[float, float]:
    """Return how many pairs two keys order alike, and how many are tied in both."""
    keys, b, w = _sorted_falling(a, b, w)
    return _rising(b, w), _tied(keys, w)


def _concordant_within(group: Ranks, pair: Ranks, b: Ranks, w: Array | None) -> tuple[float, float]:
    """Pairs tied in `group` ordered alike by a and b, and pairs tied in all three.

    `pair` are the dense ranks of (group, a). Groups stand in rising order while their numbers in
    the values fall: no pair of two groups rises.
    """
    of_pair = np.empty(int(pair.max()) + 1, dtype=np.int64)
    of_pair[pair] = group.max() - group
    width = _width(b)
    keys, b, w = _sorted_falling(pair, b, w)
    return _rising((of_pair[keys >> width] << width) | b, w), _tied(keys, w)


def _sorted_falling(a: Ranks, b: Ranks, w: Array | None) -> tuple[Ranks, Ranks, Array | None]:
    """Return rows by rising a, among equals by falling b: both as one key, b alone, weights."""
    width, top = _width(b), b.max()
    keys = (a << width) | (top - b)
    keys, w = _sorted(keys, w)
    return keys, top - (keys & ((1 << width) - 1)), w


def _sorted(keys: Ranks, w: Array | None) -> tuple[Ranks, Array | None]:
    """Return keys in rising order with the weights of their rows."""
    if w is None:
        return np.sort(keys), None
    order = np.argsort(keys)
    return keys[order], w[order]


def _rising(values: Ranks, w: Array | None) -> float:
    """Pairs of a sequence in rising order."""
    return ascents(values) if w is None else weighted_ascents(values, w)


def _pair_ranks(a: Ranks, b: Ranks) -> Ranks:
    """Return dense ranks of the pairs (a, b)."""
    return _renumbered((a << _width(b)) | b)


def _renumbered(values: Ranks) -> Ranks:
    """Return dense ranks of integers."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64, copy=False)


def _width(key: Ranks) -> int:
    return int(key.max()).bit_length()


def _all_pairs(n: int, w: Array | None) -> float:
    """Pairs of rows; with weights, as in `_tied`, half of each row with itself too."""
    return n * (n - 1) // 2 if w is None else float(w.sum(axis=0)) ** 2 / 2


def _tied(ordered: Ranks, w: Array | None) -> float:
    """Pairs of equal numbers in sorted ones."""
    edges = np.flatnonzero(np.diff(ordered)) + 1
    if w is not None:
        there = np.add.reduceat(w, np.append(0, edges))
        return float(there @ there) / 2
    runs = np.diff(edges, prepend=0, append=len(ordered))
    return int((runs * (runs - 1)).sum()) // 2


TILE_CELLS = 1 << 18  # booleans of one tile: they stay in the cache


def dense_ranks(values: Array) -> Ranks:
    """Return 0 for the least value, 1 for the next one, equal values sharing a rank."""
    ranks = np.unique(values, return_inverse=True)[1]
    return ranks.astype(np.int64, copy=False)


def count_by_tiles(keys: Sequence[Ranks], w: Array | None = None) -> float:
    """Return the number of ordered pairs (i, j) with key[i] > key[j] for every key, in O(n²).

    Parameters
    ----------
    keys
        Dense ranks (n,), one vector per key.
    w
        How many rows each row stands for (n,): pairs count w[i] w[j] each.
    """
    n = len(keys[0])
    # Narrow integers compare several times faster, and the ranks of a tiled problem are small.
    narrow = [key.astype(np.int32) for key in keys]
    total: float = 0
    for tile in row_blocks(n, max(1, TILE_CELLS // n)):
        above = np.greater(narrow[0][tile, None], narrow[0])
        for key in narrow[1:]:
            above &= np.greater(key[tile, None], key)
        total += int(np.count_nonzero(above)) if w is None else float(w[tile] @ (above @ w))
    return total


def orders_by_tiles(y: Ranks | None, s: Ranks, f: Ranks, w: Array | None = None) -> OrderCounts:
    """Return what `PairOrders(y, s, w).counts(f)` does, by comparing each row with each."""
    conditions = [(s,), (_reversed(s),)] if y is None else [(y, s), (y, _reversed(s))]
    pairs, right, wrong = zip(
        *(
            [count_by_tiles([*given, *order], w) for order in ((), (f,), (_reversed(f),))]
            for given in conditions
        ),
        strict=True,
    )
    return OrderCounts((pairs[0], pairs[1]), (right[0], right[1]), (wrong[0], wrong[1]))


def _reversed(ranks: Ranks) -> Ranks:
    """Dense ranks of the opposite order."""
    reversed_ranks: Ranks = ranks.max(axis=0) - ranks
    return reversed_ranks


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


# Entries of a tile of pairs. Its four masks stay in a processor's outer cache.
PAIR_TILE_CELLS = 1 << 21
# From about here on, measured, counting each subsample by itself is faster than all pairs for all.
SUBSAMPLES_FROM = 1 << 13


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
    # Ranked once: only the order of a subsample matters, which is that among all rows.
    whole = PairOrders(dense_ranks(y), dense_ranks(s), w)
    ranks = [dense_ranks(f) for f in predictions]
    values = []
    for rows in subsamples:
        part = whole.take(rows)
        values.append(
            [
                0.0 if same else _signed_gap(part, f[rows])
                for f, same in zip(ranks, constant, strict=True)
            ]
        )
    return np.array(values).T


def pairwise_gap(y: Array, f: Array, s: Array, w: Array | None = None) -> float:
    """Return the first of the two rates minus the second, 0 for a constant prediction."""
    if is_constant(f):
        return 0.0
    above, below = PairwiseRows(y, s, sample_weight=w).rates(f)
    return float(above) - float(below)


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


def _signed_gap(rows: PairOrders, f: Ranks) -> float:
    """Return the first rate minus the second, NaN without pairs to compare."""
    counts = rows.counts(f)
    if 0 in counts.pairs:
        return float("nan")
    above, below = (right / pairs for right, pairs in zip(counts.right, counts.pairs, strict=True))
    return above - below
