"""Record checks of new rows in MLflow, and read them back."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from tasks.monitor.check import QUIET, VERSION, Watch
from tasks.storage.records import digest
from tasks.storage.settings import Settings
from tasks.track.client import TimedClient
from tasks.track.registry import KnownVersion, tag_version, told, versions_of
from tasks.track.runs import RunDetails, Tracking, metric_name, prepare_stores, read_file

_FILE = "watch.json"
_MODEL, _VERDICT, _REASON = "fkd.watch.model", "fkd.watch", "fkd.watch.reason"
_REFIT = "fkd.watch.refit"
_LONGEST = 4000  # characters; MLflow refuses a tag of more than 5000
_AT_ONCE = 1000


def record_watch(settings: Settings, experiment: str, version: KnownVersion, watch: Watch) -> str:
    """Return the run that holds a look; the version says what the last one found."""
    tracking = Tracking(settings, experiment)
    name = f"watch {watch.model} {watch.version} on {watch.rows_from}"
    said = {
        _MODEL: watch.model,
        "fkd.watch.version": str(watch.version),
        "fkd.watch.at": watch.at,
        **_said(watch),
    }
    details = RunDetails(note=watch.reason)
    run = tracking.parent_run(_identity(watch.model, watch.data), name, said, details)

    def work() -> None:
        for metric, value in _metrics(watch).items():
            tracking.client.log_metric(run, metric, value)

    tracking.safely(work)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / _FILE).write_text(watch.to_json(), encoding="utf-8")
        tracking.finish(run, said, Path(folder))
    tag_version(settings, version, {**_said(watch), "fkd.watch.at": watch.at})
    return run


def tell_origin(settings: Settings, watch: Watch, champion: str) -> None:
    """Say on the version of a champion, by its key, that it was fitted because of a look."""
    said = f"{watch.rows_from} {watch.reason}"[:_LONGEST]
    for version in versions_of(settings, watch.model):
        if version.key == champion:
            tag_version(settings, version, {"fkd.because": said})


def is_watched(
    settings: Settings, experiment: str, model: str, data: str, *, refit: bool = False
) -> bool:
    """Return whether a champion of that name was shown rows of that digest before.

    With `refit`, rows that crossed a band count only if a model was fitted because of them.
    """
    tracking = Tracking(settings, experiment)
    run = tracking.find_parent(_identity(model, data))
    seen = run is not None and tracking.is_complete(run)
    if not seen or not refit:
        return seen
    tags = tracking.safely(lambda: tracking.client.get_run(run)).data.tags
    return tags.get(_VERDICT) == QUIET or _REFIT in tags


def known_watches(settings: Settings, model: str) -> list[Watch]:
    """Return every look at a model's champions, the first one first."""
    prepare_stores(settings)
    client = TimedClient(settings)

    def work() -> list[Watch]:
        places = [one.experiment_id for one in client.search_experiments()]
        runs = client.search_runs(places, f"tags.`{_MODEL}` = '{model}'", max_results=_AT_ONCE)
        texts = (read_file(client, run.info.run_id, _FILE) for run in runs)
        # A look whose file is not there yet was cut off; the same command makes it again.
        return [Watch.from_json(text.decode()) for text in texts if text is not None]

    oldest_first = told(settings, work)[::-1]  # MLflow lists the newest run first
    # `at` has whole seconds. Sorting keeps the order of looks within one second.
    return sorted(oldest_first, key=lambda watch: watch.at)


def _identity(model: str, data: str) -> str:
    """Return what a look is found by: rows are shown to a model's champions once."""
    return digest({"watch": VERSION, "model": model, "data": data})


def _said(watch: Watch) -> Mapping[str, str]:
    """Return verdict, reason and what was done, as tags."""
    done = {} if watch.refit is None else {_REFIT: watch.refit.why[:_LONGEST]}
    return {_VERDICT: watch.verdict, _REASON: watch.reason[:_LONGEST], **done}


def _metrics(watch: Watch) -> dict[str, float]:
    """Return each number on the new rows with its change and the band of that."""
    found = {"watch/chance": watch.changes.chance}
    for one in watch.changes.numbers:
        name = one.quantity if not one.column else f"{one.quantity}.{one.column}"
        for ending in ("after", "change", "low", "high"):
            found[metric_name(f"watch/{name}_{ending}")] = getattr(one, ending)
    return found
