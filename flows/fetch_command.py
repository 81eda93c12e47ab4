"""The command that brings the runs of a shared store into this home."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from configs.nearest import check_name
from tasks.adapters.run_status import read_status
from tasks.adapters.settings import Settings, ensure_writable, read_settings
from tasks.study.named_runs import meant_run
from tasks.study.shared_runs import SharedRun, fetch_run, shared_runs


def fetch_shared(run: str | None = None, /) -> None:
    """Bring the report of a run from a shared store into this home, with all beside it.

    Without a name, the runs of the store are listed. Once fetched, a run is known here: `fkd
    compare`, `fkd check`, `fkd why` and `fkd sync` find it.

    Parameters
    ----------
    run
        Its name (the latest; NAME~1 is the one before), or the first digits of its identity.
    """
    settings = read_settings()
    if settings.shared is None:
        raise UserError(
            "FKD_STORE must be a store that homes share, but it is not set; the runs of this home "
            f"are under {settings.experiments}."
        )
    found, problems = shared_runs(settings)
    console = Console(highlight=False)
    if run is None:
        _show(console, found)
    else:
        folder = fetch_run(settings, _chosen(settings, found, run))
        console.print(str(folder / "report.html"), markup=False, soft_wrap=True)
    if problems:
        raise UserError(" ".join(problems))


def _chosen(settings: Settings, found: Sequence[SharedRun], word: str) -> SharedRun:
    """Return the run that is meant; one of its name must not be on here."""
    run = meant_run(settings, [one.run for one in found], word, place=settings.store)
    if run is None:
        names = dict.fromkeys(one.run.config.name for one in reversed(found))
        if not names:
            raise UserError(f"the store {settings.store} has no finished run yet, got {word}.")
        try:
            check_name(word, names, key=f"a run of the store {settings.store}")
        except ValueError as error:
            raise UserError(f"{error}.") from None
    (chosen,) = [one for one in found if one.run is run]
    status = read_status(settings, chosen.run.config.name)
    if status is not None and status.seen == "running":
        raise UserError(
            f"the files of {status.name} must not be written while it is on in this home; fetch "
            "them when it has ended (`fkd status`)."
        )
    ensure_writable(settings.home)
    return chosen


def _show(console: Console, found: Sequence[SharedRun]) -> None:
    """Print the runs of the store, the latest first."""
    table = Table("run", "identity", "was on", "files", title="Runs of the store")
    for one in reversed(found):
        cells = one.run.config.name, one.run.identity[:12], one.run.ran, str(len(one.files))
        table.add_row(*map(escape, cells))
    console.print(table)
