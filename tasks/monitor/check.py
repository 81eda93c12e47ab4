"""Compare new rows with the held-out record of a champion."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from configs.errors import UserError
from configs.run import RunConfig
from fkd.core.arrays import Array
from fkd.measures import CurveChange, Interval, NumberChange, SampleChanges, compare, sample_changes
from fkd.measures.drift import ERROR_RANK
from fkd.measures.profiles import ABSOLUTE, ERROR, PREDICTION
from tasks.data.load import Loaded
from tasks.monitor.batches import Batch
from tasks.monitor.champion import WatchedChampion
from tasks.select.champion import select_champion
from tasks.select.checks import CheckOutcome, check_study
from tasks.select.held_out import predicted_targets
from tasks.select.judgement import DRAWS, broken_limits
from tasks.select.study import Study
from tasks.storage.records import digest
from tasks.storage.settings import Settings
from tasks.track.client import TimedClient
from tasks.track.registry import KnownVersion, registry_call, tag_version, versions_of
from tasks.track.run_index import now
from tasks.track.runs import RunDetails, Tracking, metric_name, prepare_stores, read_file

VERSION = 2  # to be raised whenever a look's numbers change; part of what it is found by
QUIET, CROSSED = "quiet", "crossed"


@dataclass(frozen=True)
class Refit:
    """The result of refitting on the rows of the champion and those that crossed."""

    title: str  # of the model that was chosen there, empty where none could be
    promoted: bool
    why: str
    champion: str = ""  # the key that its version is found by


@dataclass(frozen=True)
class Watch:
    """What a champion does on new rows, beside its record.

    Parameters
    ----------
    model, version, title
        Which registered version was looked at.
    rows_from
        Which rows it was shown, in words.
    data
        The digest of these rows.
    at
        When, in ISO form.
    target, unit
        What is predicted, in what errors and curves are counted.
    changes
        Numbers and curves with their bands; GDP as a share of the target's range, as limits are.
    reasons
        Why it counts as crossed, in sentences; none where it is quiet.
    refit
        The refit, None if there was none.
    """

    model: str
    version: int
    title: str
    rows_from: str
    data: str
    at: str
    target: str
    unit: str
    changes: SampleChanges
    reasons: tuple[str, ...] = ()
    refit: Refit | None = None
    words: Mapping[str, str] = field(default_factory=dict)  # for measured columns

    @property
    def verdict(self) -> str:
        """Whether something has changed, in one word."""
        return CROSSED if self.reasons else QUIET

    @property
    def reason(self) -> str:
        """The verdict with its reasons, in one line."""
        if not self.reasons:
            return f"quiet: nothing outside the band (p = {self.changes.chance:.3g})"
        return f"crossed: {'; '.join(self.reasons)}"

    def with_refit(self, refit: Refit) -> Self:
        """Return the look with what was done about it."""
        return replace(self, refit=refit)

    def to_json(self) -> str:
        """Return the look as text; what is not known there is null."""
        return json.dumps({"watch": VERSION, **asdict(self)}, default=_listed, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the look whose text this is."""
        plain: dict[str, Any] = json.loads(text)
        plain.pop("watch")
        changes = plain.pop("changes")
        return cls(
            **{
                **plain,
                "reasons": tuple(plain["reasons"]),
                "refit": plain["refit"] and Refit(**plain["refit"]),
                "changes": SampleChanges(
                    tuple(NumberChange(**one) for one in changes["numbers"]),
                    tuple(_curve(one) for one in changes["curves"]),
                    changes["chance"],
                    tuple(changes["rows"]),
                    changes["level"],
                ),
            }
        )


def _listed(value: Any) -> Any:
    """Return an array as a list, NaN as null."""
    if isinstance(value, np.ndarray):
        if value.dtype == bool:
            return value.tolist()
        return [None if np.isnan(one) else one for one in value.tolist()]
    raise TypeError(f"a look holds numbers, text and arrays, got {type(value).__name__}")


