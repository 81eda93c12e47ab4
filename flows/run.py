"""`fkd run` and `fkd sweep` on the command line, and the plan of a dry run."""

import os
import shlex
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from configs.run import RunConfig
from flows.log_lines import is_json, write_line
from flows.outcome import BadEndError, Cell, end_runs, failure_told, show_cells
from flows.progress import watcher
from tasks.data.load import describe_rows, remarks
from tasks.fit.cost import planned_cost
from tasks.report.page import write_report
from tasks.select.study import Study, open_study
from tasks.servers.prefect import prefect_server
from tasks.storage.settings import Settings, ensure_writable, read_settings
from tasks.track.compare import read_plan, reasons


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


_HEADINGS = ("trials", "fits", "stored", "to do", "tasks", "Gflop", "GiB", "seconds")


def show_plan(configs: Sequence[RunConfig]) -> None:
    """Print each run's trials, tasks, cost, with what is stored already."""
    # Without vertical lines all columns fit into a terminal of 80 characters.
    title = "Plan (nothing is computed)"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("run", overflow="fold")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    why, rows = Counter[str](), list[str]()
    for config in configs:
        study = open_study(config, read_settings())
        cells, its_reasons = _row(study)
        rows += _rows(study)
        table.add_row(config.name, *cells)
        why += its_reasons
        if is_json():
            planned: dict[str, Any] = dict(zip(_HEADINGS, map(float, cells), strict=True))
            write_line("info", "plan", run=config.name, **planned)
    if is_json():
        for line in _remarks(configs, rows, why):
            write_line("info", "said", line)
        return
    console = Console(highlight=False)
    console.print(table)
    for line in _remarks(configs, rows, why):
        console.print(f"[dim]{escape(line)}[/dim]", soft_wrap=True)


def _rows(study: Study) -> list[str]:
    """Return what became of the rows of an own table, which nobody but its owner knows."""
    story = study.loaded.provenance
    if study.config.data.source != "file":
        return []
    return [f"{study.config.name}: {describe_rows(story)}", *remarks(story)]


def _row(study: Study) -> tuple[list[str], Counter[str]]:
    """Return a run as cells, with why its fits are to be computed."""
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


def _remarks(configs: Sequence[RunConfig], rows: Sequence[str], why: Counter[str]) -> list[str]:
    """Return what the numbers of the table leave open."""
    lines = [*rows, "a task computes the fits that share a factorisation on one fold"]
    if why:
        told = "; ".join(f"{count} {reason}" for reason, count in why.most_common())
        lines.append(f"to do: {told}")
    lines.append("GiB: the largest task; seconds: arithmetic at this machine's speed, no start-up")
    if any(entry.search for config in configs for entry in config.methods):
        lines.append("a search's winner brings the fits of its grid afterwards")
    if any(entry.grows(config.data.problem) for config in configs for entry in config.methods):
        lines.append(
            "strengths that are not given are added as long as removing more changes something"
        )
    return lines
