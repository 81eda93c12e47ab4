"""A run from the command line: configuration, servers, the flow, a table at its end."""

import time
from collections.abc import Sequence

from rich.console import Console

from configs.errors import UserError
from configs.load import load_config
from flows.progress import watcher
from tasks.prefect_server import prefect_server
from tasks.report import render
from tasks.report_input import report_data
from tasks.settings import ensure_writable, read_settings
from tasks.study import open_study


def run_config(source: str, overrides: Sequence[str]) -> None:
    """Run a configuration whole, then print its trials with the paths of what was made."""
    start = time.monotonic()
    config = load_config(source, overrides)
    settings = read_settings()
    ensure_writable(settings.home)
    watcher().say(f"{config.name}: starting (state in {settings.home})")
    with prefect_server(settings):
        from flows.experiment import experiment

        outcome = experiment(config)
    outcome.show(time.monotonic() - start)
    outcome.raise_if_incomplete()


def rewrite_report(source: str, overrides: Sequence[str]) -> None:
    """Write a configuration's report again from its stored results, then print its path."""
    config = load_config(source, overrides)
    study = open_study(config, read_settings())
    if jobs := study.missing():
        raise UserError(
            f"{config.name} is not finished: {sum(len(job.trials) for job in jobs)} fits are not "
            f"stored; compute them by `fkd run {source}`."
        )
    page = render(report_data(study, (), seconds=0.0), study.folder).html
    Console().print(str(page), soft_wrap=True)
