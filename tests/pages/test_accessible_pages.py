"""Every page that people get: open to all, on a desktop, a phone, in the dark, on paper."""

import shutil
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from history_sample import VERSIONS, look
from pipeline_fixtures import QUICK
from seeds_sample import DRAWS, judged

import fkd
from configs.load import load_config
from tasks.monitor.check import Refit
from tasks.report.audit_page import AuditLabels, write_audit
from tasks.report.history_page import history_html
from tasks.report.model import report_data
from tasks.report.page import render, write_cards
from tasks.reproduce.result import make_result, write_page, write_result
from tasks.select.study import open_study
from tasks.storage.settings import Settings

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.needs("chromium")
PAGES = ("report", "audit", "model_card", "datasheet", "history", "reproduction")
PHONE, DESKTOP = 390, 1400
PAPER = 688  # points of CSS between the margins of A4


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(request, tmp_path_factory):
    """The address of a page by its name; each is written once, when it is first asked for."""
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def of_run():
        home = folder / "home"
        shutil.copytree(request.getfixturevalue("computed_home"), home)
        report = report_data(open_study(load_config("default", QUICK), Settings(home)))
        render(report, folder)
        write_cards(report, folder)

    @cache
    def written(name):
        path = folder / f"{name}.html"
        if name == "audit":
            write_audit(*audited(), path)
        elif name == "history":
            path.write_text(watched())
        elif name == "reproduction":
            reproduced(folder / "paper").rename(path)
        else:
            of_run()
        return path.as_uri()

    return written


def watched():
    done = Refit("KRR 3", True, "refitted: KRR 3 is promoted, every check kept")
    looks = [look(1, 0.1), look(1, 3.0, crossed=True, rows="march", refit=done), look(3, 0.0)]
    return history_html("wages", VERSIONS, looks)


def reproduced(folder):
    experiment, curves, told = judged((0, 7), Settings(folder / "home"))
    story = make_result(experiment, curves, {}, list(told.values()), {}, draws=DRAWS)
    story = replace(story, name="E2")
    write_result(story, experiment, curves, folder / "E2")
    return write_page([story], folder)


def audited():
    rng = np.random.default_rng(0)
    age, hours = rng.uniform(18, 80, 400), rng.uniform(10, 50, 400)
    wage = 900 * age + 200 * hours + rng.normal(scale=9000, size=400)
    job = rng.choice(["clerk", "smith"], 400)
    found = fkd.audit(
        wage,
        800 * age + 5000,
        np.column_stack([age, hours]),
        other=900 * age,
        control_features=job,
        replicates=50,
    )
    return found, AuditLabels("wage", "dollars", source="wages.csv")


@pytest.fixture
def visit(chromium, address):
    contexts = []

    def opened(name, *, width=DESKTOP, **options):
        contexts.append(
            chromium.new_context(
                viewport={"width": width, "height": 900}, bypass_csp=True, **options
            )
        )
        page = contexts[-1].new_page()
        page.goto(address(name))
        if name == "report" and options.get("java_script_enabled", True):
            page.wait_for_selector("html.js", state="attached")
        return page

    yield opened
    for one in contexts:
        one.close()


def unfold(page):
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")


def sized(page, width):
    """Visible boxes that end to the right of a width, outside regions that scroll by themselves."""
    script = """width => [...document.querySelectorAll('body *')].filter(one => {
        const box = one.getBoundingClientRect();
        return box.width > 0 && box.right > width + 1
            && !one.closest('.store') && getComputedStyle(one).visibility !== 'hidden';
    }).map(one => one.tagName + '.' + one.className + ' ' + one.textContent.slice(0, 40))"""
    return page.evaluate(script, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_that_keeps_people_out(visit, name, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    page = visit(name, width=width, color_scheme=scheme)
    unfold(page)
    page.wait_for_timeout(300)  # figures follow the width of what was unfolded
    found = Axe().run(page).response["violations"]
    told = [
        (fault["id"], fault["impact"], [node["html"][:120] for node in fault["nodes"][:3]])
        for fault in found
    ]
    assert told == []


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_never_scrolls_the_whole_page_sideways(visit, name):
    page = visit(name, width=PHONE)
    unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE


@pytest.mark.parametrize("name", ["audit", "model_card", "datasheet", "history"])
def test_a_phone_shows_every_column_of_a_table(visit, name):
    page = visit(name, width=PHONE)
    assert page.locator("td").count() > 5
    assert sized(page, PHONE) == []
    heading = "cell => getComputedStyle(cell, '::before').content"
    assert page.locator("td").last.evaluate(heading) not in ("none", '""')


def test_every_control_of_the_report_is_reached_by_the_tab_key(visit):
    page = visit("report")
    unfold(page)
    names = """[...document.querySelectorAll('button, input, summary, a[href], .scroll')].filter(
        one => one.offsetParent !== null && (one.type !== 'radio' || one.checked))"""
    wanted = page.evaluate(f"{names}.length")
    page.evaluate(f"{names}.forEach((one, i) => {{ one.dataset.place = i; }})")
    seen = set()
    for _ in range(wanted + 20):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.dataset.place"))
    assert {str(i) for i in range(wanted)} <= seen
    assert wanted > 20


@pytest.mark.parametrize("name", PAGES)
def test_without_scripts_every_table_can_be_read(visit, name):
    plain = visit(name, java_script_enabled=False)
    tables = plain.locator("table")
    assert tables.count() > 0
    for table in tables.all():
        if table.locator("xpath=ancestor::details[not(@open)]").count() == 0:
            assert table.is_visible()
            assert any(sign.isdigit() for sign in table.inner_text())


@pytest.mark.parametrize("name", PAGES)
def test_paper_holds_the_page_without_its_controls(visit, name):
    page = visit(name, width=PAPER)
    text = page.locator("h1").inner_text()
    page.emulate_media(media="print")
    assert sized(page, PAPER) == []
    for control in page.locator("button, input, select").all():
        # A heading that sorts on a screen is a plain heading on paper.
        if control.locator("xpath=ancestor::th").count() == 0:
            assert not control.is_visible()
    assert page.locator("h1").inner_text() == text
    cut = """[...document.querySelectorAll('.scroll, pre, details')].filter(
        one => one.getClientRects().length && one.scrollWidth > one.clientWidth + 1
            && getComputedStyle(one).overflowX !== 'visible').length"""
    assert page.evaluate(cut) == 0
    printed = page.pdf(format="A4", tagged=True)
    assert printed.startswith(b"%PDF")
    assert printed.count(b"/Type /Page\n") >= 1


def test_paper_of_the_report_has_figures_checks_and_the_numbers_of_the_chosen_model(visit):
    page = visit("report", width=PAPER)
    cells = page.locator("#chosen td").all_inner_texts()
    page.emulate_media(media="print")
    assert page.locator("#chosen td").all_inner_texts() == cells
    assert all(cell.is_visible() for cell in page.locator("#chosen td").all())
    assert page.locator("#trade-off svg.plot").first.is_visible()
    assert page.locator("#along svg.curve").first.is_visible()
    assert page.locator("#checks li").count() >= 8
