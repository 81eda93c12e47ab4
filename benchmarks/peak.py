"""Peak memory of this process with all its children."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

_SECONDS = 0.2


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """Yield a list that holds the greatest sum of resident memory so far, in GiB.

    Pages that processes share count once for each, so that this is an upper bound.
    """
    peak, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(_SECONDS):
            peak[0] = max(peak[0], _resident() / 2**30)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def _resident() -> int:
    """Return the resident bytes of the process tree."""
    total, ours = 0, psutil.Process()
    for process in (ours, *ours.children(recursive=True)):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:  # it ended between the two calls
            continue
    return total
