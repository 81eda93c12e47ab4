"""A run from the command line: configuration, servers, the flow, a table at its end."""

import shlex
import time
from collections.abc import Sequence

from rich.console import Console

from configs.errors import UserError
from configs.schema import RunConfig
from flows.ending import BadEndError, end_runs, failure_told
from flows.log_lines import is_json
from flows.progress import watcher
from flows.sweep import Cell, show_cells
from tasks.adapters.servers.prefect_server import prefect_server
from tasks.adapters.settings import Settings, ensure_writable, read_settings
from tasks.report.writing import write_report
from tasks.study.opening import open_study


def run_configs(configs: Sequence[RunConfig]) -> None:
    """Run configurations, then print their results; of several a table of all follows."""
    start = time.monotonic()
    settings = read_settings()
    ensure_writable(settings.home)
    names = configs[0].name if len(configs) == 1 else f"{len(configs)} runs"
    watcher().say(f"{names}: starting (state in {settings.home})")
    with failure_told(configs):
        cells = _run(configs, settings)
    seconds = time.monotonic() - start
    for cell in cells:
        cell.show()
    if len(cells) > 1:
        show_cells(cells)
    if not is_json():
        Console(highlight=False).print(f"[dim]done in {seconds:.0f} s[/dim]")
    end_runs(cells)


def _run(configs: Sequence[RunConfig], settings: Settings) -> list[Cell]:
    """Return the results of the flow, with a Prefect server for as long as it takes."""
    with prefect_server(settings):
        # Prefect reads its settings when it is first imported: only now are they in force.
        from flows.experiment import experiment, sweep

        try:
            return [experiment(configs[0])] if len(configs) == 1 else sweep(list(configs))
        except BadEndError as error:
            return error.cells


def rewrite_report(config: RunConfig, *, asked: tuple[str, Sequence[str]]) -> None:
    """Write a configuration's report again from its stored results, then print its path.

    `asked` are the words of the command line that the configuration was read from.
    """
    source, overrides = asked
    study = open_study(config, read_settings())
    if jobs := study.missing():
        words = [word for override in overrides for word in ("--set", override)]
        raise UserError(
            f"{config.name} is not finished: {sum(len(job.trials) for job in jobs)} fits are not "
            f"stored; compute them by `{shlex.join(['fkd', 'run', source, *words])}`."
        )
    page = write_report(study, again=True)
    Console(markup=False, highlight=False).print(str(page), soft_wrap=True)
