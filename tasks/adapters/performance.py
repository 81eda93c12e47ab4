"""Dask's own report on what a cluster did, as one page."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from configs.schema import ClusterConfig
from tasks.adapters.workers import is_foreign

PAGE = "dask_report.html"
_ANSWER_SECONDS = 60
# A scheduler that is gone, busy, or without the package that draws the page.
_FAULTS = (OSError, ImportError, AttributeError, RuntimeError, TypeError, ValueError)


def is_reported(config: ClusterConfig, client: Any) -> bool:
    """Return whether a report is wanted: if nothing is said, of processes that are ours alone."""
    if config.report is not None:
        return config.report
    return config.kind != "threads" and not is_foreign(client)


@contextmanager
def performance(
    client: Any, keep: Callable[[bytes], None], say: Callable[[str], None]
) -> Iterator[None]:
    """Keep the report on what the cluster does meanwhile; where there is none, say why.

    A run never fails by it, nor is there one where the run itself fails.
    """
    start, said = time.time(), list[BaseException]()
    try:
        # A nameless function travels whole: a scheduler need not have this package.
        count = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.monitor.count)
        client.get_task_stream(start=0, stop=0)  # from now on it remembers who did what when
    except _FAULTS as error:
        said.append(error)
    yield
    try:
        if not said:
            page = client.sync(
                client.scheduler.performance_report,
                start=start,
                last_count=count,
                code="",
                mode="inline",  # it opens from disk, without the network
                callback_timeout=_ANSWER_SECONDS,
            )
            keep(page.encode())
    except _FAULTS as error:
        said.append(error)
    for fault in said:
        cause = " ".join(str(fault).split())[:200]
        say(f"no performance report by Dask ({type(fault).__name__}: {cause})")
