"""Exact numbers of row pairs by the orders of three keys, in O(n log n)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fkd.measures.ascents import Ranks, ascents


@dataclass(frozen=True)
class OrderCounts:
    """Ordered pairs of rows (i, j), those with s > s' first, then those with s < s'.

    Without truth all pairs untied in s count, else those with y > y'.
    """

    pairs: tuple[int, int]
    right: tuple[int, int]  # of these: f > f'
    wrong: tuple[int, int]  # of these: f < f'


@dataclass(frozen=True)
class PairOrders:
    """Dense ranks of truth and attribute, sorted once for any number of predictions.

    Of a pair untied in y, f and s the three orders agree thrice or once: three agreements are
    counted, N pairs, so that 2 T + N of them are found if all three agree in T pairs. Two keys at
    a time are thus enough for three.

    Parameters
    ----------
    y
        Dense ranks of the truth (n,), or None where it plays no part.
    s
        Dense ranks of the attribute (n,).
    """

    y: Ranks | None
    s: Ranks

    def counts(self, f: Ranks) -> OrderCounts:
        """Return the pairs of a prediction, by its dense ranks (n,)."""
        everything, tied_s, tied_f = _all_pairs(len(f)), self._tied_s, _tied(np.sort(f))
        same_sf, tied_sf = concordant(self.s, f)
        if self.y is None:
            pairs = everything - tied_s
            opposed = pairs - tied_f + tied_sf - same_sf
            return OrderCounts((pairs, pairs), (same_sf, opposed), (opposed, same_sf))
        same_ys, tied_ys = self._same_ys
        same_yf, tied_yf = concordant(self.y, f)
        yf_in_s, tied_in_all = _concordant_within(self.s, self._sy, f)
        sf_in_y, _ = _concordant_within(self.y, self._ys, f)
        ys_in_f = self._same_ys_within(f)
        untied_ys = everything - self._tied_y - tied_s + tied_ys
        untied = untied_ys - tied_f + tied_yf + tied_sf - tied_in_all
        # Pairs untied in all three.
        yf, ys, sf = same_yf - yf_in_s, same_ys - ys_in_f, same_sf - sf_in_y
        agree = (yf + ys + sf - untied) // 2
        return OrderCounts(
            pairs=(same_ys, untied_ys - same_ys),
            right=(agree, yf - agree),
            wrong=(ys - agree, sf - agree),
        )

    @cached_property
    def _tied_s(self) -> int:
        return _tied(np.sort(self.s))

    @cached_property
    def _tied_y(self) -> int:
        return _tied(np.sort(self._truth))

    @cached_property
    def _same_ys(self) -> tuple[int, int]:
        return concordant(self._truth, self.s)

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

    def _same_ys_within(self, f: Ranks) -> int:
        """Pairs tied in f that y and s order alike; most predictions have few such rows."""
        shared = np.bincount(f)[f] > 1
        if not shared.any():
            return 0
        y, s = (_renumbered(key[shared]) for key in (self._truth, self.s))
        return _concordant_within(f[shared], _pair_ranks(f[shared], y), s)[0]


def concordant(a: Ranks, b: Ranks) -> tuple[int, int]:
    """Return how many pairs two keys order alike, and how many are tied in both."""
    keys, b = _sorted_falling(a, b)
    return ascents(b), _tied(keys)


def _concordant_within(group: Ranks, pair: Ranks, b: Ranks) -> tuple[int, int]:
    """Pairs tied in `group` ordered alike by a and b, and pairs tied in all three.

    `pair` are the dense ranks of (group, a). Groups stand in rising order while their numbers in
    the values fall: no pair of two groups rises.
    """
    of_pair = np.empty(int(pair.max()) + 1, dtype=np.int64)
    of_pair[pair] = group.max() - group
    width = _width(b)
    keys, b = _sorted_falling(pair, b)
    return ascents((of_pair[keys >> width] << width) | b), _tied(keys)


def _sorted_falling(a: Ranks, b: Ranks) -> tuple[Ranks, Ranks]:
    """Return rows by rising a, among equals by falling b: both as one sorted key, and b alone."""
    width, top = _width(b), b.max()
    keys = (a << width) | (top - b)
    keys.sort()
    return keys, top - (keys & ((1 << width) - 1))


def _pair_ranks(a: Ranks, b: Ranks) -> Ranks:
    """Return dense ranks of the pairs (a, b)."""
    return _renumbered((a << _width(b)) | b)


def _renumbered(values: Ranks) -> Ranks:
    """Return dense ranks of integers."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64, copy=False)


def _width(key: Ranks) -> int:
    return int(key.max()).bit_length()


def _all_pairs(n: int) -> int:
    return n * (n - 1) // 2


def _tied(ordered: Ranks) -> int:
    """Pairs of equal numbers in sorted ones."""
    edges = np.flatnonzero(np.diff(ordered)) + 1
    runs = np.diff(edges, prepend=0, append=len(ordered))
    return int((runs * (runs - 1)).sum()) // 2
