"""A process that does not outlive the one that started it."""

import os
import signal
import threading
import time

_POLL = 1.0


def end_with_parent() -> None:
    """End this process as by SIGTERM once its parent is gone, even if that was killed."""
    # The parent as a process is watched: the kernel's own signal for this would already come
    # when only the parent's thread that started us ends.
    threading.Thread(target=_watch, args=(os.getppid(),), name="lifeline", daemon=True).start()


def _watch(parent: int) -> None:
    """Wait until this process has been given to another parent."""
    while os.getppid() == parent:
        time.sleep(_POLL)
    os.kill(os.getpid(), signal.SIGTERM)
