"""Check a champion on new rows: load it, read batches, compare with its record, write results."""

import datetime
import json
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import yaml
from mlflow.entities import Metric

from configs.data import later_releases, other_states
from configs.errors import UserError
from configs.load import apply_overrides, parse_config, set_path
from configs.run import RunConfig
from fkd.core.arrays import Array
from fkd.measures import (
    REPORTED,
    CurveChange,
    NumberChange,
    SampleChanges,
    compare,
    sample_changes,
)
from fkd.measures.drift import ERROR_RANK
from fkd.measures.profiles import ABSOLUTE, ERROR, PREDICTION
from fkd.problems.bundle import NonFinitePredictionError
from fkd.problems.table import Table
from tasks.data.load import Loaded, load_table, read_prepared
from tasks.data.user_table import raw_frame
from tasks.select.champion import select_champion
from tasks.select.checks import CheckOutcome, check_study
from tasks.select.judgement import (
    DRAWS,
    HeldOutRecord,
    broken_limits,
    held_out_record_name,
    predicted_targets,
    strictest,
)
from tasks.select.study import Study
from tasks.storage.files import unpack_npz
from tasks.storage.records import digest
from tasks.storage.settings import Settings
from tasks.track.client import TimedClient
from tasks.track.registry import (
    KnownVersion,
    champion_version,
    fetch_bundle,
    registry_call,
    tag_version,
    versions_of,
)
from tasks.track.run_index import now
from tasks.track.runs import RunDetails, Tracking, metric_name, prepare_stores, read_file

_KEY = re.compile(r"^\w+=")
_PATTERN = re.compile(r"[*?\[]")
_NEXT = re.compile(r"(?<!\S)(year|states)=next(?!\S)")
VERSION = 2  # of the numbers of a check, part of its identity; raise it if they change
PERMUTATIONS = 199
QUIET, CROSSED = "quiet", "crossed"
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
_FILE = "watch.json"
_MODEL, _VERDICT, _REASON = "fkd.watch.model", "fkd.watch", "fkd.watch.reason"
_REFIT = "fkd.watch.refit"
_LONGEST = 4000  # characters; MLflow refuses a tag of more than 5000
_AT_ONCE = 1000


@dataclass(frozen=True)
class WatchedChampion:
    """A registered champion with everything that a check of new rows needs.

    Parameters
    ----------
    version
        Its version in the registry.
    config
        The configuration of the run that chose it.
    record
        Its predictions of the held-out rows.
    predict, inputs
        The registered model and its input columns.
    data, parts
        The digest of the rows on which it was chosen, and prefixes of the digests of tables that
        were joined into these rows.
    """

    version: KnownVersion
    config: RunConfig
    record: HeldOutRecord
    predict: Callable[[pd.DataFrame], Any]
    inputs: tuple[str, ...]
    data: str
    parts: tuple[str, ...] = ()

    def predictions(self, table: Table) -> Array:
        """Return the predictions of the registered model in the unit of the target."""
        name = f"{self.version.model} version {self.version.version}"
        try:
            frame = raw_frame(table, self.inputs)
        except ValueError as error:
            raise UserError(
                f"{error}. {name} needs {len(self.inputs)} columns; its signature in MLflow lists "
                "them."
            ) from None
        try:
            return np.asarray(self.predict(frame), dtype=np.float64).ravel()
        except NonFinitePredictionError as error:
            raise UserError(
                f"{name} cannot predict these rows: {error}. Check the inputs of these rows."
            ) from error


def watched_champion(settings: Settings, model: str) -> WatchedChampion:
    """Return the champion of a registered model."""
    version = champion_version(settings, model)
    tags: Mapping[str, str] = {}
    record = config = None
    if version.run:
        client = TimedClient(settings)
        tags, record, config = registry_call(
            settings,
            lambda: (
                client.get_run(version.run).data.tags,
                read_file(client, version.run, held_out_record_name(version.key)),
                read_file(client, version.run, "config.yaml"),
            ),
        )
    if record is None or config is None:
        raise UserError(
            f"{model} version {version.version} has no record of its held-out rows. Run its "
            "configuration again by `fkd run`, which adds the record."
        )
    tree = yaml.safe_load(config)
    tree.pop("hooks", None)  # their addresses were shortened in the recorded file
    bundle = fetch_bundle(settings, f"models:/{model}/{version.version}").bundle()
    return WatchedChampion(
        version,
        parse_config(tree, f"config.yaml of {model} version {version.version}"),
        HeldOutRecord.from_arrays(unpack_npz(record)),
        bundle.predict,
        bundle.input_columns,
        tags.get("fkd.data", ""),
        tuple(tags.get("fkd.data.parts", "").split()),
    )


