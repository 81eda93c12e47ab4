"""Write the history of a registered model: versions, checks of new rows, drift."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fkd.measures import MEASURES, REPORTED
from tasks.monitor.check import CROSSED, CURVES, ERRORS, Watch, known_watches, short, unit_of
from tasks.report.html import (
    CurveFigure,
    DrawnCurve,
    count,
    day,
    joined,
    render_page,
    unit_decimals,
    with_interval,
)
from tasks.report.tables import Row, Table
from tasks.storage.files import write_atomic
from tasks.storage.settings import Settings
from tasks.track.registry import KnownVersion, versions_of

_CAPTION = (
    "Change since the record of the champion at the time, with the band for all numbers and curves "
    "of a check at once. Marks at the foot: the first check of another champion."
)
_PROMOTED = ("passed", "no gate")
_CURVE = "new rows minus record"


def history_path(settings: Settings, model: str) -> Path:
    """Return the path of the history page of a registered model."""
    return settings.home / "history" / f"{model}.html"


def write_history(settings: Settings, model: str) -> Path:
    """Write the history page of a registered model and return its path."""
    page = history_html(model, versions_of(settings, model), known_watches(settings, model))
    write_atomic(history_path(settings, model), page.encode())
    return history_path(settings, model)


def history_html(model: str, versions: Sequence[KnownVersion], watches: Sequence[Watch]) -> str:
    """Return the page; the template escapes every value from data."""
    histories = [
        VersionHistory(one, tuple(watch for watch in watches if watch.version == one.version))
        for one in versions
    ]
    return render_page(
        "history.html.j2",
        title=f"History of {model}",
        model=model,
        sentences=_sentences(versions, watches),
        versions=histories[::-1],
        drift=drift_figures(watches),
        moved=[
            (watch, figures)
            for watch in reversed(watches)
            if watch.verdict == CROSSED and (figures := curve_figures(watch))
        ],
        measures=joined([measure.label for measure in REPORTED.values()]),
    )


@dataclass(frozen=True)
class VersionHistory:
    """One version of a model with the checks of new rows."""

    version: KnownVersion
    watches: tuple[Watch, ...]

    @property
    def state(self) -> str:
        """Its present or past role in the registry."""
        if self.version.is_champion:
            return "champion"
        promoted = self.version.tags.get("fkd.verdict") in _PROMOTED or self.version.promotion
        return "former champion" if promoted else "candidate"

    @property
    def facts(self) -> dict[str, str]:
        """Its facts in the registry by name."""
        tags = self.version.tags
        facts = {
            "Registered": day(self.version.created),
            "Verdict": tags.get("fkd.verdict", ""),
            "Issues found by checks": ", ".join(self.version.issues) or "none",
            "Reason for the fit": tags.get("fkd.because", ""),
            "Decision of a person": str(self.version.promotion or ""),
        }
        return {name: text for name, text in facts.items() if text}

    @property
    def table(self) -> Table:
        """The checks of new rows, one per line."""
        unit = f" in {self.watches[0].unit}" if self.watches and self.watches[0].unit else ""
        return Table(
            ("New rows", "Rows", "Verdict", "Record", "New", "Change (band)", "p"),
            tuple(map(_row, self.watches)),
            f"Mean absolute error{unit}. p is the share of permutations of record and new rows "
            "with a change at least as large.",
        )


def _row(watch: Watch) -> Row:
    """Return one check with the mean absolute error of record and new rows."""
    mae = next(one for one in watch.changes.numbers if one.quantity == "mae")
    return Row.from_texts(
        watch.rows_from,
        count(watch.changes.rows[1]),
        watch.verdict,
        short(mae.before),
        short(mae.after),
        with_interval((mae.change, mae.low, mae.high), unit_decimals(mae.before)),
        f"{watch.changes.chance:.3g}",
        chosen=watch.verdict == CROSSED,
    )


def drift_figures(watches: Sequence[Watch]) -> tuple[CurveFigure, ...]:
    """Return one figure per compared number, over the checks."""
    named = dict.fromkeys(
        (one.quantity, one.column) for watch in watches for one in watch.changes.numbers
    )
    changed = tuple(
        float(place)
        for place, (before, after) in enumerate(itertools.pairwise(watches), 2)
        if before.version != after.version
    )
    figures = []
    for quantity, column in named:
        found = [
            (place, one.change, one.low, one.high)
            for place, watch in enumerate(watches, 1)
            for one in watch.changes.numbers
            if (one.quantity, one.column) == (quantity, column)
        ]
        points, change, low, high = np.array(found, dtype=np.float64).T
        unit = "" if column else unit_of(watches[-1], quantity)
        label = f"{MEASURES[quantity].label} on {column}" if column else ERRORS[quantity]
        figures.append(
            CurveFigure(
                label if column else label.capitalize(),
                "check, in order of time",
                f"change ({unit})" if unit else "change",
                (DrawnCurve(_CURVE, "model", points, change, outer=(low, high)),),
                _CAPTION,
                zero=True,
                ticks=changed,
            )
        )
    return tuple(figures)


def curve_figures(watch: Watch) -> tuple[CurveFigure, ...]:
    """Return the changes of the curves of one check that left their band."""
    figures = []
    for one in watch.changes.curves:
        if not one.crossed.any():
            continue
        known = np.isfinite(one.change)
        points, change = one.points[known], one.change[known]
        band = one.low[known], one.high[known]
        name, unit = CURVES[one.quantity], unit_of(watch, one.quantity)
        figures.append(
            CurveFigure(
                f"{watch.rows_from}: {name}",
                watch.words.get(one.column, one.column),
                f"change ({unit})" if unit else "change",
                (DrawnCurve(_CURVE, "model", points, change, outer=band),),
                f"The {name} near each value, new rows minus record.",
                zero=True,
            )
        )
    return tuple(figures)


def _sentences(versions: Sequence[KnownVersion], watches: Sequence[Watch]) -> tuple[str, ...]:
    """Return the served version and the numbers of checks and refits."""
    served = next((one for one in versions if one.is_champion), None)
    first = (
        f"Version {served.version} of {len(versions)} is served: {served.title}."
        if served
        else "No version is served."
    )
    if not watches:
        return first, "No new rows were checked yet; `fkd watch` checks them."
    crossed = [watch for watch in watches if watch.verdict == CROSSED]
    refits = [watch.refit for watch in crossed if watch.refit is not None]
    promoted = sum(refit.promoted for refit in refits)
    return (
        first,
        f"{count(len(crossed))} of {count(len(watches))} checks of new rows crossed a band. "
        f"Refitted models: {count(len(refits))}, promoted: {count(promoted)}.",
    )
