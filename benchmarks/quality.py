"""Landmarks under a shared map against the exact path, in nine states at the paper's strengths.

Census files are fetched, or taken from `FKD_DATA_MIRROR`; `FKD_BENCH_STATES=MT` takes fewer,
`FKD_BENCH_LANDMARKS=2000` too; `FKD_BENCH_HOME` is a folder that keeps fits, so that one which was
stopped goes on.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import Goal, Record
from configs.load import load_config
from tasks.fit.job import run_job
from tasks.select.results import TrialResult
from tasks.select.study import Study, open_study
from tasks.storage.settings import Settings

STATES = os.environ.get("FKD_BENCH_STATES", "MT DE ID NE NH NM ND SD WV").split()
LANDMARKS = int(os.environ.get("FKD_BENCH_LANDMARKS", 4000))
RESERVE = 0.4  # so that most states have as many rows to choose landmarks from
MEASURES = ("mae", "hgr", "gdp", "pf")


def run() -> Record:
    """Return the greatest difference of each measure, in deviations over the exact path's folds."""
    mirror = os.environ.get("FKD_DATA_MIRROR")
    with tempfile.TemporaryDirectory() as folder:
        kept = os.environ.get("FKD_BENCH_HOME")
        settings = Settings(Path(kept or folder), mirror, None, None)
        rows = [row for state in STATES for row in _compared(settings, state)]
    worst = max(row[measure] for row in rows for measure in MEASURES)
    return Record(
        timed=False,
        rows=rows,
        goals=[Goal("greatest difference in deviations over folds", worst, 1.0)],
        remarks=[
            f"KRR-FKD on ACSIncome, ridge 0.1, alpha 0.25; {LANDMARKS} landmarks, one map; in a "
            f"small state all of its reserved rows ({RESERVE:.0%})",
            "|mean over five folds - the exact one's| / deviation of the exact one over its folds",
            "the same folds with the same rows reserved on either side",
        ],
    )


def _compared(settings: Settings, state: str) -> list[dict[str, Any]]:
    """Return the differences in one state, a row per strength."""
    study = _study(settings, state, None)
    table = study.loaded.table
    landmarks = min(LANDMARKS, len(study.inputs.splits.reserved(table)))
    exact, reduced = _results(study), _results(_study(settings, state, landmarks))
    return [
        {
            "state": state,
            "rows": table.n,
            "landmarks": landmarks,
            "iterations": int(a.trial.strength),
            **{measure: _distance(a, b, measure) for measure in MEASURES},
        }
        for a, b in zip(exact, reduced, strict=True)
    ]


def _study(settings: Settings, state: str, landmarks: int | None) -> Study:
    """Return the study of a state by so many landmarks, by the exact path without."""
    reduced = {"kind": "nystroem", "landmarks": landmarks, "shared": True}
    entry = {"name": "krr_fkd", "approximation": reduced if landmarks else {"kind": "exact"}}
    overrides = [
        f"data.states=[{state}]",
        "select=null",
        f"folds.reserve={RESERVE}",
        f"methods={json.dumps([entry])}",
    ]
    return open_study(load_config("acs_income", overrides), settings)


def _results(study: Study) -> list[TrialResult]:
    """Return the trials of a study, computed here."""
    for job in study.missing():
        run_job(job)
    return study.results()


def _distance(a: TrialResult, b: TrialResult, measure: str) -> float:
    """Return how far two means lie apart, in deviations over the first one's folds."""
    column = "AGEP"
    spread = float(np.std(a.values(measure, column), ddof=1))
    return abs(a.mean(measure, column) - b.mean(measure, column)) / spread
