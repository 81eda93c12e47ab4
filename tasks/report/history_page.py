"""The figures of a model's history: drift from look to look, curves where they moved."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup

from fkd.measures import MEASURES, CurveChange
from tasks.monitor.check import CROSSED, CURVES, ERRORS, Watch, short, unit_of
from tasks.monitor.log import known_watches
from tasks.report.audit_page import CONTENT_POLICY
from tasks.report.formatting import count, day, unit_decimals, with_interval
from tasks.report.model import ReportedInterval
from tasks.report.page_pieces import page_template, resource
from tasks.report.svg import CurveFigure, DrawnCurve
from tasks.report.tables import Grid, TableCell, TableRow
from tasks.storage.files import write_atomic
from tasks.storage.settings import Settings
from tasks.track.registry import KnownVersion, versions_of

_CAPTION = (
    "Change since the record of the champion of the time, with the band that holds all numbers "
    "and curves of a look at once. Marks at the foot: the first look at another champion."
)


def drift_figures(watches: Sequence[Watch]) -> tuple[CurveFigure, ...]:
    """Return one figure per number that was compared, along the looks."""
    named = dict.fromkeys(
        (one.quantity, one.column) for watch in watches for one in watch.changes.numbers
    )
    return tuple(_drift(watches, quantity, column) for quantity, column in named)


def curve_figures(watch: Watch) -> tuple[CurveFigure, ...]:
    """Return the curves of one look that left their band."""
    return tuple(_moved(watch, one) for one in watch.changes.curves if one.crossed.any())


def _drift(watches: Sequence[Watch], quantity: str, column: str) -> CurveFigure:
    """Return one number's change from look to look."""
    found = [
        (place, one.change, one.low, one.high)
        for place, watch in enumerate(watches, 1)
        for one in watch.changes.numbers
        if (one.quantity, one.column) == (quantity, column)
    ]
    points, change, low, high = np.array(found, dtype=np.float64).T
    unit = unit_of(watches[-1], quantity)
    changed = tuple(
        float(place)
        for place, (before, after) in enumerate(itertools.pairwise(watches), 2)
        if before.version != after.version
    )
    title = f"{MEASURES[quantity].label} on {column}" if column else ERRORS[quantity].capitalize()
    return CurveFigure(
        title,
        "look, in their order",
        f"change ({unit})" if unit and not column else "change",
        (DrawnCurve("new rows minus record", "model", points, change, outer=(low, high)),),
        _CAPTION,
        zero=True,
        ticks=changed,
    )


def _moved(watch: Watch, one: CurveChange) -> CurveFigure:
    """Return how far a curve has moved, along its column."""
    known = np.isfinite(one.change)
    drawn = DrawnCurve(
        "new rows minus record",
        "model",
        one.points[known],
        one.change[known],
        outer=(one.low[known], one.high[known]),
    )
    words = watch.words.get(one.column, one.column)
    name, unit = CURVES[one.quantity], unit_of(watch, one.quantity)
    return CurveFigure(
        f"{watch.rows_from}: {name}",
        words,
        f"change ({unit})" if unit else "change",
        (drawn,),
        f"The {name} near each value, new rows minus record.",
        zero=True,
    )


_PROMOTED = ("passed", "no gate")


@dataclass(frozen=True)
class VersionStory:
    """One version with the looks at it."""

    version: KnownVersion
    watches: tuple[Watch, ...]

    @property
    def state(self) -> str:
        """What it is, or was, in the registry."""
        if self.version.is_champion:
            return "champion now"
        tags = self.version.tags
        was = tags.get("fkd.verdict") in _PROMOTED or self.version.promotion
        return "champion once" if was else "candidate"

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What the registry knows of it, name by name."""
        tags = self.version.tags
        known = (
            ("Registered", day(self.version.created)),
            ("Verdict", tags.get("fkd.verdict", "")),
            ("Issues found by checks", _issues(tags) or "none"),
            ("Fitted because", tags.get("fkd.because", "")),
            ("Decision of a person", str(self.version.promotion or "")),
        )
        return tuple((name, text) for name, text in known if text)

    @property
    def grid(self) -> Grid:
        """The looks at it, one per row."""
        return Grid(
            ("New rows", "Rows", "Verdict", "Record", "New", "Change (band)", "p"),
            tuple(_row(watch) for watch in self.watches),
        )


def history_path(settings: Settings, model: str) -> Path:
    """Return the path of the history page of a registered model."""
    return settings.home / "history" / f"{model}.html"


def write_history(settings: Settings, model: str) -> Path:
    """Write the history of a registered model; return its path."""
    versions = versions_of(settings, model)
    path = history_path(settings, model)
    write_atomic(path, history_html(model, versions, known_watches(settings, model)).encode())
    return path


def history_html(model: str, versions: Sequence[KnownVersion], watches: Sequence[Watch]) -> str:
    """Return the page; every value from data is escaped by the template."""
    stories = [
        VersionStory(version, tuple(watch for watch in watches if watch.version == version.version))
        for version in versions
    ]
    return page_template("tasks.report", "history.html.j2").render(
        model=model,
        policy=CONTENT_POLICY,
        css=Markup(resource("tasks.report", "report.css")),
        sentences=history_sentences(stories, watches),
        stories=stories[::-1],
        drift=drift_figures(watches) if watches else (),
        moved=[
            (watch, figures)
            for watch in reversed(watches)
            if watch.verdict == CROSSED and (figures := curve_figures(watch))
        ],
    )


def history_sentences(stories: Sequence[VersionStory], watches: Sequence[Watch]) -> tuple[str, ...]:
    """Return what is served now, how often something was found."""
    now = [story.version for story in stories if story.version.is_champion]
    served = (
        f"Version {now[0].version} of {len(stories)} is served: {now[0].title}."
        if now
        else "No version is served."
    )
    if not watches:
        return (served, "Nobody has looked at new rows yet: `fkd watch` does.")
    crossed = [watch for watch in watches if watch.verdict == CROSSED]
    refits = [watch.refit for watch in crossed if watch.refit is not None]
    promoted = sum(refit.promoted for refit in refits)
    return (
        served,
        f"A band was crossed in {count(len(crossed))} of {count(len(watches))} looks at new rows; "
        f"models fitted anew: {count(len(refits))}, promoted: {count(promoted)}.",
    )


def _row(watch: Watch) -> TableRow:
    """Return one look."""
    texts = (
        watch.rows_from,
        count(watch.changes.rows[1]),
        watch.verdict,
        *_error(watch),
        f"{watch.changes.chance:.3g}",
    )
    return TableRow(tuple(map(TableCell, texts)), chosen=watch.verdict == CROSSED)


def _error(watch: Watch) -> tuple[str, str, str]:
    """Return the mean absolute error of record and new rows, with the change."""
    one = next(one for one in watch.changes.numbers if one.quantity == "mae")
    band = ReportedInterval(one.change, one.low, one.high)
    return short(one.before), short(one.after), with_interval(band, unit_decimals(one.before))


def _issues(tags: Mapping[str, str]) -> str:
    """Return the codes of checks that found an issue."""
    found = [
        name.removeprefix("fkd.check.")
        for name, outcome in sorted(tags.items())
        if name.startswith("fkd.check.") and outcome == "issue"
    ]
    return ", ".join(found)
