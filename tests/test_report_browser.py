import re
import shutil
import time
from dataclasses import replace

import pytest
from deadlines import patient
from report_sample import BLACK, WHITE, failure, make_report, make_trials, poison_report

from tasks.report.page import render

CHROMIUM = shutil.which("chromium")
DESKTOP = {"width": 1280, "height": 900}
SILENT = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
pytestmark = pytest.mark.needs("chromium")


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*SILENT])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report_page(tmp_path_factory):
    columns = (BLACK, WHITE)
    trials = make_trials(columns, needs_sensitive=True)
    report = make_report(columns, trials=trials, failures=(failure(),))
    return render(report, tmp_path_factory.mktemp("report")).html


class Visit:
    """A page that remembers what it asked for, what it complained about."""

    def __init__(self, chromium, path, **options):
        self.context = chromium.new_context(**options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-drawn=yes]", state="attached")


@pytest.fixture
def visit(chromium):
    visits = []

    def open_page(path, **options):
        visits.append(Visit(chromium, path, **options))
        return visits[-1]

    yield open_page
    for one in visits:
        one.context.close()


@pytest.fixture(scope="module")
def desktop(chromium, report_page):
    """One visit for all tests that put back what they change."""
    seen = Visit(chromium, report_page, viewport=DESKTOP, color_scheme="light")
    yield seen
    seen.context.close()


@pytest.fixture
def page(desktop):
    yield desktop.page
    desktop.page.set_viewport_size(DESKTOP)
    desktop.page.emulate_media(media="screen", color_scheme="light")


def bars_of(page, axis):
    """The error bars of every panel, counted."""
    count = f"plots => plots.map(plot => plot.querySelectorAll('.{axis}error').length)"
    return page.eval_on_selector_all(".plot", count)


def until(page, script, argument=None):
    """Wait for a condition; Playwright's own wait evaluates text, which the page forbids."""
    for _ in range(400):
        if page.evaluate(script, argument):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {script}")


def width_of(page):
    return page.evaluate("document.documentElement.scrollWidth")


def test_every_panel_is_drawn_with_error_bars_on_both_axes(page):
    # Three panels for each of two columns, fifteen trials on each.
    assert bars_of(page, "x") == [15] * 6
    assert bars_of(page, "y") == [15] * 6


def test_nothing_leaves_the_file_and_nothing_complains(desktop):
    assert {url.split(":")[0] for url in desktop.requests} <= {"file", "data", "blob"}
    assert len([url for url in desktop.requests if url.startswith("file")]) == 1
    assert desktop.complaints == []


def test_a_phone_gets_a_page_that_never_scrolls_sideways(visit, report_page):
    phone = visit(report_page, viewport={"width": 390, "height": 844}, has_touch=True)
    phone.page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
    assert width_of(phone.page) == 390
    assert bars_of(phone.page, "x") == [15] * 6
    assert phone.complaints == []


@pytest.mark.parametrize("width", [320, 768, 1024])
def test_the_page_follows_the_width_of_its_window(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    fits = "width => [...document.querySelectorAll('.plot svg')].every(s => s.clientWidth < width)"
    until(page, fits, width)
    assert width_of(page) == width


def test_a_printed_page_fits_its_paper_and_shows_still_figures(page):
    page.set_viewport_size({"width": 700, "height": 900})
    page.emulate_media(media="print")
    assert width_of(page) == 700
    assert page.locator(".still").first.is_visible()
    assert not page.locator(".plot").first.is_visible()


def test_without_scripts_the_still_figures_are_shown(chromium, report_page):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report_page.as_uri())
    assert page.locator(".still").first.is_visible()
    assert not page.locator(".plot").first.is_visible()
    context.close()


def test_pointing_at_a_setting_shows_its_numbers(page):
    plot = page.locator(".plot").first
    plot.scroll_into_view_if_needed()
    told = plot.locator(".hoverlayer .hovertext").first
    deadline = time.monotonic() + patient(60)
    while not told.count():
        # The page may still have been scrolling when the point's place was taken.
        assert time.monotonic() < deadline, "nothing is told of the point"
        box = plot.locator(".points .point").nth(3).bounding_box()
        page.mouse.move(0, 0)
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(300)
    text = told.text_content()
    assert re.search(r"SVR-FKD.*iterations \d+.*HGR 0\.\d+ ± .*MAE 0\.\d+ ±", text)


