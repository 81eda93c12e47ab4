import re
import shutil

import pytest
from report_sample import BLACK, FAILURES, WHITE, make_report, make_trials, poison_report

from tasks.report.model import report_data
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
    report = make_report(columns, trials=trials, failures=FAILURES)
    return render(report, tmp_path_factory.mktemp("report"))[0]


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
        self.page.wait_for_selector("html.js", state="attached")


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


def points_of(page):
    """The visible points of every panel, counted."""
    visible = "[...plot.querySelectorAll('.point')].filter(one => one.getClientRects().length)"
    return page.eval_on_selector_all(".plot", f"plots => plots.map(plot => {visible}.length)")


def until(page, script, argument=None):
    """Wait for a condition; Playwright's own wait evaluates text, which the page forbids."""
    for _ in range(400):
        if page.evaluate(script, argument):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {script}")


def width_of(page):
    return page.evaluate("document.documentElement.scrollWidth")


def test_every_panel_is_drawn_with_error_bars(page):
    # Three panels for each of two columns, fifteen trials on each.
    assert points_of(page) == [15] * 6
    assert page.locator(".plot .bars").count() == 90


def test_nothing_leaves_the_file_and_nothing_complains(desktop):
    assert {url.split(":")[0] for url in desktop.requests} <= {"file", "data", "blob"}
    assert len([url for url in desktop.requests if url.startswith("file")]) == 1
    assert desktop.complaints == []


def test_a_phone_gets_a_page_that_never_scrolls_sideways(visit, report_page):
    phone = visit(report_page, viewport={"width": 390, "height": 844}, has_touch=True)
    phone.page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
    assert width_of(phone.page) == 390
    assert points_of(phone.page) == [15] * 6
    assert phone.complaints == []


@pytest.mark.parametrize("width", [320, 768, 1024])
def test_the_page_follows_the_width_of_its_window(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    fits = "width => [...document.querySelectorAll('svg.plot')].every(s => s.clientWidth < width)"
    until(page, fits, width)
    assert width_of(page) == width


def test_a_printed_page_fits_its_paper_and_shows_the_figures_with_their_legend(page):
    page.set_viewport_size({"width": 700, "height": 900})
    page.emulate_media(media="print")
    assert width_of(page) == 700
    assert page.locator(".plot").first.is_visible()
    assert page.locator(".front .legend").first.is_visible()
    assert not page.locator(".front input").first.is_visible()


def test_without_scripts_figures_are_shown_and_methods_can_be_hidden(chromium, report_page):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report_page.as_uri())
    points = page.locator(".plot").first.locator(".s0 .point")
    assert points.first.is_visible()
    # Browsers show the title of an element as its tooltip.
    assert "iterations" in points.first.locator("title").text_content()
    page.locator(".front").first.get_by_role("checkbox", name="SVR-FKD").uncheck()
    assert not points.first.is_visible()
    context.close()


NUMBERS = r"SVR-FKD\s.*iterations \d+\s+HGR 0\.\d+ ± .*MAE 0\.\d+ ±"


def point_at(page, point):
    """Move the mouse to the centre of a point."""
    point.scroll_into_view_if_needed()
    page.wait_for_timeout(300)  # a page that scrolls hides its tooltip
    box = point.locator(".mark").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_pointing_at_a_setting_shows_its_numbers(page):
    tooltip = page.locator(".tooltip")
    point_at(page, page.locator(".plot").first.locator(".point").nth(3))
    until(page, "!document.querySelector('.tooltip').hidden")
    assert re.search(NUMBERS, tooltip.text_content(), re.DOTALL)
    page.mouse.move(2, 2)
    until(page, "document.querySelector('.tooltip').hidden")


def test_a_tap_shows_the_numbers_of_a_setting(visit, report_page):
    phone = visit(report_page, viewport={"width": 390, "height": 844}, has_touch=True).page
    mark = phone.locator(".plot").first.locator(".point .mark").nth(3)
    mark.scroll_into_view_if_needed()
    phone.wait_for_timeout(300)
    box = mark.bounding_box()
    phone.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    until(phone, "!document.querySelector('.tooltip').hidden")
    assert "MAE" in phone.locator(".tooltip").text_content()


def test_the_keyboard_reads_every_setting_of_a_panel(page):
    plot = page.locator(".plot").first
    plot.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    plot.locator('.point[tabindex="0"]').focus()
    texts = []
    for key in (*["ArrowRight"] * 14, "Home", "ArrowLeft", "End"):
        texts.append(page.locator(".tooltip").text_content())
        page.keyboard.press(key)
        assert page.locator(".tooltip").is_visible()
    assert len({*texts[:15]}) == 15
    assert re.search(NUMBERS, texts[0], re.DOTALL)
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert label == page.locator(".tooltip").text_content().replace("\n", ", ")
    assert plot.locator('.point[tabindex="0"]').count() == 1
    page.keyboard.press("Escape")
    assert not page.locator(".tooltip").is_visible()
    # The next stop is beyond the panel.
    page.keyboard.press("Tab")
    assert plot.evaluate("plot => !plot.contains(document.activeElement)")


