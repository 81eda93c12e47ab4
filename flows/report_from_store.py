"""Reports of the shared store: list them, bring one into this home."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from tasks.adapters.run_status import read_status
from tasks.adapters.settings import ensure_writable, read_settings
from tasks.study.named_runs import meant_run
from tasks.study.shared_runs import fetch_run, shared_runs


def report_from_store(word: str | None) -> None:
    """Bring the report of a run, and all files beside it, from the shared store into this home.

    Parameters
    ----------
    word
        The run's name (the latest; NAME~1 is the one before), or the first digits of its identity.
        If None, the runs of the store are listed, the latest first.
    """
    settings, console = read_settings(), Console(highlight=False)
    if settings.shared is None:
        raise UserError(
            "FKD_STORE must be the address of a shared store for --from-store, but it is not set. "
            f"The runs of this home are in {settings.experiments}."
        )
    found, problems = shared_runs(settings)
    if word is None:
        table = Table("run", "identity", "last run", "files", title="Runs of the store")
        for one in reversed(found):
            cells = one.run.config.name, one.run.identity[:12], one.run.ran, str(len(one.files))
            table.add_row(*map(escape, cells))
        console.print(table)
    else:
        runs = {one.run.identity: one for one in found}
        run = meant_run(settings, [one.run for one in found], word, place=settings.store)
        if run is None:
            names = ", ".join(dict.fromkeys(one.run.config.name for one in reversed(found)))
            raise UserError(
                f"RUN must be a run of the store {settings.store}, got {word!r}. "
                f"Its runs are: {names or 'none'}."
            )
        status = read_status(settings, run.config.name)
        if status is not None and status.seen == "running":
            raise UserError(
                f"The report of {status.name} cannot be replaced while it runs in this home. "
                "Repeat the command when it has ended (`fkd status`)."
            )
        ensure_writable(settings.home)
        folder = fetch_run(settings, runs[run.identity])
        console.print(str(folder / "report.html"), markup=False, soft_wrap=True)
    if problems:
        raise UserError(" ".join(problems))
