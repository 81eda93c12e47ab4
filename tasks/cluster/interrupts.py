"""Ctrl-C for this process alone, not for the workers that it starts."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let a Ctrl-C within wait until the end of the block, which must be bounded in time."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hear_no_more() -> None:
    """Ignore Ctrl-C from here to the end of the process.

    All is ended then; one more would only interrupt the interpreter's own end, with a traceback.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def workers_spared() -> Iterator[None]:
    """Keep Ctrl-C from threads that begin within, with all processes that they will ever start.

    A terminal sends it to every process of ours. A worker would answer by a traceback, though it is
    ended by us anyway. One that comes within waits until the end of the block.
    """
    # Started later, within such a thread, it would let the signal through to the next worker.
    resource_tracker.ensure_running()
    with undisturbed():
        yield
