"""A cluster whose scheduler lives in this process; its workers are processes, threads or jobs."""

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from distributed import LocalCluster, Security

from configs.errors import UserError
from configs.schema import ClusterConfig
from tasks.adapters.clusters.queue_claims import claimed_name
from tasks.adapters.clusters.slurm_jobs import refused, slurm_cluster
from tasks.adapters.interrupts import undisturbed, workers_spared

# Above critical: a connection that closes on Ctrl-C is logged as such, with its traceback.
SILENT = logging.CRITICAL + 1
_START_SECONDS = 300.0
_CLOSE_SECONDS = 30
_PAGE = "127.0.0.1:0"  # for this machine only: it is not encrypted


@contextmanager
def own_cluster(
    config: ClusterConfig,
    home: Path,
    defaults: Mapping[str, Any],
    certificates: Mapping[str, str] | None,
) -> Iterator[Any]:
    """Yield a cluster with its workers on their way; it ends afterwards.

    Parameters
    ----------
    config
        Which workers are wanted.
    home
        FKD_HOME.
    defaults
        Settings of Dask, for workers that do not share our process.
    certificates
        By which its processes know each other, None for those that talk in plain.
    """
    with claimed_name(home) if config.kind == "slurm" else nullcontext("") as name:
        with workers_spared():
            cluster = _scheduler(config, home, defaults, certificates, name)
        try:
            _man(cluster, config)
            yield cluster
        except BaseException:
            with undisturbed():
                cluster.sync(_end_jobs, cluster, callback_timeout=_CLOSE_SECONDS)
            raise
        finally:
            # Dask asserts on the way that a worker whose start has failed had begun to close.
            with undisturbed(), suppress(AssertionError, TimeoutError):
                cluster.close(timeout=_CLOSE_SECONDS)


def security(certificates: Mapping[str, str] | None) -> Security:
    """Return how the processes of a cluster know each other: by certificates only, or not."""
    return Security(require_encryption=bool(certificates), **(certificates or {}))


def _scheduler(
    config: ClusterConfig,
    home: Path,
    defaults: Mapping[str, Any],
    certificates: Mapping[str, str] | None,
    name: str,
) -> Any:
    """Return a cluster without workers; jobs of a queue will have the name.

    They are started later, where Ctrl-C finds a cluster that can be closed.
    """
    if config.kind == "slurm":
        return slurm_cluster(
            config,
            home,
            {key: value for key, value in defaults.items() if key != "temporary-directory"},
            certificates,
            job_name=name,
            security=security(certificates) if certificates else None,
            scheduler_options={"dashboard_address": _PAGE},
            silence_logs=SILENT,
        )
    threads = config.kind == "threads"
    return LocalCluster(
        n_workers=0,
        threads_per_worker=_count(config) if threads else 1,
        processes=not threads,
        memory_limit=config.memory_limit,
        host=None if threads else "127.0.0.1",
        security=security(certificates),
        dashboard_address=_PAGE,
        silence_logs=SILENT,
    )


def _count(config: ClusterConfig) -> int:
    """Return how many workers, or threads, a cluster begins with."""
    return config.adapt.minimum if config.adapt else config.most_workers or os.cpu_count() or 1


def _man(cluster: Any, config: ClusterConfig) -> None:
    """Start the workers of a cluster, or say why there are none."""
    count = 1 if config.kind == "threads" else _count(config)
    while len(cluster.worker_spec) < count:
        cluster.worker_spec.update(cluster.new_worker_spec())
    try:
        cluster.sync(_started, cluster, callback_timeout=_START_SECONDS)
    except (RuntimeError, OSError) as error:
        if config.kind == "slurm":
            raise refused(error) from error
        raise UserError(
            f"The {count} worker processes of the local cluster cannot start ({_root(error)}); "
            "they need memory (`ulimit -v`), processes (`ulimit -u`) and a writable /dev/shm. "
            "Fewer by --set cluster.workers=1, or none: --set cluster.kind=threads."
        ) from error
    if config.adapt is not None:
        cluster.adapt(minimum=config.adapt.minimum, maximum=config.adapt.maximum)


async def _started(cluster: Any) -> None:
    """Return once every worker of a cluster has come up, or its job is in the queue."""
    await cluster


async def _end_jobs(cluster: Any) -> None:
    """End workers in the middle of their jobs: what is computed is kept, the rest not wanted."""
    nannies = [worker for worker in cluster.workers.values() if hasattr(worker, "kill")]
    await asyncio.gather(*(nanny.kill(timeout=0.2) for nanny in nannies), return_exceptions=True)


def _root(error: BaseException) -> str:
    """Return the first cause of an error as one line."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return " ".join(str(error).split()) or type(error).__name__
