"""Dask workers as jobs of a SLURM queue."""

import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import dask
import psutil

from configs.errors import UserError
from configs.run import ClusterConfig
from tasks.storage.files import try_lock
from tasks.storage.settings import child_environment

_ASK_SECONDS = 10.0
_NAMED = 3  # jobs, in a sentence
# What jobs inherit of the driver's settings of Dask: ours, in which no secret stands.
_INHERITED = "DASK_INTERNAL_INHERIT_CONFIG"
_CURE = "`sinfo` lists partitions with their limits, `scontrol show partition` tells more"


def slurm_cluster(
    config: ClusterConfig,
    home: Path,
    settings: Mapping[str, Any],
    certificates: Mapping[str, str] | None,
    **options: Any,
) -> Any:
    """Return a cluster of one scheduler, in this process, whose workers will be jobs.

    Parameters
    ----------
    config
        How a job is asked for.
    home
        FKD_HOME, for what the jobs write to their terminal.
    settings
        Of Dask, for the workers.
    certificates
        Of the workers. They come to the jobs in their environment, which SLURM's controller
        keeps for SLURM's user alone: dask-jobqueue by itself would write the key to a file.
    options
        The jobs' name, and those of the scheduler's side, as every cluster of Dask takes them.
    """
    try:
        from dask_jobqueue.slurm import SLURMCluster, SLURMJob
    except ImportError as error:
        raise UserError(
            "cluster.kind slurm needs the package dask-jobqueue, which is not installed here; "
            "`pip install 'fkd[slurm]'` adds it."
        ) from error
    _check_machine(config.slurm.interface)
    environment = child_environment(_tls_variables(certificates))

    class WorkerJob(SLURMJob):
        status: Any

        async def _submit_job(self, script_filename: str) -> Any:
            return await self._call([self.submit_command, script_filename], env=environment)

        async def start(self) -> None:
            try:
                await super().start()
            except BaseException:
                # A cluster with a job that only exists does not close.
                self.status = type(self.status).failed
                raise

    class QueueCluster(SLURMCluster):
        job_cls = WorkerJob

        def _get_worker_security(self, security: Any) -> None:
            return None

    asked = config.slurm
    inherited = dask.config.serialize(dict(settings))
    return QueueCluster(
        n_workers=0,
        queue=asked.partition,
        account=asked.account,
        walltime=asked.walltime,
        memory=asked.memory,
        cores=1,  # one job at a time, as on a local worker
        processes=1,
        job_cpu=config.blas_threads,
        interface=asked.interface,
        python=asked.python,
        log_directory=str(log_folder(config, home)),
        job_script_prologue=[f"export {_INHERITED}={inherited}", *asked.prologue],
        job_extra_directives=list(asked.directives),
        **options,
    )


def _check_machine(name: str | None) -> None:
    """Refuse a machine without SLURM, or without the interface on which to listen for workers."""
    if shutil.which("sbatch") is None:
        raise UserError(
            "cluster.kind slurm needs SLURM's own commands, but there is no sbatch on this "
            "machine's PATH; start the run on a login node, or use --set cluster.kind=local."
        )
    known = psutil.net_if_addrs()
    if name is not None and name not in known:
        raise UserError(
            f"cluster.slurm.interface must be a network interface of this machine, got {name!r}; "
            f"it has {', '.join(sorted(known))}. Name the one by which workers reach it, or leave "
            "the key out."
        )


