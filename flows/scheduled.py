"""The flows that schedules run: an experiment by its configuration's name, a look at a model."""

from pathlib import Path

from configs.hook_file import read_hooks
from configs.load import load_configs
from flows.calendar_flow import calendar_flow, check_home
from flows.clearing import clear_leftovers
from flows.ending import end_runs, failure_told
from flows.experiment import run_all
from flows.run_label import scheduled_run_name, watch_run_name
from flows.watch import watch_all
from flows.watch_ending import WatchedModel, end_watch
from tasks.adapters.servers.lifeline import end_with_parent


@calendar_flow("scheduled-experiment", scheduled_run_name)
def scheduled_experiment(source: str = "default", overrides: tuple[str, ...] = ()) -> str:
    """Return the reports of a configuration that is read anew at every run.

    Parameters
    ----------
    source : a YAML file, or the name of a shipped one.
    overrides : changes of it, each as path.to.key=value.
    """
    end_with_parent()
    configs = load_configs(source, overrides)
    with failure_told(configs):
        check_home()
        clear_leftovers()
        # Not as flows of their own: the stages are then stages of this run, not of a second one.
        cells = run_all(configs)
    end_runs(cells)
    return ", ".join(cell.row()[2] for cell in cells)


@calendar_flow("scheduled-watch", watch_run_name)
def scheduled_watch(
    model: str = "crimes",
    data: tuple[str, ...] = (),
    hooks: str | None = None,
    refit: bool = False,
) -> str:
    """Return the history page of a model after a look at what is new.

    Parameters
    ----------
    model : the registered name of the champion.
    data : new rows, each a file, a pattern of files, or keys of the data.
    hooks : a YAML file whose hooks are told of every look.
    refit : whether to refit if a band is crossed.
    """
    end_with_parent()
    watched = WatchedModel(model, read_hooks(Path(hooks))) if hooks else WatchedModel(model)
    with failure_told([watched]):
        check_home()
        clear_leftovers()
        found, page = watch_all(model, data, refit=refit)
    end_watch(watched, found, page)
    return page
