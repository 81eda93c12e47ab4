"""Jobs of a sweep that workers can import: counted, late, or up to no good."""

import json
import os
import signal
import time
from pathlib import Path
from zlib import crc32

import numpy as np

from tasks.adapters.store import TrialStore
from tasks.study.evaluate import run_job


def counted(job):
    """Run a job, noting each time it begins with something to compute, and each kept record."""
    store = TrialStore(job.inputs.settings.store)
    if any(key not in store for key in job.record_keys):
        note(job.inputs.settings.home, "begin", f"{job.split}:{job.record_keys[0]}")
    _note_records(job.inputs.settings.home)
    return run_job(job)


def shuffled(job):
    """Run a job after a while that depends on nothing but its key: the order is another one."""
    time.sleep(crc32(job.record_keys[0].encode()) % 7 / 10)
    return run_job(job)


def misbehaving(job):
    """Run a job, or do what `behaviour.json` says for its method and fold."""
    told = json.loads((job.inputs.settings.home / "behaviour.json").read_text())
    behaviour = told.get(f"{job.trials[0].method}:{job.split}")
    if behaviour == "hang":
        time.sleep(3600)
    if behaviour == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if behaviour == "eat memory":
        eaten = [np.ones(2**24) for _ in range(200)]
        time.sleep(len(eaten))
    if behaviour == "wrong input":
        raise ValueError("gamma must be above 0, got -1")
    return run_job(job)


def note(home, *words):
    """Append one line to the log of a home; lines of several processes never mix."""
    with (Path(home) / "executions.log").open("ab") as file:
        file.write((" ".join([*words, str(os.getpid())]) + "\n").encode())


def notes(home, kind):
    """The second and third word of the lines of one kind."""
    path = Path(home) / "executions.log"
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(line.split()[1:]) for line in lines if line.startswith(f"{kind} ")]


def _note_records(home):
    """Let this process note every record that it has written to the store."""
    write = TrialStore.write
    if getattr(write, "noting", False):
        return

    def noting(self, record):
        write(self, record)
        note(home, "record", record.key)

    noting.noting = True
    TrialStore.write = noting
