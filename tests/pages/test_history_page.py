"""The history of a registered model as one page."""

import re
from dataclasses import replace

import pytest
from history_sample import VERSIONS, look, version

from tasks.monitor.check import Refit
from tasks.report.history_page import (
    VersionHistory,
    curve_figures,
    drift_figures,
    history_html,
)

POISON = "<script>alert(1)</script>"


def test_versions_say_what_they_are_or_were():
    assert [VersionHistory(one, ()).state for one in VERSIONS] == [
        "former champion",
        "candidate",
        "champion",
    ]
    decision = {"promoted_by": "ann", "promoted_why": "a wrong unit", "promoted_at": "2026-05-04"}
    promoted = VersionHistory(version(4, verdict="refused: x", **decision), ())
    assert promoted.state == "former champion"
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
    assert "1 of 3 checks of new rows crossed a band" in page
    assert "Refitted models: 1, promoted: 1" in page
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
    assert "No version is served. No new rows were checked yet" in page
    assert 'id="drift"' not in page


def test_text_from_data_is_escaped():
    poisoned = replace(VERSIONS[2], tags={**VERSIONS[2].tags, "fkd.title": POISON})
    watch = replace(look(3, 3.0, crossed=True, rows=POISON), unit=POISON, reasons=(POISON,))
    page = history_html(POISON, [poisoned], [watch])
    assert "<script" not in page
    assert "&lt;script&gt;" in page