def test_a_name_hides_its_method_on_the_panels_of_its_column(page):
    box = page.locator(".front").first.get_by_role("checkbox", name="SVR-FKD")
    plot = page.locator(".plot").first
    plot.locator(".s0 .point").first.focus()
    box.uncheck()
    assert points_of(page) == [9, 9, 9, 15, 15, 15]
    # The tab stop of the panel moves to a visible point.
    assert plot.locator('.point[tabindex="0"]').is_visible()
    box.check()
    assert points_of(page) == [15] * 6


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
    ink = "getComputedStyle(document.querySelector('.plot text')).fill"
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
    seen = visit(render(poison_report(text), tmp_path)[0])
    assert seen.page.title() == text
    assert seen.page.locator("h1").text_content() == text
    assert seen.page.locator("img").count() == 0
    assert seen.complaints == []


def test_a_report_without_figures_still_opens(visit, tmp_path):
    report = make_report(trials=(), champion=None)
    seen = visit(render(report, tmp_path)[0])
    assert seen.complaints == []
    assert seen.page.locator(".plot").count() == 0


@pytest.mark.parametrize("width", [1400, 390])
def test_no_tooltip_is_cut_off(visit, report_page, width):
    seen = visit(report_page, viewport={"width": width, "height": 900})
    page = seen.page
    for i in range(3):
        points = page.locator(".plot").nth(i).locator(".point")
        for k in range(0, points.count(), 4):
            point_at(page, points.nth(k))
            until(page, "!document.querySelector('.tooltip').hidden")
            box = page.locator(".tooltip").bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            assert box["y"] >= 0
            page.mouse.move(2, 2)


def test_the_trials_table_is_whole_on_a_desktop(visit, tmp_path):
    path = render(make_report(), tmp_path)[0]
    wide = visit(path, viewport={"width": 1400, "height": 900}).page
    cut = "box => box.scrollWidth > box.clientWidth"
    assert not wide.eval_on_selector(".trials", cut)
    assert not wide.locator(".more").first.is_visible()


def test_columns_that_a_phone_cannot_show_are_announced(visit, tmp_path):
    path = render(make_report(), tmp_path)[0]
    phone = visit(path, viewport={"width": 390, "height": 844}).page
    hint = phone.locator("#trials .more")
    assert hint.is_visible()
    assert "sideways" in hint.inner_text()
    assert phone.eval_on_selector(".trials", "box => box.classList.contains('wider')")
    phone.eval_on_selector(".trials", "box => { box.scrollLeft = box.scrollWidth; }")
    until(phone, "() => document.querySelector('.trials').classList.contains('end')")


def test_a_phone_shows_all_numbers_of_the_chosen_model(visit, tmp_path):
    path = render(make_report(), tmp_path)[0]
    phone = visit(path, viewport={"width": 390, "height": 844}).page
    for cell in phone.locator("#chosen td").all():
        box = cell.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    assert phone.eval_on_selector("#chosen td", "c => getComputedStyle(c, '::before').content") == (
        '"Chosen model"'
    )


@pytest.fixture
def address(quick_study, tmp_path):
    return render(report_data(quick_study), tmp_path)[0].as_uri()


def shown(page):
    """The titles of the states in sight."""
    script = "all => all.filter(e => e.offsetParent !== null).map(e => e.textContent)"
    return page.eval_on_selector_all("#move details[open] .state h3", script)


def test_a_limit_moves_without_scripts_by_keyboard_and_on_a_phone(chromium, address):
    context = chromium.new_context(
        java_script_enabled=False, viewport={"width": 390, "height": 844}
    )
    page = context.new_page()
    page.goto(address)
    states = page.locator("#move details[open] .state")
    visible = [i for i in range(states.count()) if states.nth(i).is_visible()]
    assert len(visible) == 1
    page.locator("#move details[open] input:checked").focus()
    page.keyboard.press("ArrowRight")
    moved = [i for i in range(states.count()) if states.nth(i).is_visible()]
    assert len(moved) == 1
    assert moved != visible
    assert states.nth(moved[0]).locator("svg.curve use").count() >= 2


def test_a_slider_picks_the_range_that_it_lies_in(chromium, address):
    page = chromium.new_context(viewport={"width": 1280, "height": 900}).new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    page.wait_for_selector("html.js", state="attached")
    slider = page.locator("#move details[open] input[type=range]")
    (before,) = shown(page)
    slider.focus()
    page.keyboard.press("End")
    (loosest,) = shown(page)
    page.keyboard.press("Home")
    (strictest,) = shown(page)
    assert len({before, loosest, strictest}) >= 2
    assert strictest == "Dummy"
    low = page.locator("#move details[open] input:checked").get_attribute("data-low")
    assert float(low) == float(slider.get_attribute("min"))
    assert complaints == []


def test_on_paper_one_state_stands_beside_the_table_of_all(chromium, address):
    page = chromium.new_context(viewport={"width": 800, "height": 900}).new_page()
    page.goto(address)
    page.emulate_media(media="print")
    assert len(shown(page)) == 1
    assert not page.locator("#move details[open] .slide").is_visible()
    assert not page.locator("#move details[open] .rail label").first.is_visible()
    assert page.locator("#move details[open] table").is_visible()
    # Curves are part of the page itself, so they are on paper too.
    assert page.locator("#along svg.curve").first.is_visible()
