"""The reader moves a limit: by pointer, by keyboard, without scripts, on a phone, on paper."""

import shutil

import pytest

from tasks.report.gather import report_data
from tasks.report.page import render

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.needs("chromium")


@pytest.fixture
def address(quick_study, tmp_path):
    return render(report_data(quick_study), tmp_path).html.as_uri()


@pytest.fixture
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


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
    page.wait_for_selector("html[data-drawn=yes]", state="attached")
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
