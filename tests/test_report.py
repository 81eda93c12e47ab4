import base64
import hashlib
import itertools
import re
from dataclasses import replace
from importlib.resources import files

import pytest
from report_sample import BLACK, WHITE, failure, make_report, poison_report

from tasks.report.page import column_figures, render, to_html


def without_plotly(page):
    return re.sub(r"<script>\s*/\*\*.*?</script>", "", page, flags=re.DOTALL)


def page_of(report):
    return without_plotly(to_html(report, column_figures(report)))


@pytest.fixture(scope="module")
def full_page():
    return page_of(make_report())


def test_the_page_stands_beside_one_png_per_measured_column(tmp_path):
    written = render(make_report((BLACK, WHITE)), tmp_path / "new" / "folder")
    assert written.html.name == "report.html"
    assert [path.name for path in written.figures] == [
        f"fronts-{BLACK}.png",
        f"fronts-{WHITE}.png",
    ]
    assert {*written.html.parent.iterdir()} == {written.html, *written.figures}


def test_the_file_stays_small_enough_to_mail(tmp_path):
    assert render(make_report((BLACK, WHITE)), tmp_path).html.stat().st_size < 6_000_000


def test_the_templates_travel_with_the_package():
    folder = files("tasks.report") / "templates"
    assert {"report.html.j2", "report.css", "report.js"} <= {f.name for f in folder.iterdir()}


def test_nothing_is_fetched_and_only_our_scripts_may_run():
    report = make_report()
    page = to_html(report, column_figures(report))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    policy = policy.replace("&#39;", "'")
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert "default-src 'none'" in policy
    assert re.findall(r"sha256-([^']+)'", policy) == digests
    assert "unsafe-eval" not in policy
    assert not re.search(r'(?:src|href)="(?!data:|#)', page_of(report))


@pytest.mark.parametrize(
    "words",
    [
        "SVR-FKD with iterations 60",
        "the other 399 communities, which took no part in choosing",
        "What a person decided about should know",
        "What can still be recovered",
        "Limits and misuse",
        "Noise floor:",
        "sha256 9f2c",
        "1,994 read, 1,993 used",
        "1: no value for the target",
        "subject_to: {gdp: 0.02}",
        "fkd run crimes",
        "models:/crimes@champion",
        ">violent crimes per population, scaled to 0 to 1</td>",
        "3 November 2026, 14:05 UTC",
        "1 min 23 s",
    ],
)
def test_a_full_report_tells(full_page, words):
    assert words in full_page


@pytest.mark.parametrize(
    ("changes", "absent"),
    [
        ({"champion": None}, ['id="chosen"', 'id="person"', 'href="#chosen"', "chosen model</li>"]),
        ({"recoverability": ()}, ['id="recoverable"', 'href="#recoverable"']),
        ({}, ['id="failures"', 'href="#failures"', "† needs", "Synthetic data"]),
        ({"trials": (), "champion": None}, ['id="trade-off"', 'id="trials"', 'class="plot"']),
    ],
)
def test_what_was_not_computed_is_left_out(changes, absent):
    page = page_of(make_report(**changes))
    assert [text for text in absent if text in page] == []
    assert "Limits and misuse" in page


def test_failed_trials_are_listed_with_their_cause():
    page = page_of(make_report(failures=(failure(),)))
    assert failure().trial in page
    assert failure().cause in page


def test_synthetic_data_is_announced_before_everything_else():
    report = make_report()
    page = page_of(replace(report, data=replace(report.data, synthetic=True)))
    assert 0 < page.index("Synthetic data:") < page.index("Models were trained")
    assert "Communities and Crime (synthetic)" in page


def test_headings_never_skip_a_level(full_page):
    levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", full_page)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_every_table_of_ours_has_a_caption_and_every_figure_a_text():
    page = page_of(make_report(failures=(failure(),)))
    tables = page.split("<details>")[0].count("<table>")
    assert tables == 4
    assert page.count("<caption>") == tables
    assert page.count('role="img" aria-label="') == page.count('class="plot"') == 3
    assert re.search(r'<img class="still"[^>]* alt="HGR on', page)


@pytest.mark.parametrize(
    "text",
    [
        "<script>document.title='hacked'</script>",
        "\"><img src=x onerror=document.title='hacked'>",
        "</script><script>document.title='hacked'</script>",
        "{{ 7 * 7 }} {% if %}",
    ],
)
def test_text_from_data_is_never_obeyed(text, tmp_path):
    written = render(poison_report(text), tmp_path)
    page = without_plotly(written.html.read_text(encoding="utf-8"))
    assert "<script>document" not in page
    assert "<img src=x" not in page
    assert 'href="javascript:' not in page
    assert "http://example.org" not in re.sub(r"<p>.*?</p>", "", page, flags=re.DOTALL)
    assert page.count("<script") == 2
    assert [path.parent for path in written.figures] == [tmp_path]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("a/b", "../c"), ["fronts-a-b.png", "fronts-c.png"]),
        (("a b", "a-b"), ["fronts-a-b-0.png", "fronts-a-b-1.png"]),
        (("年龄",), ["fronts-0.png"]),
    ],
)
def test_column_names_make_safe_and_different_file_names(names, expected, monkeypatch):
    # The figures themselves are of no matter here.
    monkeypatch.setattr("tasks.report.page.still", lambda *_, **__: b"")
    assert [figure.file_name for figure in column_figures(make_report(names))] == expected
