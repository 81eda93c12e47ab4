"""Writers that are killed at any moment: every readable file is complete."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from soak_figures import keep
from stored_files import stored

from fkd.problems.bundle import Bundle
from tasks.data.load import read_prepared
from tasks.kernels.streaming import read_sums
from tasks.storage.store import open_store
from tasks.track.compare import read_plan
from tasks.track.run_index import read_status

TESTS = Path(__file__).parents[1]


def _kill_a_writer(home, seconds):
    """Let a process write all kinds of files, then kill it after so many seconds of it."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    writer = subprocess.Popen(
        [sys.executable, str(TESTS / "write_sample.py"), str(home)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with writer:
        assert writer.stdout.readline() == "ready\n"
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)


def _check_all_whole(study):
    """How many files were read whole."""
    settings, store = study.settings, study.store
    kinds = ("*.arrays", "*.record", "*.failed")
    sealed = [path for kind in kinds for path in stored(settings).rglob(kind)]
    shared = open_store(settings)
    assert all(shared.read(path.relative_to(stored(settings)).as_posix()) for path in sealed)
    keys = [path.stem for path in stored(settings).glob("??/*.record")]
    assert len(keys) > 5
    assert all(store.read(key) is not None for key in keys)
    # Predictions come first: whoever sees a record sees them too.
    assert all(store.predictions(key) is not None for key in keys)
    champions = list((stored(settings, "champions")).glob("*.arrays"))
    assert champions
    assert all(Bundle.from_arrays(shared.read_arrays(f"champions/{p.name}")) for p in champions)
    tables = list(stored(settings, "prepared").glob("*.arrays"))
    assert len(tables) >= 2
    assert all(read_prepared(settings, path.stem) is not None for path in tables)
    moments = list(stored(settings, "moments").glob("*.arrays"))
    assert moments
    assert all(read_sums(shared, f"moments/{path.name}") is not None for path in moments)
    assert json.loads((study.folder / "status.json").read_text())["total"] == 100
    assert read_status(settings, study.config.name) is not None
    assert read_plan(study) is not None
    assert len(pd.read_csv(study.folder / "results.csv")) == 9
    return len(sealed) + len(tables) + len(moments) + 3


def test_a_kill_during_writes_leaves_no_readable_partial_file(quick_study):
    _kill_a_writer(quick_study.settings.home, seconds=0.5)
    _check_all_whole(quick_study)


@pytest.mark.slow
@pytest.mark.parametrize("kill", range(25))
def test_many_kills_during_writes_leave_no_readable_partial_file(quick_study, kill):
    home = quick_study.settings.home
    _kill_a_writer(home, seconds=random.Random(kill).uniform(0, 1))
    # What a write that was cut short leaves is of no name that anybody reads.
    cut_short = len(list(home.rglob(".*.part")))
    whole = _check_all_whole(quick_study)
    keep("F3", f"writer killed, {kill + 1:02}", files_read_whole=whole, writes_cut_short=cut_short)
