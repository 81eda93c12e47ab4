"""Exact numbers of row pairs by the orders of three keys, in O(n log n)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fkd.core.arrays import Array, IntArray
from fkd.measures.ascents import Ranks, ascents, weighted_ascents

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