def _curve(plain: Mapping[str, Any]) -> CurveChange:
    """Return a curve whose arrays JSON made lists."""
    arrays: dict[str, Array] = {
        name: np.array([np.nan if one is None else one for one in value], dtype=np.float64)
        for name, value in plain.items()
        if isinstance(value, list) and name != "crossed"
    }
    return CurveChange(**{**plain, **arrays, "crossed": np.array(plain["crossed"], dtype=bool)})


ERRORS = {
    "mae": "mean absolute error",
    ERROR: "mean signed error",
    ERROR_RANK: "mean rank of the signed error",
}
CURVES = {
    PREDICTION: "mean prediction",
    ERROR: "mean signed error",
    ABSOLUTE: "mean absolute error",
    ERROR_RANK: "mean rank of the signed error",
}


def reasons_of(watch: Watch, limits: Mapping[str, float]) -> tuple[str, ...]:
    """Return one sentence per number and curve outside the band, then per limit left behind.

    A limit is left behind where the record kept it and the whole band of the new value lies above.
    """
    changes = watch.changes
    return (
        *(number_words(watch, one) for one in changes.numbers if one.crossed),
        *(_curve_sentence(watch, one) for one in changes.curves if one.crossed.any()),
        *(
            f"{one.quantity} on {one.column} is {one.after:.4f} with a band from "
            f"{_lowest(one):.4f} on, above the limit {limits[one.quantity]:g}"
            for one in changes.numbers
            if one.quantity in limits and one.before <= limits[one.quantity] < _lowest(one)
        ),
    )


def number_words(watch: Watch, one: NumberChange) -> str:
    """Return a number's way from record to new rows."""
    name = ERRORS[one.quantity] if not one.column else f"{one.quantity} on {one.column}"
    moved = "rose" if one.change > 0 else "fell"
    shown = [short(value) for value in (one.before, one.after, one.change, one.low, one.high)]
    unit = f" {word}" if not one.column and (word := unit_of(watch, one.quantity)) else ""
    before, after, change, low, high = shown
    return f"{name} {moved} from {before} to {after}{unit} (by {change}, band {low} to {high})"


def unit_of(watch: Watch, quantity: str) -> str:
    """Return what an error or a curve is counted in; nothing for a rank, which is a share."""
    return "" if quantity == ERROR_RANK else watch.unit


