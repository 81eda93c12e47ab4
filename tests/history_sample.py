"""Versions of a registered model and checks of new rows."""

from datetime import UTC, datetime

import numpy as np

from fkd.measures import CurveChange, NumberChange, SampleChanges
from tasks.monitor.check import Watch
from tasks.track.registry import KnownVersion


def version(number, *, champion=False, **tags):
    plain = {"fkd.title": f"KRR {number}", **{f"fkd.{k}": v for k, v in tags.items()}}
    return KnownVersion("m", number, plain, datetime(2026, 1, number, tzinfo=UTC), champion)


def look(number, change, *, crossed=False, rows="rows", refit=None):
    points = np.array([20.0, 40.0, 60.0])
    curve = CurveChange(
        "error",
        "age",
        points,
        points,
        np.array([20.0, np.nan, 61.0]),
        np.array([0.0, np.nan, change]),
        np.array([-1.0, np.nan, change - 1]),
        np.array([1.0, np.nan, change + 1]),
        np.array([False, False, crossed]),
    )
    mae = NumberChange("mae", "", 2.0, 2.0 + change, change, change - 1, change + 1, crossed)
    changes = SampleChanges((mae,), (curve,), 0.01, (100, 1200), 0.95)
    reasons = (f"error moved by {change:g}",) if crossed else ()
    at = f"2026-02-0{number}"
    return Watch("m", number, "t", rows, "d", at, "wage", "euros", changes, reasons, refit)


VERSIONS = (
    version(1, verdict="no gate"),
    version(2, verdict="refused: gdp is high"),
    version(3, champion=True, verdict="passed", because="march crossed"),
)
