"""Prefect tasks, and names and tags of flow runs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from configs.errors import UserError
from configs.load import load_configs
from configs.run import RunConfig
from fkd import __version__

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")

# A Prefect task costs tens of milliseconds: fits, folds and blocks are Dask futures inside a few
# tasks. Results live in the store, never in Prefect's.
_DELAYS = [60.0, 300.0, 1800.0]  # seconds; a data server may be back after half an hour


def step(
    name: str, *, patient: bool = False
) -> Callable[[Callable[_Given, _Found]], Task[_Given, _Found]]:
    """Return a decorator that makes a Prefect task.

    Parameters
    ----------
    name
        Name on Prefect's pages.
    patient
        Retry for half an hour if the task fails.
    """
    retries: dict[str, Any] = {}
    if patient:
        retries = {"retries": len(_DELAYS), "retry_delay_seconds": _DELAYS}
    return task(name=name, cache_policy=NO_CACHE, persist_result=False, **retries)


_DIGITS = 8  # of a configuration's digest


def run_tags(configs: Sequence[RunConfig]) -> list[str]:
    """Return the tags of a flow run: experiments, problems, configurations, version."""
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
    """Return the name of a scheduled run. The run itself reports a faulty configuration."""
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
    """Return the name of a check of new rows."""
    return _named(["watch", str(flow_run.parameters.get("model"))])


def _names(configs: Sequence[Any]) -> list[str]:
    """Return the name of the first configuration and the number of others."""
    # The flow itself validates its parameters afterwards.
    first = str(getattr(configs[0], "name", "run")) if configs else "run"
    return [first] if len(configs) < 2 else [first, f"and {len(configs) - 1} more"]


def _named(words: Sequence[str]) -> str:
    """Return the words and the scheduled start of the run, in UTC."""
    return f"{' '.join(words)} {flow_run.scheduled_start_time:%Y-%m-%d %H:%M:%S}Z"