def test_a_name_hides_its_method_on_the_panels_of_its_column(page):
    button = page.locator(".front").first.get_by_role("button", name="SVR-FKD")
    button.click()
    until(page, "document.querySelectorAll('.plot .xerror').length === 72")
    assert bars_of(page, "x") == [9, 9, 9, 15, 15, 15]
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    until(page, "document.querySelectorAll('.plot .xerror').length === 90")


def test_a_heading_sorts_the_trials_both_ways(page):
    heading = page.locator(".trials th button", has_text="MAE").first
    read = "cells => cells.map(cell => Number(cell.dataset.value))"
    heading.click()
    up = page.eval_on_selector_all(".trials tbody td:nth-child(3)", read)
    heading.click()
    down = page.eval_on_selector_all(".trials tbody td:nth-child(3)", read)
    assert up == sorted(up)
    assert down == sorted(down, reverse=True)
    assert up[0] < up[-1]


def test_figures_follow_the_dark_scheme(page):
    ink = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    assert page.evaluate(ink) == "rgb(28, 32, 36)"
    page.emulate_media(color_scheme="dark")
    until(page, f"{ink} === 'rgb(232, 234, 237)'")


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>document.title='hacked'</script>",
        "\"><img src=x onerror=document.title='hacked'>",
    ],
)
def test_text_from_data_is_shown_and_never_obeyed(visit, tmp_path, text):
    seen = visit(render(poison_report(text), tmp_path).html)
    assert seen.page.title() == text
    assert seen.page.locator("h1").text_content() == text
    assert seen.page.locator("img:not(.still)").count() == 0
    assert seen.complaints == []


def test_a_report_without_figures_still_opens(visit, tmp_path):
    report = replace(make_report(trials=(), champion=None), recoverability=())
    seen = visit(render(report, tmp_path).html)
    assert seen.complaints == []
    assert seen.page.locator(".plot").count() == 0


@pytest.mark.parametrize("width", [1400, 390])
def test_no_tooltip_is_cut_off(visit, report_page, width):
    seen = visit(report_page, viewport={"width": width, "height": 900})
    page = seen.page
    for i in range(3):
        plot = page.locator(".plot").nth(i)
        plot.scroll_into_view_if_needed()
        points = plot.locator(".scatterlayer .point")
        for k in range(0, points.count(), 4):
            box = points.nth(k).bounding_box()
            page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            until(page, "i => document.querySelectorAll('.plot')[i].querySelector('.hovertext')", i)
            label = plot.locator(".hovertext").first.bounding_box()
            assert label["x"] >= 0
            assert label["x"] + label["width"] <= width
            page.mouse.move(2, 2)
            page.wait_for_timeout(60)


def test_the_trials_table_is_whole_on_a_desktop(visit, tmp_path):
    path = render(make_report(), tmp_path).html
    wide = visit(path, viewport={"width": 1400, "height": 900}).page
    cut = "box => box.scrollWidth > box.clientWidth"
    assert not wide.eval_on_selector(".trials", cut)
    assert not wide.locator(".more").first.is_visible()


def test_columns_that_a_phone_cannot_show_are_announced(visit, tmp_path):
    path = render(make_report(), tmp_path).html
    phone = visit(path, viewport={"width": 390, "height": 844}).page
    hint = phone.locator("#trials .more")
    assert hint.is_visible()
    assert "sideways" in hint.inner_text()
    assert phone.eval_on_selector(".trials", "box => box.classList.contains('wider')")
    phone.eval_on_selector(".trials", "box => { box.scrollLeft = box.scrollWidth; }")
    until(phone, "() => document.querySelector('.trials').classList.contains('end')")


def test_a_phone_shows_all_numbers_of_the_chosen_model(visit, tmp_path):
    path = render(make_report(), tmp_path).html
    phone = visit(path, viewport={"width": 390, "height": 844}).page
    for cell in phone.locator("#chosen td").all():
        box = cell.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    assert phone.eval_on_selector("#chosen td", "c => getComputedStyle(c, '::before').content") == (
        '"Chosen model"'
    )
