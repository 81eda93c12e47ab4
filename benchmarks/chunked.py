"""Whole runs of Algorithm 2 on a chunked kernel of thirty thousand rows, one with a worker killed.

`FKD_BENCH_HOME` is a folder that keeps each finished run for next time.
"""

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.calibration import between
from benchmarks.peak import peak_memory
from benchmarks.record import Goal, Record
from configs.load import load_config

MEMORY_GIB = 24.0
ROWS, ITERATIONS = 30_000, 10
# Passes after which a worker is killed: the removal is over, gradients are under way.
KILL_AFTER = 60
_TOLD = re.compile(r": (\d+) passes over chunks in")
_SIZE = re.compile(r"kernel matrix of (\d+) rows")


def run() -> Record:
    """Return seconds with peak memory of both runs, how many of their numbers differ."""
    with _home() as home:
        calm, struck = (
            whole_run(home / name, kill=name == "killed") for name in ("calm", "killed")
        )
        numbers = [_numbers(home / name) for name in ("calm", "killed")]
    settings = load_config("chunked").methods[1].settings("acs_income")
    differing = sum(one != other for one, other in zip(*numbers, strict=True))
    return Record(
        rows=[calm, struck],
        goals=[
            Goal("rows", calm["rows"], ROWS, at_least=True),
            Goal("iterations", max(p.iterations for p in settings), ITERATIONS, at_least=True),
            Goal("workers killed", struck["killed"], 1, at_least=True),
            Goal(
                "peak GiB of all processes", max(calm["peak GiB"], struck["peak GiB"]), MEMORY_GIB
            ),
            Goal("fits whose numbers a lost worker changed", differing, 0),
            Goal("fits compared", len(numbers[0]), len(settings), at_least=True),
        ],
        remarks=[
            "`fkd run chunked` from an empty home to its end: servers, table, fits, predictions, "
            "measures, MLflow, report",
            "two worker processes, one BLAS thread each; SYNTHETIC census rows",
            "memory that processes share is counted in each",
        ],
    )


def whole_run(home: Path, *, kill: bool) -> dict[str, Any]:
    """Return what a run in this home took, in which one of its workers is killed or none."""
    kept = home / "measured.json"
    if kept.is_file():
        found: dict[str, Any] = json.loads(kept.read_text())
        return found
    between()
    start, killed, rows, passes = time.perf_counter(), 0, 0, 0
    command = [str(Path(sys.executable).with_name("fkd")), "run", "chunked"]
    with (
        peak_memory() as peak,
        subprocess.Popen(
            command,
            env={**os.environ, "FKD_HOME": str(home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as running,
    ):
        for line in running.stderr or ():
            rows = max([rows, *map(int, _SIZE.findall(line))])
            passes = max([passes, *map(int, _TOLD.findall(line))])
            if kill and not killed and passes >= KILL_AFTER:
                _largest_worker(running.pid).kill()
                killed = 1
    if running.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {running.returncode}")
    seconds = time.perf_counter() - start
    found = {"rows": rows, "killed": killed, "seconds": seconds, "peak GiB": peak[0]}
    kept.write_text(json.dumps(found))
    return found


def _largest_worker(pid: int) -> psutil.Process:
    """Return the worker of a run that holds most: it has chunks to lose."""
    children = psutil.Process(pid).children(recursive=True)
    workers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    return max(workers, key=lambda worker: worker.memory_info().rss)


def _numbers(home: Path) -> list[dict[str, str]]:
    """Return the measures of every fit of a run, digit by digit."""
    with (home / "experiments" / "chunked" / "results.csv").open() as file:
        rows = [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]
    return sorted((row for row in rows if row["method"] != "dummy"), key=str)


@contextmanager
def _home() -> Iterator[Path]:
    """Yield where the runs are kept."""
    kept = os.environ.get("FKD_BENCH_HOME")
    with tempfile.TemporaryDirectory() as folder:
        yield Path(kept or folder) / "chunked"
