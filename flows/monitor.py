"""`fkd watch` as a Prefect flow: check new rows, refit on request, record both."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from prefect import flow
from rich.console import Console
from rich.markup import escape

from configs.errors import UserError
from configs.load import read_hooks
from configs.run import HooksConfig, RunConfig, TrackingConfig
from flows.errors import check_address_space
from flows.experiment import finish, fit_studies
from flows.log_lines import is_json, write_line
from flows.prefect_page import post_markdown, tagged_run
from flows.progress import run_log
from flows.run import clear_leftovers
from flows.stages import step, watch_run_name
from tasks.data.download import AbsentFileError
from tasks.data.load import Loaded, join_tables, load_table
from tasks.monitor.champion import WatchedChampion, champion_rows, watched_champion
from tasks.monitor.check import (
    CROSSED,
    Batch,
    NextBatch,
    Refit,
    Watch,
    check_batch,
    is_watched,
    judge_refit,
    read_batches,
    record_refit_reason,
    record_watch,
)
from tasks.report.history_page import write_history
from tasks.select.selection import NoChampionError
from tasks.select.study import open_study
from tasks.servers.hooks import call_hook
from tasks.storage.settings import ensure_writable, plain_markdown, read_settings
from tasks.track.registry import versions_of

_REFIT = "-refit"  # suffix of the name of a refitted run
_NEWER = " and newer rows"  # suffix of the title of its table


@flow(name="watch", flow_run_name=watch_run_name, persist_result=False)
def watch(model: str, data: Sequence[str], refit: bool = False) -> list[Watch]:
    """Check new rows, batch by batch, and return the checks of new batches.

    Parameters
    ----------
    model : the registered name of the champion.
    data : new rows, each a file, a pattern of files, or keys of the data.
    refit : whether to refit on the rows of the champion and a batch that crosses a band.
    """
    return watch_all(model, data, refit=refit)[0]


def watch_all(model: str, data: Sequence[str], *, refit: bool = False) -> tuple[list[Watch], str]:
    """Check each batch; return the new checks and the path of the history page."""
    with tagged_run([f"model:{model}"]):
        batches = read_batches(watched_champion(read_settings(), model).config, data)
        if not batches:
            run_log().log(f"no file matches {', '.join(data)} yet")
        found = [one for batch in batches if (one := watch_batch(model, batch, refit)) is not None]
        page = str(write_history(read_settings(), model))
        run_log().log(f"history: {page}")
        if found:
            lines = [f"- {plain_markdown(f'{one.rows_from}: {one.reason}')}" for one in found]
            post_markdown(f"watch-{model}", "\n".join(lines), f"Watch of {model}")
    return found, page


def watch_batch(model: str, batch: Batch | NextBatch, refit: bool) -> Watch | None:
    """Return the check of one batch, None if it was checked before."""
    champion = watched_champion(read_settings(), model)
    if isinstance(batch, NextBatch):
        return _watch_next(champion, batch, refit)
    loaded = load_table(batch.config.data, read_settings())
    if known := _known(champion, loaded, refit):
        run_log().log(f"{batch.label}: {known}")
        return None
    return _watch_rows(champion, batch, loaded, refit)


def _watch_next(champion: WatchedChampion, upcoming: NextBatch, refit: bool) -> Watch | None:
    """Return the check of the next batch that was not checked, None if there is none yet."""
    for batch in upcoming.choices(champion.config):
        try:
            loaded = load_table(batch.config.data, read_settings())
        except AbsentFileError as error:
            run_log().log(f"{upcoming.label}: {batch.label} does not exist yet. {error}")
            return None
        if not _known(champion, loaded, refit):
            return _watch_rows(champion, batch, loaded, refit)
    run_log().log(f"{upcoming.label}: all available batches were checked before")
    return None


def _known(champion: WatchedChampion, loaded: Loaded, refit: bool) -> str:
    """Return why rows need no check, an empty string if they do."""
    version = champion.version
    if loaded.digest == champion.data or loaded.digest.startswith(champion.parts):
        return f"the rows that version {version.version} was chosen on, nothing new"
    place = champion.config.experiment, version.model, loaded.digest
    return "checked before" if is_watched(read_settings(), *place, refit=refit) else ""


def _watch_rows(champion: WatchedChampion, batch: Batch, loaded: Loaded, refit: bool) -> Watch:
    """Check new rows, refit if a band is crossed and a refit is requested."""
    found = check_batch(champion, batch, loaded)
    run_log().log(f"{batch.label}: {found.reason}")
    # Recorded before the refit, which may fail.
    keep(champion, found)
    if found.reasons and refit:
        found = replace(found, refit=refit_champion(champion, batch, loaded))
        run_log().log(f"{batch.label}: {found.refit.why if found.refit else ''}")
        keep(champion, found)
    return found


def refit_champion(champion: WatchedChampion, batch: Batch, added: Loaded) -> Refit:
    """Run the champion's configuration on its own rows and the new ones; register the result.

    It becomes the champion only if a configured gate and all other checks let it pass.
    """
    start, settings, version = time.monotonic(), read_settings(), champion.version
    before = champion_rows(settings, champion)
    rows = join_tables(before, added, settings)
    run_log().log(
        f"{batch.label}: refit on {before.table.n:,} rows of version {version.version} and "
        f"{added.table.n:,} new rows"
    )
    study = open_study(_refit_config(champion), settings, rows)
    fit_studies([study])
    study = study.again()
    try:
        study, told = judge_refit(study, champion, before.table.n)
    except NoChampionError as error:
        told = Refit("", False, f"no model could be chosen with {batch.label}: {error}")
    outcome = finish(study, start)
    run_log().log(f"{batch.label}: report of the refit: {outcome.paths['report']}")
    known = [one for one in versions_of(settings, version.model) if one.key == told.champion]
    if told.promoted or not told.champion or not known:
        return told
    promote = f"fkd promote {version.model} --version {known[0].version} --who ... --why ..."
    return replace(told, why=f"{told.why}. Promote it with `{promote}`")


def _refit_config(champion: WatchedChampion) -> RunConfig:
    """Return the champion's configuration under a name, hence with a folder, of its own."""
    config = champion.config
    name = f"{config.name.removesuffix(_REFIT)[:90]}{_REFIT}"
    tracking = TrackingConfig(experiment=config.experiment, model=champion.version.model)
    data = config.data
    if data.path is not None:  # the title of a user's table is the name of its file
        title = f"{data.declaration.title.removesuffix(_NEWER)[:60]}{_NEWER}"
        data = data.model_copy(update={"title": title})
    return config.model_copy(update={"name": name, "tracking": tracking, "data": data})


