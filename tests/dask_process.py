"""Schedulers and workers as one starts them from a shell."""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

_PATIENCE = 180.0  # seconds; a busy machine needs many


@contextmanager
def dask_process(*words, python=(sys.executable, "-m", "dask"), cwd=None, **variables):
    """A `dask scheduler` or `dask worker` process, with more environment variables."""
    process = subprocess.Popen(
        [*python, *words, "--no-dashboard"],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(_PATIENCE)


@contextmanager
def dask_scheduler(port, *words, scheme="tcp"):
    """A scheduler that listens, with its address."""
    place = f"{scheme}://127.0.0.1:{port}"
    with dask_process("scheduler", "--host", place, *words) as process:
        deadline = time.monotonic() + _PATIENCE
        while not _listens(port):
            assert time.monotonic() < deadline, "the scheduler does not listen"
            time.sleep(0.1)
        yield process, place


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
