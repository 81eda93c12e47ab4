"""A job that workers can import: it behaves as it is told."""

import errno
import os
import signal
import time
from pathlib import Path

import numpy as np

from configs.errors import UserError
from tasks.storage.backends import StoreUnreachableError


def touch(job):
    """A job: leave a mark of each execution, then behave as it says."""
    folder, name, behaviour = job
    with (Path(folder) / name).open("a") as file:
        file.write("x")
    tries = len((Path(folder) / name).read_text())
    if behaviour == "die once" and tries == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "always die":
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "hang":
        time.sleep(3600)
    if behaviour == "dawdle":
        time.sleep(5)
    if behaviour == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if behaviour == "wrong input":
        raise ValueError("gamma must be above 0, got -1")
    if behaviour == "passing fault" and tries == 1:
        raise ConnectionResetError("the disk blinked")
    if behaviour == "no file":
        (Path(folder) / "not there").read_text()
    if behaviour == "full disk":
        raise OSError(errno.ENOSPC, "No space left on device")
    if behaviour == "no store":
        raise StoreUnreachableError("the store s3://nowhere does not answer as it should.")
    if behaviour == "another version":
        raise UserError("A worker must compute by the versions of the run that asks it.")
    if behaviour == "eat memory":
        eaten = [np.ones(2**24) for _ in range(100)]
        time.sleep(len(eaten))
    return 1


def allocator():
    """Return what this process's memory allocator was told."""
    return {name: value for name, value in os.environ.items() if name.startswith("MALLOC_")}
