"""The flow of a run, stage by stage in this process, without Prefect's server."""

from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows import experiment
from flows import monitor as watch

STAGES = (
    "fetch_data",
    "plan_trials",
    "build_kernels",
    "fit_trials",
    "log_to_mlflow",
    "select_champion",
    "write_report",
    "register_champion",
)


def run_stages(*configs):
    """The outcomes of configurations, through the flow's own stages as plain functions."""
    with plain_stages(experiment, STAGES):
        return [cell.end for cell in experiment.run_all(configs)]


def watch_stages(model, *data, refit=False):
    """What was found in new rows, through the stages of the watch as plain functions."""
    with plain_stages(experiment, STAGES), plain_stages(watch, ("keep",)):
        return watch.watch_all(model, data, refit=refit)


@contextmanager
def plain_stages(module, names):
    """Let a flow's stages be plain functions for a while."""
    with pytest.MonkeyPatch.context() as patched:
        for name in names:
            stage = getattr(module, name)
            patched.setattr(module, name, getattr(stage, "fn", stage))
        yield


def counted_reads(patched):
    """How often each file is read whole, from now on: every sealed file is read so."""
    found = Counter()
    real = Path.read_bytes

    def counted(path):
        found[path] += 1
        return real(path)

    patched.setattr(Path, "read_bytes", counted)
    return found