@step("log to MLflow")
def keep(champion: WatchedChampion, found: Watch) -> str:
    """Record a check in MLflow and return its run."""
    settings = read_settings()
    if found.refit is not None and found.refit.champion:
        record_refit_reason(settings, found, found.refit.champion)
    return record_watch(settings, champion.config.experiment, champion.version, found)


class BandCrossedError(UserError):
    """New rows crossed a band, and no refit was promoted."""

    exit_code = 3


@dataclass(frozen=True)
class WatchedModel:
    """A watched model and its hooks."""

    name: str
    hooks: HooksConfig = field(default_factory=HooksConfig)


def end_watch(watched: WatchedModel, found: Sequence[Watch], page: str) -> None:
    """Call the hooks for each check; raise if rows crossed a band and no refit was promoted."""
    problems: list[str] = []
    for one in found:
        hook = watched.hooks.on_failure if one.verdict == CROSSED else watched.hooks.on_success
        problems += call_hook(hook, message_of(one, page))
    left = [one for one in found if one.reasons and (not one.refit or not one.refit.promoted)]
    if left:
        rows = ", ".join(one.rows_from for one in left)
        refits = [f"{one.refit.why}." for one in left if one.refit is not None]
        remedy = refits or [
            "The champion was not changed. --refit fits a candidate on old and new rows."
        ]
        text = f"{rows} crossed the band of {watched.name}."
        raise BandCrossedError(" ".join([text, *remedy, *problems]))
    if problems:
        raise UserError(" ".join(dict.fromkeys(problems)))


def message_of(found: Watch, page: str) -> dict[str, Any]:
    """Return the message of a check for hooks."""
    return {
        "name": found.model,
        "state": found.verdict,
        "problem": found.reason if found.reasons else None,
        "version": found.version,
        "rows_from": found.rows_from,
        "rows": found.changes.rows[1],
        "chance": found.changes.chance,
        "refit": None if found.refit is None else found.refit.why,
        "promoted": found.refit is not None and found.refit.promoted,
        "history": page,
    }


Named = Annotated[tuple[str, ...], Parameter(name="--data", consume_multiple=True)]


def watch_model(
    model: str,
    /,
    *,
    data: Named = (),
    cron: str | None = None,
    every: float | None = None,
    hooks: Path | None = None,
    refit: bool = False,
) -> None:
    """Check a champion on new rows.

    Parameters
    ----------
    model
        Name of the registered model, such as crimes.
    data
        New rows: files, patterns in quotes, or keys of the data such as "states=NJ year=2019";
        "year=next" and "states=next" are the next that was not checked.
    cron
        Repeat the check at these times until Ctrl-C, such as "0 3 * * 1": Mondays at three, UTC.
    every
        Seconds between two checks, instead of cron.
    hooks
        A YAML file with `hooks` to call after every check, such as the run's configuration.
    refit
        If a band is crossed, refit on the rows of the champion and the new ones. The result is
        registered as a candidate; only a configured gate that it passes makes it the champion.
    """
    check_address_space(run=True)
    clear_leftovers()
    settings = read_settings()
    ensure_writable(settings.home)
    if cron is not None or every is not None:
        from flows.schedule import serve_watch

        serve_watch(model, data, cron=cron, every=every, hooks=hooks, refit=refit)
        return
    watched = WatchedModel(model) if hooks is None else WatchedModel(model, read_hooks(hooks))
    from tasks.monitor.champion import watched_champion
    from tasks.monitor.check import read_batches

    # Before a server starts, so that a mistyped name or file is reported at once.
    read_batches(watched_champion(settings, model).config, data)
    from flows.outcome import failure_hooks
    from tasks.servers.servers import prefect_server

    with prefect_server(settings), failure_hooks([watched]):
        # Prefect reads its environment variables when it is first imported.
        from flows.monitor import watch

        found = watch(model, list(data), refit)
    _show(found)
    from tasks.report.history_page import history_path

    end_watch(watched, found, str(history_path(settings, model)))


def _show(found: list[Watch]) -> None:
    """Print one line per check."""
    console = Console(highlight=False)
    for watch in found:
        if is_json():
            why = None if watch.refit is None else watch.refit.why
            fields = {"run": watch.model, "rows_from": watch.rows_from, "verdict": watch.verdict}
            write_line("info", "result", watch.reason, **fields, refit=why)
            continue
        colour = "bold red" if watch.verdict == CROSSED else "green"
        console.print(
            f"[bold]{escape(watch.rows_from)}[/bold] [{colour}]{escape(watch.reason)}[/{colour}]",
            soft_wrap=True,
        )
        if watch.refit is not None:
            console.print(f"   {escape(watch.refit.why)}", soft_wrap=True)
