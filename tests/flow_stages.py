"""The flow of a run, stage by stage in this process, without Prefect's server."""

from collections import Counter
from pathlib import Path

import pytest

from flows import experiment

STAGES = ("load", "fit", "record", "select", "report", "publish")


def run_stages(*configs):
    """The outcomes of configurations, through the flow's own stages as plain functions."""
    with pytest.MonkeyPatch.context() as patched:
        for name in STAGES:
            patched.setattr(experiment, name, getattr(experiment, name).fn)
        return experiment.run_all(configs)


def counted_reads(patched):
    """How often each file is read whole, from now on: every sealed file is read so."""
    found = Counter()
    real = Path.read_bytes

    def counted(path):
        found[path] += 1
        return real(path)

    patched.setattr(Path, "read_bytes", counted)
    return found
