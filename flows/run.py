"""`fkd run` and `fkd sweep` on the command line, and the plan of a dry run."""

import os
import shlex
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from configs.run import RunConfig
from flows.log_lines import is_json, write_line
from flows.outcome import BadEndError, Cell, end_runs, failure_hooks, show_cells
from flows.progress import run_log
from tasks.data.download import Cache
from tasks.data.load import describe_rows, remarks
from tasks.fit.job import planned_cost
from tasks.report.page import write_report
from tasks.select.study import Study, open_study
from tasks.servers.servers import prefect_server
from tasks.storage.files import sweep_leftovers
from tasks.storage.settings import Settings, ensure_writable, read_settings
from tasks.track.compare import read_plan, reasons

_HEADINGS = ("trials", "fits", "stored", "to do", "tasks", "Gflop", "GiB", "seconds")
# A partial download can be continued until then.
_PARTIAL_SECONDS = 7 * 24 * 3600.0


def clear_leftovers() -> int:
    """Remove files of killed processes from FKD_HOME and return their number."""
    settings, removed = read_settings(), 0
    with suppress(OSError):  # the run itself reports what cannot be written
        removed = sweep_leftovers(settings.home)
        if settings.downloads.is_dir():
            removed += Cache(settings.downloads).remove_leftovers(older_than=_PARTIAL_SECONDS)[0]
    return removed


def run_configs(configs: Sequence[RunConfig]) -> None:
    """Run configurations and print their results."""
    start = time.monotonic()
    settings = read_settings()
    ensure_writable(settings.home)
    names = configs[0].name if len(configs) == 1 else f"{len(configs)} runs"
    run_log().log(f"{names}: starting (state in {settings.home})")
    with failure_hooks(configs):
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
    """Run the flow, with a Prefect server if none is configured."""
    with prefect_server(settings):
        # Prefect reads its environment variables when it is first imported.
        from flows.experiment import experiment, sweep

        try:
            return [experiment(configs[0])] if len(configs) == 1 else sweep(list(configs))
        except BadEndError as error:
            return error.cells


def rewrite_report(config: RunConfig, source: str, overrides: Sequence[str]) -> Study:
    """Write the report of a configuration from its stored results, print its path.

    `source` and `overrides` are the arguments from which the configuration was read.
    """
    study = open_study(config, read_settings())
    if jobs := study.missing():
        words = [word for override in overrides for word in ("--set", override)]
        raise UserError(
            f"{config.name} is not finished: {sum(len(job.trials) for job in jobs)} fits are "
            f"missing. Compute them with `{shlex.join(['fkd', 'run', source, *words])}`."
        )
    page = write_report(study, again=True)
    Console(markup=False, highlight=False).print(str(page), soft_wrap=True)
    return study


def show_plan(configs: Sequence[RunConfig]) -> None:
    """Print the trials, tasks and cost of each run, and how many fits are stored."""
    # Without vertical lines all columns fit into a terminal of 80 characters.
    title = "Plan (nothing is computed)"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("run", overflow="fold")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    why, rows = Counter[str](), list[str]()
    for config in configs:
        study = open_study(config, read_settings())
        cells, its_reasons = _plan_row(study)
        if config.data.source == "file":
            origin = study.loaded.provenance
            rows += [f"{config.name}: {describe_rows(origin)}", *remarks(origin)]
        table.add_row(config.name, *cells)
        why += its_reasons
        if is_json():
            planned: dict[str, Any] = dict(zip(_HEADINGS, map(float, cells), strict=True))
            write_line("info", "plan", run=config.name, **planned)
    notes = [*rows, *_plan_notes(configs, why)]
    if is_json():
        for line in notes:
            write_line("info", "log", line)
        return
    console = Console(highlight=False)
    console.print(table)
    for line in notes:
        console.print(f"[dim]{escape(line)}[/dim]", soft_wrap=True)


def _plan_row(study: Study) -> tuple[list[str], Counter[str]]:
    """Return the cells of a run, and the reasons why fits are missing."""
    config = study.config
    jobs = study.missing(again=True)
    failed = study.store.read_failures(key for job in jobs for key in job.record_keys)
    todo = sum(len(job.trials) for job in jobs)
    cost = planned_cost(jobs, study.loaded.table)
    workers = config.cluster.most_workers or os.cpu_count() or 1
    counts = [len(study.trials), study.size(), study.size() - todo, todo, len(jobs)]
    costs = [
        f"{cost.flops / 1e9:.0f}",
        f"{cost.bytes / 2**30:.2f}",
        f"{cost.seconds / min(workers, max(len(jobs), 1)):.0f}",
    ]
    return [*map(str, counts), *costs], reasons(study, jobs, read_plan(study), failed)


def _plan_notes(configs: Sequence[RunConfig], why: Counter[str]) -> list[str]:
    """Return explanations of the table."""
    lines = ["A task computes the fits that share a factorisation on one fold."]
    if why:
        lines.append(f"To do: {'; '.join(f'{n} {reason}' for reason, n in why.most_common())}.")
    lines.append("GiB: largest task. Seconds: arithmetic at this machine's speed, without start.")
    if any(entry.search for config in configs for entry in config.methods):
        lines.append("The winner of a search adds the fits of its grid.")
    if any(entry.grows(config.data.problem) for config in configs for entry in config.methods):
        lines.append("Strengths that are not given are added while they change the predictions.")
    return lines