def champion_rows(settings: Settings, champion: WatchedChampion) -> Loaded:
    """Return the rows on which a champion was chosen; raise an error if only others are left."""
    found, reason = read_prepared(settings, champion.data), "the source has other rows now"
    if found is None:
        try:
            found = load_table(champion.config.data, settings)
        except UserError as error:
            reason = str(error).rstrip(".")
    if found is None or found.digest != champion.data:
        raise UserError(
            f"--refit needs the rows that {champion.version.model} version "
            f"{champion.version.version} was chosen on (digest {champion.data[:12]}). They are not "
            f"in the store {settings.store}, and cannot be read again: {reason}. Restore them, or "
            "fit a configuration that names old and new rows with `fkd run`."
        )
    return found


@dataclass(frozen=True)
class Batch:
    """Rows of one check: the configuration of the champion with other data."""

    label: str
    config: RunConfig


@dataclass(frozen=True)
class NextBatch:
    """The first year or state after those of the champion that was not checked."""

    label: str

    def choices(self, config: RunConfig) -> list[Batch]:
        """Return the batches of the years or states after those of a configuration, in order."""
        (key,) = _NEXT.findall(self.label)
        data = config.data
        values: Sequence[object] = other_states(data.states)
        if key == "year":
            today = datetime.datetime.now(tz=datetime.UTC).year
            values = later_releases(max(data.year), data.horizon or "1-Year", today)
        return [_from_keys(config, _NEXT.sub(f"{key}={one}", self.label)) for one in values]


def read_batches(config: RunConfig, named: Sequence[str]) -> list[Batch | NextBatch]:
    """Return the batches of new rows in the given order, files of a pattern by name.

    Parameters
    ----------
    config
        The configuration of the champion, of which the data are replaced.
    named
        Each a file, a pattern such as `months/2026-*.csv`, or keys of `data` such as
        `states=NJ year=2019`; `next` is the next year or state that was not checked.
    """
    if not named:
        raise UserError(
            "--data must name new rows: a file, a pattern of files in quotes, or keys of the data "
            'such as "states=NJ year=2019".'
        )
    batches: list[Batch | NextBatch] = []
    for text in named:
        if _NEXT.search(text):
            batches.append(_next_batch(config, text))
        elif _KEY.match(text):
            batches.append(_from_keys(config, text))
        else:
            batches += _from_files(config, text)
    return batches


def absolute_path(text: str) -> str:
    """Return a file or pattern with its absolute path; keys of the data are unchanged."""
    return text if _KEY.match(text) else str(Path(text).expanduser().absolute())


def _from_keys(config: RunConfig, text: str) -> Batch:
    """Return the batch of keys of the data."""
    words = [f"data.{word}" for word in text.split()]
    tree = apply_overrides(config.model_dump(mode="json"), words)
    return Batch(text, parse_config(tree, f"--data {text}"))


def _next_batch(config: RunConfig, text: str) -> NextBatch:
    """Return the batch of the next year or state; raise an error if there is none."""
    keys = _NEXT.findall(text)
    if len(keys) > 1:
        raise UserError(
            f"--data {text} must leave one thing open, got {' and '.join(keys)}. Name a state or a "
            "year, or use one --data for each."
        )
    if not config.data.states:
        raise UserError(
            f"--data {text} is for census files, which have a state and a year. The champion was "
            f"chosen on {config.data.problem}. Name "
            f"{'files by a pattern in quotes' if config.data.path else 'other keys'}."
        )
    batch = NextBatch(text)
    if not batch.choices(config):
        raise UserError(
            f"--data {text} has nothing to come. The champion was chosen on "
            f"{', '.join(config.data.states)} of {max(config.data.year)}, {config.data.horizon}. "
            "Name states or a year."
        )
    return batch