def _tls_variables(certificates: Mapping[str, str] | None) -> dict[str, str]:
    """Return the settings of Dask by which a worker finds its certificate."""
    if certificates is None:
        return {}
    names = {"tls_ca_file": "CA_FILE", "tls_worker_cert": "WORKER__CERT"}
    names["tls_worker_key"] = "WORKER__KEY"
    found = {
        f"DASK_DISTRIBUTED__COMM__TLS__{name}": certificates[key]
        for key, name in names.items()
        if key in certificates
    }
    return {**found, "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}


def log_folder(config: ClusterConfig, home: Path) -> Path:
    """Return where jobs write what a terminal would show."""
    return Path(config.slurm.logs) if config.slurm.logs else home / "dask" / "slurm"


def refused(error: BaseException) -> UserError:
    """Return what a person should know of jobs that the queue did not take."""
    lines = [line.partition("error:")[2].strip() for line in str(error).splitlines()]
    said = "; ".join(dict.fromkeys(line for line in lines if line)) or type(error).__name__
    return UserError(
        f"SLURM did not take the workers' jobs ({said}); {_CURE}. Name another one by --set "
        "cluster.slurm.partition=NAME, ask for less by cluster.slurm.memory, "
        "cluster.slurm.walltime or cluster.workers."
    )


def queued_jobs(cluster: Any) -> list[str]:
    """Return the jobs that were submitted for a cluster; none where no queue is involved."""
    workers = getattr(cluster, "workers", None) or {}
    return [found for w in workers.values() if (found := getattr(w, "job_id", None))]


def queue_state(cluster: Any) -> str:
    """Return what SLURM says of the jobs that are waited for, nothing where there are none."""
    if not (jobs := queued_jobs(cluster)):
        return ""
    told = _ask_queue(jobs)
    lines = [f"job {job} is {told.get(job, 'no longer in the queue')}" for job in jobs]
    more = f" and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return f"{', '.join(lines[:_NAMED])}{more}"


def _ask_queue(jobs: list[str]) -> dict[str, str]:
    """Return state with reason of those jobs that the queue still knows."""
    # The whole queue of this user: a list that names a forgotten job is an error.
    words = ["squeue", "--me", "--noheader", "--format=%i|%T|%r"]
    try:
        found = subprocess.run(
            words, capture_output=True, text=True, timeout=_ASK_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return dict.fromkeys(jobs, "unknown, for squeue does not answer")
    rows = (line.strip().split("|", 2) for line in found.stdout.splitlines() if "|" in line)
    return {job: f"{state} ({reason})" for job, state, reason in rows}


_CANCEL_SECONDS = 10.0
_PREFIX = "fkd-worker-"


@contextmanager
def claimed_name(home: Path) -> Iterator[str]:
    """Yield the name of the jobs of one driver, which no other driver's jobs have.

    A file of that name lies in FKD_HOME, held by this process until no such job is left: one that
    nobody holds tells the next run of a driver that was killed.
    """
    name = f"{_PREFIX}{uuid4().hex[:16]}"
    if shutil.which("scancel") is None:
        yield name
        return
    folder = _folder(home)
    folder.mkdir(parents=True, exist_ok=True)
    claim, part = folder / name, folder / f".{name}"
    with part.open("xb") as file:
        try_lock(file)  # before others can see it
        file.write(socket.gethostname().encode())
        file.flush()
        part.replace(claim)
        try:
            yield name
        finally:
            _end(claim)


def cancel_orphans(home: Path) -> None:
    """Cancel the jobs that drivers on this machine left in the queue when they were killed."""
    for claim in _folder(home).glob(f"{_PREFIX}*"):
        with suppress(OSError), claim.open("r+b") as file:
            # Not every shared file system shares its locks: of other machines we know nothing.
            if file.read() == socket.gethostname().encode() and try_lock(file):
                _end(claim)


def _folder(home: Path) -> Path:
    """Return where drivers say which jobs are theirs."""
    return home / "dask" / "queued"


def _end(claim: Path) -> None:
    """Cancel the jobs of a claim, which stays where SLURM could not be asked."""
    if shutil.which("scancel") is None:
        return
    with suppress(OSError, subprocess.SubprocessError):
        words = ["scancel", f"--name={claim.name}"]
        subprocess.run(words, capture_output=True, timeout=_CANCEL_SECONDS, check=True)
        claim.unlink(missing_ok=True)
