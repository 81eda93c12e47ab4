"""Jobs of a sweep that workers can import: counted, late, or up to no good."""

import json
import os
import signal
import time
from pathlib import Path
from zlib import crc32

import numpy as np

from tasks.fit.job import run_job
from tasks.storage.records import TrialStore
from tasks.storage.store import open_store


def counted(job):
    """Run a job, noting each time it begins with something to compute, and each kept record.

    Every n-th of them, as `doomed.json` says, stops after its first record to be killed there.
    """
    home, store = job.inputs.settings.home, TrialStore(open_store(job.inputs.settings))
    doomed = False
    if any(key not in store for key in job.record_keys):
        doomed = _doomed(home, note(home, "begin", f"{job.split}:{job.record_keys[0]}"))
    _note_records(home, doomed)
    return run_job(job)


def doom(home, *, kills, every):
    """Let the workers that begin every n-th counted job wait for their death, so many times."""
    (home / "doomed.json").write_text(json.dumps({"kills": kills, "every": every}))


def _doomed(home, line):
    """Whether the job that wrote this line of the log is one that shall be killed."""
    told = json.loads((home / "doomed.json").read_text())
    place, rest = divmod(_lines(home, "begin").index(line) + 1, told["every"])
    return rest == 0 and place <= told["kills"]


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
    """Append one line to the log of a home and return it; lines of several processes never mix."""
    line = " ".join([*words, str(os.getpid())])
    with (Path(home) / "executions.log").open("ab") as file:
        file.write(f"{line}\n".encode())
    return line


def notes(home, kind):
    """The second and third word of the lines of one kind."""
    return [tuple(line.split()[1:]) for line in _lines(home, kind)]


def _lines(home, kind):
    """The whole lines of one kind, in order."""
    path = Path(home) / "executions.log"
    text = path.read_text() if path.exists() else ""
    return [line for line in text.split("\n")[:-1] if line.startswith(f"{kind} ")]


def _note_records(home, doomed):
    """Let this process note every record that it has written; a doomed one stops at the first."""
    write = getattr(TrialStore.write, "plain", TrialStore.write)

    def noting(self, record, y_pred=None):
        write(self, record, y_pred)
        note(home, "record", record.key)
        if doomed:
            note(home, "doomed", record.key)
            time.sleep(3600)

    noting.plain = write
    TrialStore.write = noting
