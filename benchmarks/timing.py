"""Time of a call, as undisturbed as it gets."""

import time
from collections.abc import Callable
from typing import Any


def best_of(repeats: int, call: Callable[[], Any]) -> float:
    """Return the shortest of several wall times: what else runs only ever adds."""
    return min(_once(call) for _ in range(repeats))


def _once(call: Callable[[], Any]) -> float:
    """Return the seconds of one call; its result is dropped."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