def _from_files(config: RunConfig, text: str) -> list[Batch]:
    """Return the batches of a file or of the files that match a pattern, by name."""
    if config.data.path is None:
        source = list(config.data.declaration.sources)[-1]
        example = "states=NJ year=2019" if config.data.states else f"source={source}"
        raise UserError(
            f"--data must be keys of the data for {config.data.problem}, such as "
            f'"{example}", got {text!r}. Files are for tables of your own.'
        )
    paths = [absolute_path(text)]
    if _PATTERN.search(paths[0]):
        root = Path(Path(paths[0]).anchor)
        paths = sorted(str(path) for path in root.glob(str(Path(paths[0]).relative_to(root))))
    batches = []
    for path in paths:
        tree = set_path(config.model_dump(mode="json"), "data.path", path)
        batches.append(Batch(Path(path).name, parse_config(tree, f"--data {path}")))
    return batches


@dataclass(frozen=True)
class Refit:
    """The result of a refit on the rows of the champion and the new rows.

    Parameters
    ----------
    title
        The chosen model, empty if none could be chosen.
    promoted
        True if it became the champion.
    why
        The reason as a sentence.
    champion
        The key of its version in the registry.
    """

    title: str
    promoted: bool
    why: str
    champion: str = ""


@dataclass(frozen=True)
class Watch:
    """One check of new rows: a champion on these rows compared with its record.

    Parameters
    ----------
    model, version, title
        The registered version.
    rows_from, data
        A label of the rows, and their digest.
    at
        The time in ISO format.
    target, unit
        The predicted column and its unit.
    changes
        Numbers and curves with their bands. GDP is a share of the target's range, like limits.
    reasons
        One sentence per number or curve outside its band and per broken limit.
    refit
        The refit, None if there was none.
    words
        Titles of the measured columns.
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
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """The word quiet if nothing has changed, else crossed."""
        return CROSSED if self.reasons else QUIET

    @property
    def reason(self) -> str:
        """The verdict with its reasons in one line."""
        if not self.reasons:
            return f"quiet: nothing outside the band (p = {self.changes.chance:.3g})"
        return f"crossed: {'; '.join(self.reasons)}"

    def to_json(self) -> str:
        """Return the check as JSON, with null for NaN."""

        def plain(value: Any) -> Any:
            if value.dtype == bool:
                return value.tolist()
            return [None if np.isnan(one) else one for one in value.tolist()]

        return json.dumps({"watch": VERSION, **asdict(self)}, default=plain, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the check from JSON."""
        plain: dict[str, Any] = json.loads(text)
        del plain["watch"]
        changes = plain["changes"]
        changes["numbers"] = tuple(NumberChange(**one) for one in changes["numbers"])
        changes["rows"] = tuple(changes["rows"])
        for one in changes["curves"]:
            for name, value in one.items():
                if isinstance(value, list):
                    one[name] = np.array(value, dtype=bool if name == "crossed" else np.float64)
        changes["curves"] = tuple(CurveChange(**one) for one in changes["curves"])
        plain["changes"] = SampleChanges(**changes)
        plain["reasons"] = tuple(plain["reasons"])
        plain["refit"] = plain["refit"] and Refit(**plain["refit"])
        return cls(**plain)


def check_batch(champion: WatchedChampion, batch: Batch, loaded: Loaded) -> Watch:
    """Return the check of loaded rows."""
    problem = champion.config.data.declaration
    select = champion.config.select
    limits = strictest({} if select is None else select.subject_to, champion.config.gate)
    found = Watch(
        model=champion.version.model,
        version=champion.version.version,
        title=champion.version.title,
        rows_from=batch.label,
        data=loaded.digest,
        at=now(),
        target=problem.titles.get(problem.target, problem.target),
        unit=problem.target_unit,
        changes=_changes(champion, batch, loaded),
        words={name: problem.titles.get(name, name) for name in champion.record.columns},
    )
    return replace(found, reasons=reasons_of(found, limits))


