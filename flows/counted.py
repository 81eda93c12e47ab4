"""Jobs on a cluster while people see how many are done."""

from collections.abc import Callable, Sequence
from typing import Any

from configs.schema import ClusterConfig
from flows.progress import watcher
from tasks.adapters.jobs import Failed, run_jobs


def run_counted(
    client: Any,
    function: Callable[[Any], Any],
    jobs: Sequence[Any],
    cluster: ClusterConfig,
    *,
    noun: str,
    weight: Callable[[Any], int] = lambda job: 1,
    done: Callable[[Any], None] = lambda job: None,
    begun: Callable[[tuple[Any, str]], None] = lambda told: None,
    keep: Callable[[Any, Any], None] | None = None,
) -> list[Failed]:
    """Return the jobs that failed; tries and time limits are the cluster's.

    Parameters
    ----------
    client, function, jobs, keep
        As for `run_jobs`.
    cluster
        How often a job is tried, how long it may take.
    noun
        What is counted.
    weight
        How many of them one job is.
    done
        Hears of every job that has come to its end.
    begun
        Hears of every job that a worker begins, with the worker's address.
    """
    with watcher().counting(noun, sum(weight(job) for job in jobs)) as counter:

        def advance(job: Any) -> None:
            done(job)
            counter.advance(weight(job))

        return run_jobs(
            client,
            function,
            jobs,
            retries=cluster.retries,
            time_limit=cluster.time_limit,
            done=advance,
            keep=keep,
            say=watcher().say,
            begun=begun,
        )
