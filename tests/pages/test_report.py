import base64
import hashlib
import itertools
import re
from dataclasses import replace
from importlib.resources import files

import pandas as pd
import pytest
from report_sample import (
    BLACK,
    FAILURES,
    WHITE,
    make_champion,
    make_report,
    poison_report,
    rejudged,
)
from stored_files import stored

from configs.load import load_config, parse_config
from tasks.fit.job import run_job
from tasks.report import page as module
from tasks.report.model import report_data
from tasks.report.page import SECTIONS, render, to_html, write_report
from tasks.select.study import open_study
from tasks.track.run_index import note_time


@pytest.fixture(scope="module")
def full_page():
    return to_html(make_report())


def test_the_page_stands_beside_one_png_per_measured_column(tmp_path):
    written = render(make_report((BLACK, WHITE)), tmp_path / "new" / "folder")
    assert [path.name for path in written] == [
        "report.html",
        f"fronts-{BLACK}.png",
        f"fronts-{WHITE}.png",
    ]
    assert {*written[0].parent.iterdir()} == {*written}


def test_the_file_stays_small_enough_to_mail(tmp_path):
    assert render(make_report((BLACK, WHITE)), tmp_path)[0].stat().st_size < 500_000


def test_the_templates_travel_with_the_package():
    folder = files("tasks.report") / "templates"
    assert {"report.html.j2", "report.css", "report.js"} <= {f.name for f in folder.iterdir()}
    sections = {f.name.removesuffix(".html.j2") for f in (folder / "sections").iterdir()}
    assert sections == {section.name for section in SECTIONS}


def test_nothing_is_fetched_and_only_our_scripts_may_run():
    report = make_report()
    page = to_html(report)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    policy = policy.replace("&#39;", "'")
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert "default-src 'none'" in policy
    assert re.findall(r"sha256-([^']+)'", policy) == digests
    assert "unsafe-eval" not in policy
    assert not re.search(r'(?:src|href)="(?!data:|#)', to_html(report))


@pytest.mark.parametrize(
    "words",
    [
        "SVR-FKD with iterations 60",
        "the other 399 communities, which were not used for the choice",
        "Information for persons concerned",
        "Recoverability of the attribute",
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
        (
            {"champion": rejudged(make_champion((BLACK,)), recovered=())},
            ['id="recoverable"', 'href="#recoverable"'],
        ),
        ({}, ['id="failures"', 'href="#failures"', "† predictions", "Synthetic data"]),
        ({"trials": (), "champion": None}, ['id="trade-off"', 'id="trials"', "curve plot"]),
    ],
)
def test_what_was_not_computed_is_left_out(changes, absent):
    page = to_html(make_report(**changes))
    assert [text for text in absent if text in page] == []
    assert "Limits and misuse" in page


def test_failed_trials_are_listed_with_their_cause():
    page = to_html(make_report(failures=FAILURES))
    assert all(trial in page and cause in page for trial, cause in FAILURES.items())


def test_synthetic_data_is_announced_before_everything_else():
    report = make_report()
    page = to_html(replace(report, data=replace(report.data, synthetic=True)))
    assert 0 < page.index("Synthetic data:") < page.index("Models were trained")
    assert "Communities and Crime (synthetic)" in page


def test_headings_never_skip_a_level(full_page):
    levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", full_page)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_every_table_of_ours_has_a_caption_and_every_figure_a_text():
    page = to_html(make_report(failures=FAILURES))
    tables = page.split("<details>")[0].count("<table>")
    assert tables == 4
    assert page.count("<caption>") == tables
    assert page.count('class="curve plot"') == 3
    assert len(re.findall(r'role="group" aria-label="\w+ on the share of Black', page)) == 3


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
    page = written[0].read_text(encoding="utf-8")
    assert "<script>document" not in page
    assert "<img src=x" not in page
    assert 'href="javascript:' not in page
    assert "http://example.org" not in re.sub(r"<p>.*?</p>", "", page, flags=re.DOTALL)
    assert page.count("<script") == 1
    assert [path.parent for path in written] == [tmp_path, tmp_path]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("a/b", "../c"), ["fronts-a-b.png", "fronts-c.png"]),
        (("a b", "a-b"), ["fronts-a-b-0.png", "fronts-a-b-1.png"]),
        (("年龄",), ["fronts-0.png"]),
    ],
)
def test_column_names_make_safe_and_different_file_names(names, expected, tmp_path):
    report = make_report(names)
    columns = tuple(replace(column, title="age") for column in report.columns)
    written = render(replace(report, columns=columns), tmp_path)
    assert [path.name for path in written[1:]] == expected


def test_the_navigation_lists_the_sections_in_their_order(full_page):
    links = re.findall(r'<li><a href="#([\w-]+)">', full_page)
    assert links == re.findall(r'<section id="([\w-]+)"', full_page)
    assert links == [section.name for section in SECTIONS if section.name in links]
    assert len(links) == 7


