"""Number of pairs in rising order within a sequence of integers, exact, in O(n log n)."""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import AnyArray, Array

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
