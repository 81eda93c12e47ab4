"""A stage of a flow as a Prefect task."""

from prefect import task
from prefect.cache_policies import NO_CACHE

# Stages are small in number: a Prefect task costs tens of milliseconds, so folds, settings and
# blocks are raw Dask futures inside one. Results live in our own store, never in Prefect's.
stage = task(cache_policy=NO_CACHE, persist_result=False)

# For what a server elsewhere may refuse for a while: one that is down at three in the morning may
# be up at half past.
_PAUSES = [60.0, 300.0, 1800.0]
patient_stage = task(
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=len(_PAUSES),
    retry_delay_seconds=_PAUSES,
)
