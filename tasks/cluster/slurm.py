"""A SLURM cluster whose certificates are never written to a file."""

import logging
import subprocess
from collections.abc import Mapping
from typing import Any

import dask
from dask_jobqueue.slurm import SLURMCluster, SLURMJob
from distributed import Security

from tasks.storage.settings import child_environment, read_settings

_QUEUE_SECONDS = 10.0
_SHOWN = 3  # jobs in a message
_TLS = "DASK_DISTRIBUTED__COMM__TLS__"


class SlurmCluster(SLURMCluster):
    """`dask_jobqueue.SLURMCluster` with one task per job and certificates in its environment.

    dask-jobqueue writes the key of temporary certificates to a file on the shared disk. Here jobs
    inherit it from the environment of `sbatch`, which SLURM's controller keeps for its own user.
    Jobs of a killed driver end by themselves: a worker waits 60 s for its scheduler
    (`death_timeout`).

    Parameters
    ----------
    security
        Certificates of the cluster. Temporary ones are made if None.
    walltime, memory
        Limits of one job.
    log_directory
        Folder for the output of jobs. The default is `dask/slurm` in FKD_HOME.
    **kwargs
        Further arguments of `dask_jobqueue.SLURMCluster`, such as `queue`, `account`,
        `interface`, `job_cpu`, `job_script_prologue` and `job_extra_directives`.
    """

    def __init__(
        self,
        *,
        security: Security | None = None,
        walltime: str = "04:00:00",
        memory: str = "4GiB",
        log_directory: str | None = None,
        **kwargs: Any,
    ) -> None:
        security = security or Security.temporary()
        self.job_cls = _job_class(security.get_tls_config_for_role("worker"))
        options = {"dashboard_address": "127.0.0.1:0", **kwargs.pop("scheduler_options", {})}
        super().__init__(
            job_cls=self.job_cls,
            security=security,
            walltime=walltime,
            memory=memory,
            cores=1,
            processes=1,
            log_directory=log_directory or str(read_settings().home / "dask" / "slurm"),
            scheduler_options=options,
            silence_logs=logging.CRITICAL + 1,
            **kwargs,
        )

    def _get_worker_security(self, security: Any) -> None:
        return None  # jobs have the certificates in their environment

    def describe_jobs(self) -> str:
        """Return the state of the submitted jobs as SLURM reports it."""
        jobs = [job for w in self.workers.values() if (job := getattr(w, "job_id", None))]
        if not jobs:
            return ""
        # The queue of this user: `squeue --jobs` fails for a job that has left the queue.
        words = ["squeue", "--me", "--noheader", "--format=%i|%T|%r"]
        try:
            answer = subprocess.run(
                words, capture_output=True, text=True, timeout=_QUEUE_SECONDS, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return "squeue does not answer"
        rows = [line.strip().split("|", 2) for line in answer.stdout.splitlines() if "|" in line]
        states = {job: f"{state} ({reason})" for job, state, reason in rows}
        texts = [f"job {job} is {states.get(job, 'no longer in the queue')}" for job in jobs]
        more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        return f"{', '.join(texts[:_SHOWN])}{more} (logs: {self._job_kwargs['log_directory']})"


def _job_class(certificates: Mapping[str, Any]) -> type[SLURMJob]:
    """Return a job class that submits jobs with certificates in their environment."""
    environment = child_environment(
        {
            f"{_TLS}CA_FILE": certificates["ca_file"],
            f"{_TLS}WORKER__CERT": certificates["cert"],
            **({f"{_TLS}WORKER__KEY": certificates["key"]} if certificates.get("key") else {}),
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
            "DASK_INTERNAL_INHERIT_CONFIG": dask.config.serialize(
                # The folder for temporary files is one of the driver's machine.
                {k: v for k, v in dask.config.config.items() if k != "temporary-directory"}
            ),
        }
    )

    class WorkerJob(SLURMJob):
        async def _submit_job(self, script_filename: str) -> Any:
            return await self._call([self.submit_command, script_filename], env=environment)

    return WorkerJob
