"""Compare new rows with the held-out record of a champion."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from configs.errors import UserError
from configs.run import RunConfig
from fkd.core.arrays import Array
from fkd.measures import CurveChange, NumberChange, SampleChanges, sample_changes
from fkd.measures.drift import ERROR_RANK
from fkd.measures.profiles import ABSOLUTE, ERROR, PREDICTION
from tasks.data.load import Loaded
from tasks.monitor.batches import Batch
from tasks.monitor.champion import WatchedChampion
from tasks.track.run_index import now

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
