"""Stages of a flow as Prefect tasks, and names and tags of flow runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from configs.errors import UserError
from configs.load import load_configs
from configs.run import RunConfig
from fkd import __version__

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


_DIGITS = 8  # of a configuration's digest


def run_tags(configs: Sequence[RunConfig]) -> list[str]:
    """Return what one may look for among runs: experiment, problem, configuration, version."""
    found = {f"fkd:{__version__}"}
    for config in configs:
        found |= {
            f"experiment:{config.experiment}",
            f"problem:{config.data.problem}",
            f"config:{config.digest[:_DIGITS]}",
        }
    return sorted(found)


def experiment_run_name() -> str:
    """Return the name of a run of one configuration."""
    return _named(_names([flow_run.parameters.get("config")]))


def sweep_run_name() -> str:
    """Return the name of a run of several configurations."""
    return _named(_names(flow_run.parameters.get("configs") or []))


def scheduled_run_name() -> str:
    """Return the name of a scheduled run; a faulty configuration is told by the run itself."""
    source = str(flow_run.parameters.get("source"))
    try:
        configs = load_configs(source, tuple(flow_run.parameters.get("overrides") or ()))
    except UserError:
        return _named([Path(source).stem])
    return _named(_names(configs))


def reproduction_run_name() -> str:
    """Return the name of a run of the paper's experiments."""
    trees = flow_run.parameters.get("trees") or []
    return _named(["paper", *(str(tree.get("name")) for tree in trees)])


def watch_run_name() -> str:
    """Return the name of a look at new rows."""
    return _named(["watch", str(flow_run.parameters.get("model"))])


def _names(configs: Sequence[Any]) -> list[str]:
    """Return the first configuration's name, with how many follow."""
    # A name is no reason to fail: whatever came, the flow itself checks it a moment later.
    first = str(getattr(configs[0], "name", "run")) if configs else "run"
    return [first] if len(configs) < 2 else [first, f"and {len(configs) - 1} more"]


def _named(words: Sequence[str]) -> str:
    """Return the words with the moment for which the run was planned, in UTC."""
    return f"{' '.join(words)} {flow_run.scheduled_start_time:%Y-%m-%d %H:%M:%S}Z"
