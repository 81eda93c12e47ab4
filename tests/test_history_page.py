"""The history of a registered model as one page."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from fkd.measures import CurveChange, NumberChange, SampleChanges
from tasks.monitor.check import Refit, Watch
from tasks.report.history_page import VersionStory, curve_figures, drift_figures, history_html
from tasks.track.registry import KnownVersion

POISON = "<script>alert(1)</script>"


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


def test_versions_say_what_they_are_or_were():
    assert [VersionStory(one, ()).state for one in VERSIONS] == [
        "champion once",
        "candidate",
        "champion now",
    ]
    decision = {"promoted_by": "ann", "promoted_why": "a wrong unit", "promoted_at": "2026-05-04"}
    promoted = VersionStory(version(4, verdict="refused: x", **decision), ())
    assert promoted.state == "champion once"
    told = dict(promoted.facts)["Decision of a person"]
    assert "ann on 2026-05-04" in told
    assert "a wrong unit" in told


def test_drift_is_drawn_with_its_band_and_marks_of_new_champions():
    watches = [look(1, 0.1), look(1, 3.0, crossed=True), look(3, -0.2)]
    (figure,) = drift_figures(watches)
    (curve,) = figure.curves
    assert curve.points.tolist() == [1, 2, 3]
    assert curve.values.tolist() == [0.1, 3.0, -0.2]
    assert curve.outer[0].tolist() == pytest.approx([-0.9, 2.0, -1.2])
    assert figure.ticks == (3.0,)
    assert figure.zero


def test_only_curves_outside_their_band_are_drawn_where_they_are_known():
    assert curve_figures(look(1, 3.0)) == ()
    (figure,) = curve_figures(look(1, 3.0, crossed=True))
    assert figure.curves[0].points.tolist() == [20, 60]


def test_the_page_tells_every_look_and_what_was_done():
    done = Refit("KRR 3", True, "refitted: KRR 3 is promoted, every check kept")
    watches = [look(1, 0.1), look(1, 3.0, crossed=True, rows="march", refit=done), look(3, 0.0)]
    page = history_html("m", VERSIONS, watches)
    assert "A band was crossed in 1 of 3 looks at new rows" in page
    assert "models fitted anew: 1, promoted: 1" in page
    assert "Version 3 of 3 is served: KRR 3" in page
    assert page.index("Version 3: KRR 3") < page.index("Version 1: KRR 1")
    assert "error moved by 3" in page
    assert done.why in page
    assert "1,200" in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="https?:', page)
    assert 'id="moved"' in page


def test_a_model_that_nobody_has_looked_at_has_a_page_too():
    page = history_html("m", VERSIONS[:1], [])
    assert "No version is served. Nobody has looked at new rows yet" in page
    assert 'id="drift"' not in page


def test_text_from_data_is_escaped():
    poisoned = replace(VERSIONS[2], tags={**VERSIONS[2].tags, "fkd.title": POISON})
    watch = replace(look(3, 3.0, crossed=True, rows=POISON), unit=POISON, reasons=(POISON,))
    page = history_html(POISON, [poisoned], [watch])
    assert "<script" not in page
    assert "&lt;script&gt;" in page
