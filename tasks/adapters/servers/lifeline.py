"""A process that does not outlive the one that started it."""

import multiprocessing
import os
import signal
import threading
import time

_POLL = 1.0
_GRACE = 10.0  # seconds to end in peace; Prefect would ask a server that is gone, too, for minutes


def end_with_parent() -> None:
    """End this process once its parent is gone, killed or not: by SIGTERM first."""
    # The parent as a process is watched: the kernel's own signal for this would already come
    # when only the parent's thread that started us ends.
    threading.Thread(target=_watch, args=(os.getppid(),), name="lifeline", daemon=True).start()


def _watch(parent: int) -> None:
    """Wait until this process has been given to another parent."""
    starter = multiprocessing.parent_process()
    if starter is not None:
        # It tells even of a parent that had gone before we asked, whose number nobody knows then.
        starter.join()
    else:
        while os.getppid() == parent:
            time.sleep(_POLL)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os.kill(os.getpid(), signal.SIGKILL)
