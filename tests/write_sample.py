"""A process that keeps writing every kind of file that a run keeps, until it is killed."""

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from pipeline_fixtures import QUICK

from configs.load import load_config
from fkd.core.moments import Moments
from tasks.data.load import read_or_prepare
from tasks.kernels.streaming import LeafSums, write_sums
from tasks.plan.trials import record_key
from tasks.select.champion import select_champion
from tasks.select.results import write_results
from tasks.select.study import open_study
from tasks.storage.settings import Settings
from tasks.storage.store import open_store
from tasks.track.compare import write_plan
from tasks.track.run_index import begin, write_status


def write_forever(home: Path) -> None:
    """Write, again and again, into a home in which the quick configuration was computed."""
    study = open_study(load_config("default", QUICK), Settings(home, None, None, None))
    steps = [_record(study), _champion(study), _table(study), _texts(study), _moments(study)]
    for i in itertools.count():
        for step in steps:
            step(i)
        if i == 0:
            sys.stdout.write("ready\n")
            sys.stdout.flush()


def _record(study):
    fold = study.inputs.splits.outer(study.loaded.table)["0"]
    record = study.store.read(record_key(study.trials[0], fold, study.inputs))
    y_pred = np.random.default_rng(0).normal(size=20_000)

    def step(i):
        study.store.write(replace(record, key=f"{i % 5:064d}"), y_pred)
        study.store.write_failure(f"{i % 5:064d}", "TimeoutError: it ran too long " * 1000)

    return step


def _champion(study):
    found = select_champion(study)
    store = open_store(study.settings)
    arrays = store.read_arrays(f"champions/{found.key}.arrays")
    return lambda i: store.write_arrays(f"champions/{i % 5}.arrays", arrays)


def _table(study):
    def step(i):
        open_store(study.settings).remove(f"prepared/{i % 5}.arrays")
        make = study.loaded.table, study.loaded.provenance
        read_or_prepare(study.settings, f"{i % 5}", lambda: make)

    return step


def _texts(study):
    status = begin(study.config.name, 100, 10)
    results = study.results()

    def step(i):
        write_status(study.settings, replace(status, failures=("a cause " * 2000,) * 5, done=i))
        write_plan(study)
        write_results(results, study.config.data, study.folder)

    return step


def _moments(study):
    sums = LeafSums((Moments.from_rows(np.ones((4, 200)), np.ones((4, 1)), np.ones(4)),))
    store = open_store(study.settings)
    return lambda i: write_sums(store, f"moments/{i % 5}.arrays", sums)


if __name__ == "__main__":
    write_forever(Path(sys.argv[1]))
