"""Scheduled flows beside experiments: refreshed data, the paper's claims."""

from configs.data import DataConfig
from configs.load import load_configs
from configs.schema import ClusterConfig
from flows.calendar_flow import begin_run, calendar_flow
from flows.progress import watcher
from flows.reproduce import chosen_trees
from flows.reproduction_flow import judge_all
from flows.run_label import scheduled_run_name
from flows.stage import patient_stage
from tasks.adapters.settings import read_settings
from tasks.data.load import describe_rows, load_table


@calendar_flow("scheduled-refresh", scheduled_run_name)
def scheduled_refresh(source: str = "default", overrides: tuple[str, ...] = ()) -> str:
    """Return what the tables of a configuration hold, fetched and prepared before a run needs them.

    Parameters
    ----------
    source : a YAML file, or the name of a shipped one.
    overrides : changes of it, each as path.to.key=value.
    """
    begin_run()
    configs = load_configs(source, overrides)
    tables = {config.data.model_dump_json(): config.data for config in configs}
    return "; ".join(_refresh(data) for data in tables.values())


@patient_stage
def _refresh(data: DataConfig) -> str:
    """Return how many rows a table has, once its files are here and verified."""
    loaded = load_table(data, read_settings())
    told = f"{data.problem}: {describe_rows(loaded.provenance)}"
    watcher().say(told)
    return told


@calendar_flow("scheduled-reproduction")
def scheduled_reproduction(names: tuple[str, ...] = ("all",), quick: bool = True) -> str:
    """Return the page with the paper's claims, judged anew; fail where one could not be judged.

    Parameters
    ----------
    names : E0 to E10, preprocessing, or all.
    quick : few rows, few folds, short grids.
    """
    begin_run()
    return str(judge_all(chosen_trees(names, is_quick=quick), ClusterConfig()).page)
