"""Whether the workers that a run waits for have come, able to do its work."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from configs.errors import UserError
from fkd import __version__
from tasks.adapters.clusters.slurm_jobs import queue_state, queued_jobs
from tasks.adapters.preflight import preflight_of
from tasks.adapters.workers import is_foreign, threads_at_work

_TELL_SECONDS = 10.0  # what is waited for is told after so long
_POLL_SECONDS = 0.2
_SILENT_SECONDS = 300.0  # a worker that is there has so long to say what it is


@dataclass
class Muster:
    """Who is there to compute, since when nobody is."""

    client: Any
    say: Callable[[str], None]
    manned: float = field(default_factory=time.monotonic)  # when a worker was last seen
    told: bool = False

    def wait(self) -> None:
        """Return once there is a worker, and those that are there have answered.

        One that stays silent is not waited for without end; it is asked again at every look.
        """
        silent = time.monotonic() + _SILENT_SECONDS
        while not self.look():
            time.sleep(_POLL_SECONDS)
            silent = time.monotonic() + _SILENT_SECONDS
        while preflight_of(self.client).unasked(self.client) and time.monotonic() < silent:
            time.sleep(_POLL_SECONDS)
            self.look()

    def look(self) -> int:
        """Return how many jobs can run at once; raise where nobody comes, or a stranger does."""
        threads, now = threads_at_work(self.client), time.monotonic()
        if threads:
            self.manned, self.told = now, False
            preflight_of(self.client).check(self.client)
        elif now - self.manned > self.client.patience:
            raise UserError(
                f"no Dask worker at {self._address()} has been there for "
                f"{self.client.patience:g} s (cluster.worker_wait){self._queue()}; "
                f"{self._cure()}, then run the same command: what was computed is kept."
            )
        elif now - self.manned > _TELL_SECONDS and not self.told:
            self.told = True
            self.say(
                f"waiting for a Dask worker at {self._address()} (none has come within "
                f"{_TELL_SECONDS:g} s){self._queue()}"
            )
        return threads

    def _address(self) -> str:
        """Return where workers find the scheduler."""
        return str(self.client.scheduler.address)

    def _queue(self) -> str:
        """Return what a queue says of the workers' jobs."""
        told = queue_state(self.client.cluster)
        return f": SLURM says that {told}" if told else ""

    def _cure(self) -> str:
        """Return what helps."""
        if queued_jobs(self.client.cluster):
            return (
                "jobs that ended by themselves have written why into cluster.slurm.logs "
                "(FKD_HOME/dask/slurm); for a long queue wait longer (--set "
                "cluster.worker_wait=86400) or ask for less"
            )
        if not is_foreign(self.client):
            return "give the machine's memory to fewer of them (--set cluster.workers=1)"
        where = self._address()
        keys = " --tls-ca-file CA --tls-cert CERT --tls-key KEY" if where[:4] == "tls:" else ""
        return f"start one, with fkd {__version__}, by `dask worker {where}{keys}`"