def test_a_report_without_champion_has_no_chosen_trial():
    assert make_report().chosen == make_report().trials[4]
    assert make_report(champion=None).chosen is None


def test_made_up_rows_are_reported_as_such(settings, tmp_path):
    config = load_config(
        "acs_income",
        ["data.source=synthetic", "data.synthetic.rows=1500", "methods=[dummy]", "folds.k=2"],
    )
    study = open_study(config, settings)
    for job in study.missing():
        run_job(job)
    page = render(report_data(study), tmp_path)[0].read_text()
    assert "synthetic" in page.lower()
    assert "sha256 <" not in page


def test_the_words_of_an_own_table_reach_the_whole_page(settings, tmp_path, rng):
    n = 60
    size, age = rng.uniform(20, 120, n), rng.uniform(20, 80, n)
    rent = 10 * size + 3 * age + rng.normal(0, 20, n)
    frame = pd.DataFrame({"size": size, "age": age, "rent": rent})
    frame.to_csv(tmp_path / "rents.csv", index=False)
    data = {
        "problem": "table",
        "path": str(tmp_path / "rents.csv"),
        "target": "rent",
        "sensitive": "age",
        "numeric": ["size"],
    }
    words = {
        "title": "Rents of Berlin",
        "row_noun": "flats",
        "titles": {"rent": "monthly rent", "age": "age of the tenant", "size": "living space"},
        "units": {"rent": "euros"},
        "descriptions": {"size": "without cellar"},
    }
    methods = [{"name": "krr_fkd", "grid": {"iterations": [0, 1]}}]
    rest = {"folds": {"k": 2}, "select": {"inner_folds": 2}, "methods": methods}
    study = open_study(parse_config({"data": data, **rest}, "rents"), settings)
    for job in study.missing():
        run_job(job)
    # Words that come later find the same results.
    study = open_study(parse_config({"data": {**data, **words}, **rest}, "rents"), settings)
    assert not study.missing()
    report = report_data(study)
    page = render(report, tmp_path)[0].read_text()
    assert "predict monthly rent from 1 columns of data on 60 flats (Rents of Berlin)" in page
    assert "HGR on age of the tenant" in page
    assert "MAE of monthly rent in euros" in page
    assert "columns with the highest correlation with it: living space" in page
    assert '<td data-heading="description">without cellar</td>' in page
    assert "units of rent" not in page


@pytest.fixture
def drawn(quick_study, monkeypatch, tmp_path):
    """A study in a folder of its own, with the number of times that its curves were made."""
    settings = replace(quick_study.settings, home=tmp_path)
    study = replace(quick_study, settings=settings)
    note_time(study, 1.0)
    count = []
    real = module.with_curves

    def counted(*arguments):
        count.append(1)
        return real(*arguments)

    monkeypatch.setattr(module, "with_curves", counted)
    return study, count


def test_the_same_report_is_drawn_once(drawn):
    study, count = drawn
    page = write_report(study)
    content = page.read_bytes()
    assert write_report(study) == page
    assert len(count) == 1
    assert page.read_bytes() == content
    # Told to, it is drawn again, and is the same.
    write_report(study, again=True)
    assert len(count) == 2
    assert page.read_bytes() == content


@pytest.mark.parametrize("name", ["report.html", "model_card.md"])
def test_a_file_that_was_changed_or_taken_away_is_written_again(drawn, name):
    study, count = drawn
    page = write_report(study)
    content = (page.parent / name).read_bytes()
    (page.parent / name).write_bytes(content + b" ")
    write_report(study)
    assert (page.parent / name).read_bytes() == content
    (page.parent / name).unlink()
    write_report(study)
    assert (page.parent / name).read_bytes() == content
    assert len(count) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda study: replace(study, trials=study.trials[:-1]),
        lambda study: replace(
            study, config=study.config.model_copy(update={"gate": {"hgr": 0.01}})
        ),
        lambda study: replace(study, searched=frozenset({study.trials[0].key})),
    ],
)
def test_what_it_shows_decides(drawn, change):
    study, count = drawn
    write_report(study)
    write_report(change(study))
    assert len(count) == 2


def test_other_code_draws_anew(drawn, monkeypatch):
    study, count = drawn
    write_report(study)
    monkeypatch.setattr(module, "code_digest", lambda: "other")
    write_report(study)
    assert len(count) == 2


def test_damaged_notes_mean_that_nothing_is_known(drawn):
    study, count = drawn
    write_report(study)
    (note,) = (stored(study.settings, "pages")).iterdir()
    for content in ("", "[]", "{"):
        note.write_text(content)
        write_report(study)
    assert len(count) == 4
