"""The caller's way to compute blocks: on a cluster, or here."""

from collections.abc import Callable, Sequence
from typing import Any

# ``run(function, jobs, keep)`` tells ``keep(job, result)`` of each, returns the jobs that failed.
RunBlocks = Callable[
    [Callable[[Any], Any], Sequence[Any], Callable[[Any, Any], None]], Sequence[Any]
]
