"""The watch as a Prefect flow: look at new rows, fit anew where a band is crossed, keep why."""

import time
from collections.abc import Sequence

from prefect import flow

from flows.experiment import conclude, fit, load
from flows.progress import watcher
from flows.run_label import watch_run_name
from flows.run_page import post_markdown, tagged_run
from flows.stage import stage
from tasks.adapters.markdown import plain_markdown
from tasks.adapters.settings import read_settings
from tasks.data.fetch import AbsentFileError
from tasks.data.load import load_table
from tasks.data.prepared import Loaded
from tasks.report.history_page import write_history
from tasks.study.selection import NoChampionError
from tasks.watch.batches import Batch, NextBatch, read_batches
from tasks.watch.looking import look
from tasks.watch.refit_judgement import judged_refit
from tasks.watch.watch_log import is_watched, record_watch, tell_origin
from tasks.watch.watch_values import Refit, Watch
from tasks.watch.watched_champion import WatchedChampion, watched_champion


@flow(name="watch", flow_run_name=watch_run_name, persist_result=False)
def watch(model: str, data: Sequence[str]) -> list[Watch]:
    """Look at new rows, batch by batch; return what was found in those not seen before.

    Parameters
    ----------
    model : the registered name of the champion.
    data : new rows, each a file, a pattern of files, or keys of the data.
    """
    return watch_all(model, data)[0]


def watch_all(model: str, data: Sequence[str]) -> tuple[list[Watch], str]:
    """Look at everything that was named; return what is new, then where the history lies."""
    with tagged_run([f"model:{model}"]):
        batches = read_batches(watched_champion(read_settings(), model).config, data)
        if not batches:
            watcher().say(f"no file matches {', '.join(data)} yet")
        found = [one for batch in batches if (one := watch_batch(model, batch)) is not None]
        page = str(write_history(read_settings(), model))
        watcher().say(f"history: {page}")
        if found:
            lines = [f"- {plain_markdown(f'{one.rows_from}: {one.reason}')}" for one in found]
            post_markdown(f"watch-{model}", "\n".join(lines), f"Watch of {model}")
    return found, page


def watch_batch(model: str, batch: Batch | NextBatch) -> Watch | None:
    """Return what one batch shows, None where it was seen before; the champion is read anew."""
    champion = watched_champion(read_settings(), model)
    if isinstance(batch, NextBatch):
        return _watch_next(champion, batch)
    loaded = load_table(batch.config.data, read_settings())
    if known := _known(champion, loaded):
        watcher().say(f"{batch.label}: {known}")
        return None
    return _watch_rows(champion, batch, loaded)


def _watch_next(champion: WatchedChampion, upcoming: NextBatch) -> Watch | None:
    """Return what the first rows show that were not looked at; None where they are not there."""
    for batch in upcoming.choices(champion.config):
        try:
            loaded = load_table(batch.config.data, read_settings())
        except AbsentFileError as error:
            watcher().say(f"{upcoming.label}: {batch.label} is not there yet. {error}")
            return None
        if not _known(champion, loaded):
            return _watch_rows(champion, batch, loaded)
    watcher().say(f"{upcoming.label}: all there is was looked at before")
    return None


def _known(champion: WatchedChampion, loaded: Loaded) -> str:
    """Return why rows need no look, nothing where they do."""
    version = champion.version
    if loaded.digest == champion.data:
        # A pattern may well match them.
        return f"the rows that version {version.version} was chosen on, nothing new"
    seen = is_watched(read_settings(), champion.config.experiment, version.model, loaded.digest)
    return "looked at before" if seen else ""


def _watch_rows(champion: WatchedChampion, batch: Batch, loaded: Loaded) -> Watch:
    """Return what rows show that were not looked at; where they crossed, a model is fitted anew."""
    found = look(champion, batch, loaded)
    watcher().say(f"{batch.label}: {found.reason}")
    if found.reasons:
        found = found.with_refit(refit(champion, batch))
        watcher().say(f"{batch.label}: {found.refit.why if found.refit else ''}")
    keep(champion, found)
    return found


def refit(champion: WatchedChampion, batch: Batch) -> Refit:
    """Run the champion's configuration on the new rows; it is promoted through the checks."""
    start = time.monotonic()
    studies = load([batch.config])
    fit(studies)
    study = studies[0].again()
    try:
        study, told = judged_refit(study, champion)
    except NoChampionError as error:
        told = Refit("", False, f"no model could be chosen on {batch.label}: {error}")
    conclude(study, start)
    return told


@stage
def keep(champion: WatchedChampion, found: Watch) -> str:
    """Put a look on MLflow, with its reason; return its run."""
    settings = read_settings()
    if found.refit is not None and found.refit.champion:
        tell_origin(settings, found, found.refit.champion)
    return record_watch(settings, champion.config.experiment, champion.version, found)
