"""What a run would do, told without doing it."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from configs.load import load_configs
from tasks.estimate import estimate
from tasks.settings import read_settings
from tasks.study import open_study


def show_plan(source: str, overrides: Sequence[str]) -> None:
    """Print each run's trials, tasks, cost, with what is stored already."""
    table = Table(title="Plan (nothing is computed)", title_justify="left")
    table.add_column("run")
    for heading in ("trials", "fits", "stored", "to do", "tasks", "Gflop", "GiB each", "seconds"):
        table.add_column(heading, justify="right")
    settings, searching = read_settings(), False
    for config in load_configs(source, overrides):
        study = open_study(config, settings)
        jobs = study.missing()
        todo = sum(len(job.trials) for job in jobs)
        cost = estimate(jobs, study.loaded.table)
        searching |= any(entry.search for entry in config.methods)
        row = [len(study.trials), study.size(), study.size() - todo, todo, len(jobs)]
        table.add_row(
            config.name,
            *map(str, row),
            f"{cost.flops / 1e9:.0f}",
            f"{cost.bytes / 2**30:.2f}",
            f"{cost.seconds / (config.cluster.workers or 1):.0f}",
        )
    console = Console(highlight=False)
    console.print(table)
    console.print("[dim]seconds: arithmetic at this machine's speed, start-up not counted[/dim]")
    if searching:
        console.print("[dim]a search's winner brings the fits of its grid afterwards[/dim]")
