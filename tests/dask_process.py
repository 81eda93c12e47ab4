"""Schedulers and workers as one starts them from a shell."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from configs.run import ClusterConfig

# Workers that are threads of the test's process start without a delay.
THREADS = {
    "cluster_class": "distributed.LocalCluster",
    "cluster_kwargs": {"processes": False},
    "workers": 1,
}

_PATIENCE = 180.0  # seconds; a busy machine needs many


def in_threads(workers=1, memory_limit="auto", **options):
    """The configuration of a cluster of threads."""
    kwargs = {**THREADS["cluster_kwargs"], "memory_limit": memory_limit}
    return ClusterConfig(**{**THREADS, "cluster_kwargs": kwargs, "workers": workers, **options})


def threads(workers, **options):
    """A cluster of threads as an override of a configuration."""
    return f"cluster={json.dumps({**THREADS, 'workers': workers, **options})}"


@contextmanager
def dask_process(*words, python=(sys.executable, "-m", "dask"), cwd=None, **variables):
    """A `dask scheduler` or `dask worker` process, with more environment variables."""
    if words[0] == "worker" and "--nthreads" not in words:
        words = (*words, "--nthreads", "1")
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
