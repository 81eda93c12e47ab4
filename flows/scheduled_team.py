"""The flows of a team's calendar beside its experiments: data, grids, the paper's claims."""

from prefect import flow

from configs.data import DataConfig
from configs.load import load_configs
from configs.schema import ClusterConfig
from flows.backfill import fill
from flows.cells import plan_cells
from flows.clearing import clear_leftovers
from flows.progress import watcher
from flows.reproduce import chosen_trees
from flows.reproduction_flow import tell_all
from flows.run_label import backfill_run_name, scheduled_run_name
from flows.scheduled import check_home, tell_run
from flows.stage import patient_stage
from tasks.adapters.servers.lifeline import end_with_parent
from tasks.adapters.settings import read_settings
from tasks.data.load import describe_rows, load_table


@flow(
    name="scheduled-refresh",
    flow_run_name=scheduled_run_name,
    persist_result=False,
    on_completion=[tell_run],
    on_failure=[tell_run],
    on_cancellation=[tell_run],
    on_crashed=[tell_run],
)
def scheduled_refresh(source: str = "default", overrides: tuple[str, ...] = ()) -> str:
    """Return what the tables of a configuration hold, fetched and prepared before a run needs them.

    Parameters
    ----------
    source : a YAML file, or the name of a shipped one.
    overrides : changes of it, each as path.to.key=value.
    """
    _begin()
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


@flow(
    name="scheduled-backfill",
    flow_run_name=backfill_run_name,
    persist_result=False,
    on_completion=[tell_run],
    on_failure=[tell_run],
    on_cancellation=[tell_run],
    on_crashed=[tell_run],
)
def scheduled_backfill(
    source: str,
    states: tuple[str, ...],
    years: tuple[int, ...],
    overrides: tuple[str, ...] = (),
) -> str:
    """Return how much of a grid is done; cells that were done before are not computed again.

    Parameters
    ----------
    source : a YAML file of census data, or the name of a shipped one.
    states, years : the grid.
    overrides : changes of all cells, each as path.to.key=value.
    """
    _begin()
    cells = plan_cells(source, states, years, overrides)
    fill(cells)
    return f"{len(cells)} cells are done"


@flow(
    name="scheduled-reproduction",
    persist_result=False,
    on_completion=[tell_run],
    on_failure=[tell_run],
    on_cancellation=[tell_run],
    on_crashed=[tell_run],
)
def scheduled_reproduction(names: tuple[str, ...] = ("all",), quick: bool = True) -> str:
    """Return the page with the paper's claims, judged anew.

    Parameters
    ----------
    names : E0 to E10, preprocessing, or all.
    quick : few rows, few folds, short grids.
    """
    _begin()
    found = tell_all(chosen_trees(names, is_quick=quick), ClusterConfig())
    for problem in found.problems:
        watcher().say(problem)
    return str(found.page)


def _begin() -> None:
    """Look whether a run can be gone through here, clear away what killed ones have left."""
    end_with_parent()
    check_home()
    clear_leftovers()