def _changes(champion: WatchedChampion, batch: Batch, loaded: Loaded) -> SampleChanges:
    """Return the changes of numbers and curves from the record to the new rows."""
    table, record = loaded.table, champion.record
    absent = [name for name in record.columns if name not in table.sensitive_names]
    if absent:
        raise UserError(
            f"The new rows must have the measured column {absent[0]}. {batch.label} has "
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
    low, high = record.target_range

    def scaled(one: NumberChange) -> NumberChange:
        names = ("before", "after", "change", "low", "high")
        return replace(one, **{name: getattr(one, name) / (high - low) for name in names})

    in_units = {name for name, measure in REPORTED.items() if measure.unit == "prediction"}
    numbers = tuple(scaled(one) if one.quantity in in_units else one for one in found.numbers)
    return replace(found, numbers=numbers)


def reasons_of(watch: Watch, limits: Mapping[str, float]) -> tuple[str, ...]:
    """Return one sentence per number and curve outside its band, then per broken limit.

    A limit is broken if the record kept it and the whole band of the new value is above it.
    """
    sentences = []
    for one in watch.changes.numbers:
        if one.crossed:
            name = f"{one.quantity} on {one.column}" if one.column else ERRORS[one.quantity]
            unit = "" if one.column else _with_space(unit_of(watch, one.quantity))
            sentences.append(
                f"{name} {'rose' if one.change > 0 else 'fell'} from {short(one.before)} to "
                f"{short(one.after)}{unit} (by {short(one.change)} after correction for the "
                f"numbers of rows, band {short(one.low)} to {short(one.high)})"
            )
    for curve in watch.changes.curves:
        if curve.crossed.any():
            outside = np.flatnonzero(curve.crossed)
            most = outside[np.argmax(np.abs(curve.change[outside]))]
            unit = _with_space(unit_of(watch, curve.quantity))
            sentences.append(
                f"{CURVES[curve.quantity]} along {curve.column} moved at {len(outside)} of "
                f"{len(curve.points)} points, most at {short(curve.points[most])}: "
                f"{short(abs(curve.change[most]))}{unit} "
                f"{'higher' if curve.change[most] > 0 else 'lower'} "
                f"(band {short(curve.low[most])} to {short(curve.high[most])})"
            )
    for one in watch.changes.numbers:
        limit, lowest = limits.get(one.quantity), one.after - (one.high - one.low) / 2
        if limit is not None and one.before <= limit < lowest:
            sentences.append(
                f"{one.quantity} on {one.column} is {one.after:.4f} with a band from "
                f"{lowest:.4f} on, above the limit {limit:g}"
            )
    return tuple(sentences)


def unit_of(watch: Watch, quantity: str) -> str:
    """Return the unit of an error or a curve, empty for ranks, which are shares."""
    return "" if quantity == ERROR_RANK else watch.unit


def _with_space(unit: str) -> str:
    return f" {unit}" if unit else ""


def short(value: float) -> str:
    """Return a number with four digits and thousands separators, without an exponent."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return np.format_float_positional(float(f"{value:.4g}"), trim="-")


def judge_refit(study: Study, champion: WatchedChampion, first_new: int = 0) -> tuple[Study, Refit]:
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
    reasons = [*broken_limits(chosen.judgement, study.config.gate), *against]
    decision = (
        f"refitted: {chosen.title} stays a candidate: {'; '.join(reasons)}"
        if reasons
        else f"refitted: {chosen.title} is promoted, it passed the gate and every check"
    )
    return replace(study, refused=against), Refit(chosen.title, not reasons, decision, chosen.key)


def refusals(study: Study, champion: WatchedChampion, first_new: int = 0) -> tuple[str, ...]:
    """Return the reasons against the champion of a study, apart from the limits of the gate.

    A check found an issue that the old champion did not have, or the error on the held-out rows
    among the new ones is greater than that of the old champion. Other held-out rows are not
    compared: the old champion may have been fitted to them.
    """
    found = [
        f"check {result.check.code} found an issue that version {champion.version.version} did "
        f"not have: {result.message.rstrip('.')}"
        for result in check_study(study)
        if result.outcome is CheckOutcome.ISSUE and result.check.code not in champion.version.issues
    ]
    table = study.loaded.table
    held_out = study.inputs.splits.held_out_fold(table).test
    new = held_out >= first_new
    if not new.any():
        return (*found, "none of the new rows is held out, so its error cannot be compared")
    predicted = predicted_targets(study, select_champion(study).trial)
    if predicted is None:
        return tuple(found)
    test = table.take(held_out[new])
    after, before = (predicted[new], test.target), (champion.predictions(test), test.target)
    rng = np.random.default_rng(study.config.seed)

    def mae(f: Array, y: Array) -> float:
        return float(np.abs(f - y).mean(axis=0))

    change = compare(mae, after, before, rng=rng, replicates=DRAWS).difference
    if float(change.low) > 0:
        found.append(
            f"its mean absolute error on the new held-out rows is greater by "
            f"{short(float(change.estimate))} ({short(float(change.low))} to "
            f"{short(float(change.high))}) than that of version {champion.version.version}"
        )
    return tuple(found)


def record_watch(settings: Settings, experiment: str, version: KnownVersion, watch: Watch) -> str:
    """Record a check in a run and in the tags of the version; return the id of the run."""
    tracking = Tracking(settings, experiment)
    name = f"watch {watch.model} {watch.version} on {watch.rows_from}"
    result = {_VERDICT: watch.verdict, _REASON: watch.reason[:_LONGEST], "fkd.watch.at": watch.at}
    if watch.refit is not None:
        result[_REFIT] = watch.refit.why[:_LONGEST]
    tags = {_MODEL: watch.model, "fkd.watch.version": str(watch.version), **result}
    details = RunDetails(note=watch.reason)
    run = tracking.parent_run(_identity(watch.model, watch.data), name, tags, details)
    metrics = {"watch/chance": watch.changes.chance}
    for one in watch.changes.numbers:
        number = f"{one.quantity}.{one.column}" if one.column else one.quantity
        for ending in ("after", "change", "low", "high"):
            metrics[metric_name(f"watch/{number}_{ending}")] = getattr(one, ending)

    at = round(1000 * time.time())
    batch = [Metric(metric, value, at, 0) for metric, value in metrics.items()]
    tracking.safely(lambda: tracking.client.log_batch(run, metrics=batch))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / _FILE).write_text(watch.to_json(), encoding="utf-8")
        tracking.finish(run, tags, Path(folder))
    tag_version(settings, version, result)
    return run


def record_refit_reason(settings: Settings, watch: Watch, champion: str) -> None:
    """Tag the version with a champion's key with the check that caused its fit."""
    reason = f"{watch.rows_from} {watch.reason}"[:_LONGEST]
    for version in versions_of(settings, watch.model):
        if version.key == champion:
            tag_version(settings, version, {"fkd.because": reason})


def is_watched(
    settings: Settings, experiment: str, model: str, data: str, *, refit: bool = False
) -> bool:
    """Return whether rows with this digest were checked with a champion of this model.

    With `refit`, rows that crossed a band count only if they caused a refit.
    """
    tracking = Tracking(settings, experiment)
    run = tracking.find_parent(_identity(model, data))
    seen = run is not None and tracking.is_complete(run)
    if not seen or not refit:
        return seen
    tags = tracking.safely(lambda: tracking.client.get_run(run)).data.tags
    return tags.get(_VERDICT) == QUIET or _REFIT in tags


def known_watches(settings: Settings, model: str) -> list[Watch]:
    """Return every check of rows with the champions of a model, oldest first."""
    prepare_stores(settings)
    client = TimedClient(settings)

    def work() -> list[Watch]:
        places = [one.experiment_id for one in client.search_experiments()]
        runs = client.search_runs(places, f"tags.`{_MODEL}` = '{model}'", max_results=_AT_ONCE)
        texts = (read_file(client, run.info.run_id, _FILE) for run in runs)
        # A check without its file was interrupted; the same command repeats it.
        return [Watch.from_json(text.decode()) for text in texts if text is not None]

    oldest_first = registry_call(settings, work)[::-1]  # MLflow lists the newest run first
    # `at` has whole seconds. Sorting keeps the order of checks within one second.
    return sorted(oldest_first, key=lambda watch: watch.at)


def _identity(model: str, data: str) -> str:
    """Return the identity of a check: the champions of a model see the same rows once."""
    return digest({"watch": VERSION, "model": model, "data": data})
