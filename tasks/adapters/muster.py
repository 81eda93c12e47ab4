"""Whether the workers that a run waits for have come, able to do its work."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from configs.errors import UserError
from fkd import __version__
from tasks.adapters.clusters.slurm_jobs import queue_state, queued_jobs
from tasks.adapters.environment import own_package
from tasks.adapters.workers import ask_workers, is_foreign, threads_at_work, workers_of_others

_TELL_SECONDS = 10.0  # what is waited for is told after so long
_POLL_SECONDS = 0.2
_NAMED = 3  # workers, in a sentence


@dataclass
class Muster:
    """Who is there to compute, since when nobody is, whom we have asked for his package."""

    client: Any
    say: Callable[[str], None]
    manned: float = field(default_factory=time.monotonic)  # when a worker was last seen
    told: bool = False
    asked: set[str] = field(default_factory=set)

    def wait(self) -> None:
        """Return once there is a worker."""
        while not self.look():
            time.sleep(_POLL_SECONDS)

    def look(self) -> int:
        """Return how many jobs can run at once; raise where nobody comes, or a stranger does."""
        threads, now = threads_at_work(self.client), time.monotonic()
        if threads:
            self.manned, self.told = now, False
            self._refuse_strangers()
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

    def _refuse_strangers(self) -> None:
        """Raise where workers lack this package, or have another version of it."""
        new = workers_of_others(self.client) - self.asked
        if not new:
            return
        told = ask_workers(self.client, own_package, new)
        self.asked |= set(told)
        wrong = {where: found for where, found in told.items() if found != __version__}
        if not wrong:
            return
        named = [f"{where} has {_short(found)}" for where, found in sorted(wrong.items())]
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        raise UserError(
            f"Dask workers must have the package of this run, fkd {__version__}, but "
            f"{', '.join(named[:_NAMED])}{more}; install it where they start, or end them, then "
            "run the same command: what was computed is kept."
        )

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


def _short(found: Any) -> str:
    """Return what a worker answered in a few words."""
    if isinstance(found, Exception):
        return f"none ({' '.join(str(found).split())})"
    return f"fkd {found}"
