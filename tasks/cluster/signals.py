"""Ctrl-C for this process but not for its workers, and an end with the parent process."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

_POLL_SECONDS = 1.0
_GRACE_SECONDS = 10.0  # Prefect would ask a server that is gone for minutes


@contextmanager
def defer_interrupt() -> Iterator[None]:
    """Delay a Ctrl-C until the end of the block, which must be short."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_interrupt() -> None:
    """Ignore Ctrl-C until the process ends, so that a second one causes no traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def spare_workers() -> Iterator[None]:
    """Block Ctrl-C in threads that start within the block, and in the processes that they start.

    A terminal sends it to all processes of its group. The run ends its workers itself, and a worker
    would print a traceback.
    """
    # A tracker that is started later, in such a thread, would unblock the signal.
    resource_tracker.ensure_running()
    with defer_interrupt():
        yield


def end_with_parent() -> None:
    """End this process once its parent has ended: by SIGTERM, after some seconds by SIGKILL.

    A thread watches the parent process. The kernel's own signal (PR_SET_PDEATHSIG) would be sent
    as soon as the thread of the parent ends that started this process.
    """
    threading.Thread(
        target=_await_parent, args=(os.getppid(),), name="fkd-parent", daemon=True
    ).start()


def _await_parent(parent: int) -> None:
    starter = multiprocessing.parent_process()
    if starter is not None:
        starter.join()  # also if the parent ended before this process asked for its pid
    else:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