def short(value: float) -> str:
    """Return a number with four figures, thousands apart, without an exponent."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return np.format_float_positional(float(f"{value:.4g}"), trim="-")


def _curve_sentence(watch: Watch, one: CurveChange) -> str:
    """Return where a curve moved most among the points outside the band."""
    where = np.flatnonzero(one.crossed)
    most = where[np.argmax(np.abs(one.change[where]))]
    word = "higher" if one.change[most] > 0 else "lower"
    unit = f" {named}" if (named := unit_of(watch, one.quantity)) else ""
    return (
        f"{CURVES[one.quantity]} along {one.column} moved at {len(where)} of {len(one.points)} "
        f"points, most at {short(one.points[most])}: {short(abs(one.change[most]))}{unit} {word} "
        f"(band {short(one.low[most])} to {short(one.high[most])})"
    )


def _lowest(one: NumberChange) -> float:
    """Return the lower end of the band around the new value."""
    return one.after - (one.high - one.low) / 2


PERMUTATIONS = 199


def look(champion: WatchedChampion, batch: Batch, loaded: Loaded) -> Watch:
    """Return what the champion does on rows that were loaded."""
    config = champion.config
    changes = _changes(champion, batch, loaded)
    problem = config.data.declaration
    found = Watch(
        model=champion.version.model,
        version=champion.version.version,
        title=champion.version.title,
        rows_from=batch.label,
        data=loaded.digest,
        at=now(),
        target=problem.titles.get(problem.target, problem.target),
        unit=problem.target_unit,
        changes=changes,
        words={name: problem.titles.get(name, name) for name in champion.record.columns},
    )
    return replace(found, reasons=reasons_of(found, strictest_limits(config)))


def strictest_limits(config: RunConfig) -> Mapping[str, float]:
    """Return the stricter of the limits that choosing and the gate have on each measure."""
    chosen = {} if config.select is None else dict(config.select.subject_to)
    both = (chosen, config.gate)
    names = dict.fromkeys(name for limits in both for name in limits)
    return {name: min(limits[name] for limits in both if name in limits) for name in names}


def _changes(champion: WatchedChampion, batch: Batch, loaded: Loaded) -> SampleChanges:
    """Return numbers and curves of record and new rows."""
    table, record = loaded.table, champion.record
    low, high = record.target_range
    absent = [name for name in record.columns if name not in table.sensitive_names]
    if absent:
        raise UserError(
            f"the new rows must have the measured column {absent[0]}; {batch.label} has "
            f"{', '.join(table.sensitive_names)}."
        )
    places = [table.sensitive_names.index(name) for name in record.columns]
    try:
        found = sample_changes(
            (record.y, record.y_pred, record.S),
            (table.target, champion.predictions(table), table.sensitive[:, places]),
            rng=np.random.default_rng(champion.config.seed),
            names=record.columns,
            sensitive_range=record.sensitive_range,
            permutations=PERMUTATIONS,
        )
    except ValueError as error:
        raise UserError(f"{batch.label} cannot be compared with the record: {error}.") from error
    return replace(
        found,
        numbers=tuple(
            replace(
                one,
                **{
                    name: getattr(one, name) / (high - low)
                    for name in ("before", "after", "change", "low", "high")
                },
            )
            if one.quantity == "gdp"
            else one
            for one in found.numbers
        ),
    )


def judged_refit(
    study: Study, champion: WatchedChampion, first_new: int = 0
) -> tuple[Study, Refit]:
    """Return the study with the reasons against promoting its champion, and the decision.

    Parameters
    ----------
    study
        The refit, on the rows of the champion followed by the new rows.
    champion
        The model that it may replace.
    first_new
        Position of the first new row.
    """
    chosen = select_champion(study)
    against = refusals(study, champion, first_new)
    if not study.config.gate:
        against = (*against, "no gate is configured")
    broken = broken_limits(chosen.judgement, study.config.gate)
    why = [*broken, *against]
    said = (
        f"refitted: {chosen.title} stays a candidate: {'; '.join(why)}"
        if why
        else f"refitted: {chosen.title} is promoted, it passed the gate and every check"
    )
    return replace(study, refused=against), Refit(chosen.title, not why, said, chosen.key)


def refusals(study: Study, champion: WatchedChampion, first_new: int = 0) -> tuple[str, ...]:
    """Return the reasons against the study's champion, apart from the limits of the gate.

    A check found an issue that the old champion did not have, or the error on the held-out rows
    among the new ones is greater than the old champion's. Other held-out rows are not compared:
    the old champion may have been fitted on them.
    """
    found = [
        f"check {result.check.code} found an issue that version {champion.version.version} did "
        f"not have: {result.message.rstrip('.')}"
        for result in check_study(study)
        if result.outcome is CheckOutcome.ISSUE and result.check.code not in champion.issues
    ]
    table = study.loaded.table
    new = study.inputs.splits.held_out_fold(table).test >= first_new
    if not new.any():
        return (*found, "none of the new rows is held out, so its error cannot be compared")
    change = _error_change(study, champion, new)
    if change is not None and float(change.low) > 0:
        found.append(
            f"its mean absolute error on the new held-out rows is greater by "
            f"{short(float(change.estimate))} ({short(float(change.low))} to "
            f"{short(float(change.high))}) than that of version {champion.version.version}"
        )
    return tuple(found)


def _error_change(
    study: Study, champion: WatchedChampion, new: NDArray[np.bool_]
) -> Interval | None:
    """Return the new model's error minus the old one's on the new ones of the held-out rows."""
    table = study.loaded.table
    test = table.take(study.inputs.splits.held_out_fold(table).test[new])
    f = predicted_targets(study, select_champion(study).trial)
    if f is None:
        return None
    f = f[new]
    y, rng = test.target, np.random.default_rng(study.config.seed)
    before = champion.predictions(test)
    return compare(_mae, (f, y), (before, y), rng=rng, replicates=DRAWS).difference


def _mae(f: Array, y: Array) -> float:
    """Mean absolute error."""
    return float(np.abs(f - y).mean(axis=0))


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

    oldest_first = registry_call(settings, work)[::-1]  # MLflow lists the newest run first
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
