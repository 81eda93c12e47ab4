"""What a sweep costs beside its maths: cluster, orchestration, tracking, a second time."""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.calibration import between
from benchmarks.record import Goal, Record
from benchmarks.timing import best_of_each
from configs.load import load_config
from configs.run import ClusterConfig, RunConfig
from tasks.cluster.cluster import connect
from tasks.cluster.retries import run_jobs
from tasks.fit.job import run_job
from tasks.plan.trials import Job
from tasks.select.study import open_study
from tasks.storage.records import TrialRecord
from tasks.storage.settings import Settings, quiet_ecosystem
from tasks.track.runs import Tracking

# Minutes of maths on all workers together that the sweep shall have; fewer for a first look.
MINUTES = float(os.environ.get("BENCH_MINUTES", "10"))
WORKERS, ROUNDS = 2, 2
STAGES = ("load", "fit", "record", "select", "report", "publish")


def run() -> Record:
    """Return times of one sweep stage by stage, of its repeat, of jobs with and without Dask."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = cluster_times(Path(folder))
        sweep = sweep_times(Path(folder) / "sweep", MINUTES)
    beside = sweep["cold"] - sweep["maths"]
    return Record(
        rows=[
            *({"what": f"36 tasks, {place}", "seconds": s} for place, s in jobs.items()),
            *({"what": f"sweep: {stage}", "seconds": s} for stage, s in sweep.items()),
        ],
        goals=[
            Goal("P7: two processes / Dask", jobs["two processes"] / jobs["Dask"], 0.9, True),
            Goal("P7: beside maths / run", beside / sweep["cold"], 0.05),
            Goal("P7: cached / cold run", sweep["cached"] / sweep["cold"], 0.02),
        ],
        remarks=[
            f"36 tasks of about a second: Crimes, four widths on nine splits, {WORKERS} workers",
            f"sweep: {sweep_config(MINUTES).name}, {MINUTES:g} minutes of maths asked for",
            f"maths: the tasks' own seconds / {WORKERS} workers, plus the champion's refit",
            "cold, cached: all stages; start-up (servers, databases, workers) stands apart",
            "BENCH_MINUTES=1 python -m benchmarks sweep is a first look",
        ],
    )


def cluster_times(folder: Path) -> dict[str, float]:
    """Return the best times of the same tasks here, in two bare processes, on Dask."""
    grid = "{gamma: [0.02, 0.05, 0.1, 0.2], iterations: [0, 5, 10], C: [0.5, 1.0]}"
    config = load_config("default", [f"methods=[{{name: svr_fkd, grid: {grid}}}]"])
    fresh = fresh_jobs(config, folder)
    settings = Settings(folder / "cluster", None, None, None)
    cluster = ClusterConfig(workers=WORKERS)
    with (
        connect(cluster, settings) as client,
        ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool,
    ):

        def on_dask(jobs: Sequence[Job]) -> None:
            assert not run_jobs(client, run_job, jobs, retries=0, time_limit=3600.0)

        def in_processes(jobs: Sequence[Job]) -> None:
            list(pool.map(run_job, jobs))

        warm = fresh()[: 2 * WORKERS]
        on_dask(warm[:WORKERS])
        in_processes(warm[WORKERS:])
        return best_of_each(
            ROUNDS,
            {
                "one process": lambda: [run_job(job) for job in fresh()],
                "two processes": lambda: in_processes(fresh()),
                "Dask": lambda: on_dask(fresh()),
            },
        )


def fresh_jobs(config: RunConfig, folder: Path) -> Callable[[], list[Job]]:
    """Return what gives all jobs of a configuration, each time in an empty home of its own."""
    count = iter(range(10**6))

    def jobs() -> list[Job]:
        settings = Settings(folder / f"home{next(count)}", None, None, None)
        return open_study(config, settings).missing()

    return jobs


def sweep_config(minutes: float) -> RunConfig:
    """Return a sweep of made-up census rows with about so many minutes of maths."""
    # Four minutes of one core for each width: nine tasks of one factorisation, ten machines.
    widths = [round(0.02 + 0.01 * i, 3) for i in range(max(1, round(minutes / 2)))]
    ridge = f"{{gamma: {widths}, iterations: {[*range(0, 50, 5)]}, alpha: [0.1, 0.25, 0.5]}}"
    machine = f"{{gamma: {widths}, iterations: [0, 5, 10, 20, 30], C: [0.5, 1.0]}}"
    return load_config(
        "acs_income",
        [
            f"name=acs_income-{len(widths)}-widths",
            "data.source=synthetic",
            f"methods=[{{name: krr_fkd, grid: {ridge}}}, {{name: svr_fkd, grid: {machine}}}]",
            f"cluster.workers={WORKERS}",
            "select.subject_to={}",
        ],
    )


def sweep_times(home: Path, minutes: float) -> dict[str, float]:
    """Return the seconds of a whole run with what is maths of them, then of the same run again."""
    found = run_times(sweep_config(minutes), home)
    jobs = sum(map(float, (home / "jobs.log").read_text().split()))
    return {
        **found,
        "Prefect": found["cold"] - sum(found[name] for name in STAGES),
        "maths": jobs / WORKERS + found["select"],
    }


def run_times(config: RunConfig, home: Path) -> dict[str, float]:
    """Return the seconds of a run in a home, stage by stage, then of the same run again."""
    os.environ["FKD_HOME"] = str(home)
    for name in ("PREFECT_API_URL", "MLFLOW_TRACKING_URI"):
        os.environ.pop(name, None)
    quiet_ecosystem()
    start = time.perf_counter()
    settings = Settings(home, None, None, None)
    Tracking(settings, config.experiment)
    from tasks.servers.servers import prefect_server

    with prefect_server(settings):
        from flows.experiment import experiment

        startup = time.perf_counter() - start
        with timed_stages() as seconds:
            cold = _seconds(lambda: experiment(config))
            cluster = seconds.pop("cluster")
            stages = {name: seconds[name] for name in STAGES}
            cached = _seconds(lambda: experiment(config))
    stages["fit"] -= cluster
    return {"start-up": startup + cluster, **stages, "cold": cold - cluster, "cached": cached}


@contextmanager
def timed_stages() -> Iterator[dict[str, float]]:
    """Yield the seconds of each stage's first call, of the cluster's start among them."""
    from flows import experiment, fitting

    seconds: dict[str, float] = {}
    for name in STAGES:
        stage = getattr(experiment, name)
        stage.fn = _timed(stage.fn, name, seconds)
    real = fitting.connect

    @contextmanager
    def timed_connect(*arguments: Any) -> Iterator[Any]:
        start = time.perf_counter()
        with real(*arguments) as client:
            seconds.setdefault("cluster", time.perf_counter() - start)
            yield client

    fitting.connect, fitting.run_job = timed_connect, timed_job
    yield seconds


def _timed(function: Callable[..., Any], name: str, seconds: dict[str, float]) -> Any:
    """Return the function, its first call's seconds noted."""

    def timed(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        found = function(*arguments, **options)
        seconds.setdefault(name, time.perf_counter() - start)
        return found

    return timed


def timed_job(job: Job) -> list[TrialRecord]:
    """Run a job on a worker, appending its seconds to a log."""
    start = time.perf_counter()
    done = run_job(job)
    with (job.inputs.settings.home / "jobs.log").open("a") as log:
        log.write(json.dumps(time.perf_counter() - start) + "\n")
    return done


def _seconds(call: Callable[[], Any]) -> float:
    """Return how long a call took."""
    between()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
