"""Time of a call, as undisturbed as it gets."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.calibration import between

Clock = Callable[[], float]


def best_of(repeats: int, call: Callable[[], Any], *, clock: Clock = time.perf_counter) -> float:
    """Return the shortest of several times: what else runs only ever adds."""
    return min(_once(call, clock) for _ in range(repeats))


def best_of_each(
    repeats: int, calls: Mapping[str, Callable[[], Any]], *, clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Return the shortest time of each call, taken in turns so that all meet the same weather."""
    rounds = [{name: _once(call, clock) for name, call in calls.items()} for _ in range(repeats)]
    return {name: min(times[name] for times in rounds) for name in calls}


def _once(call: Callable[[], Any], clock: Clock) -> float:
    """Return the seconds of one call; its result is dropped."""
    between()
    start = clock()
    call()
    return clock() - start
