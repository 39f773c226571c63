"""What all pages share: phone, theme, keyboard, tour, links, saved figures."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.explorer.conftest import PHONE
from tests.explorer.views import Open, address, readout, settle, wait_for_steps

# Controls and pictures without a name for a screen reader.
NAMELESS = """
() => [...document.querySelectorAll("button, input, select, canvas[tabindex], [role=img]")]
  .filter((each) => !(each.getAttribute("aria-label") || each.innerText || each.labels?.length))
  .map((each) => each.outerHTML)
"""


def test_colours_differ_in_lightness(open_page: Open) -> None:
    """Of curves and of classes: they are told apart in grey print, and from the ground, light and dark."""
    palettes = """async () => {
      const { THEMES } = await import("./shell.js"), { COLOURS } = await import("./charts.js");
      return Object.values(THEMES).map(({ ground, classes }) => [ground, classes, COLOURS]); }"""

    def luminance(colour: str) -> float:
        shares = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for ground, classes, curves in open_page().evaluate(palettes):
        for colours, apart in ((classes, 10), (curves, 5)):
            lightness = sorted(116 * luminance(each) ** (1 / 3) - 16 for each in colours)
            assert min(high - low for low, high in pairwise(lightness)) > apart
            for each in colours:
                low, high = sorted((luminance(each), luminance(ground)))
                assert (high + 0.05) / (low + 0.05) > 2.95


def test_figures_are_saved_as_png_svg_and_csv(open_page: Open, tmp_path: Path) -> None:
    page = open_page("#objective?show=dissipation")

    def saved(button: str) -> bytes:
        with page.expect_download() as download:
            page.get_by_role("button", name=button, exact=True).click()
        download.value.save_as(tmp_path / "figure")
        return (tmp_path / "figure").read_bytes()

    assert saved("Save dissipation-infonce as PNG").startswith(b"\x89PNG")
    drawn = saved("Save dissipation-infonce as SVG").decode()
    assert drawn.startswith("<svg")
    assert "data:image/png;base64," in drawn and "angle of the negatives" in drawn
    rows = saved("Save dissipation-infonce as CSV").decode().splitlines()
    assert rows[0] == "positive_degrees,negatives_degrees,dissipation"
    assert len(rows) == 1 + 200 * 200
    assert rows[1].startswith("9,9,")
    assert len(saved("Save cut-dissipation-negative as CSV").decode().splitlines()) == 201
    page.get_by_role("button", name="Sphere").click()
    assert saved("Save sphere as PNG").startswith(b"\x89PNG")
    assert len(saved("Save sphere as CSV").decode().splitlines()) == 1 + 48
    assert saved("Save curves as CSV").decode().startswith("step,loss,active,alignment,uniformity,energy,rank\n0,")


@pytest.mark.parametrize("view", [
    "#sphere?s.temperature=0&start=constructor", "#sphere?objective=align_uniform&s.alpha=-5&s.weight=nan&rate=-1",
    "#objective?a.temperature=-1&show=constructor&b=mat&b.margin=1e9",
])  # fmt: skip
def test_a_link_with_settings_that_do_not_exist_shows_the_nearest(open_page: Open, view: str) -> None:
    page = open_page(view)
    for button in page.get_by_role("button", name="Step", exact=True).all():
        button.click()
    page.evaluate("window.dispatchEvent(new Event('resize'))")
    assert "NaN" not in page.locator(".page").inner_html()
    assert page.get_by_role("application").count() >= 1  # takes arrow keys from a screen reader


@pytest.mark.parametrize("view", ["#objective?b=dcl", "#sphere"])
def test_a_phone_shows_everything_without_scrolling_sideways(open_page: Open, view: str) -> None:
    page = open_page(view, size=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for canvas in page.locator("canvas").all():
        box = canvas.bounding_box()
        assert box["width"] > 250
        assert box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"]


def test_dark_follows_the_system_and_the_button_which_is_remembered(open_page: Open) -> None:
    page = open_page(color_scheme="dark")
    theme = "document.querySelector('.explorer').dataset.theme"
    assert page.evaluate(theme) == "dark"
    assert page.evaluate("getComputedStyle(document.querySelector('.explorer')).backgroundColor") == "rgb(15, 20, 27)"
    page.get_by_role("button", name="Switch to light colours").click()
    assert page.evaluate(theme) == "light"
    page.reload()
    page.wait_for_selector(".page")
    assert page.evaluate(theme) == "light"


def test_a_notebook_that_changes_its_theme_is_followed(open_page: Open) -> None:
    page = open_page(
        script="document.addEventListener('DOMContentLoaded', () => document.body.dataset.jpThemeLight = 'true')"
    )
    page.evaluate(
        """async () => { const { mount } = await import("./explorer.js"), home = document.createElement("div");
        document.body.append(home);
        mount(home, { api: null, data: { objectives: [], version: "" }, state: { page: "papers" } }); }"""
    )
    themes = "[...document.querySelectorAll('.explorer')].map((each) => each.dataset.theme)"
    assert page.evaluate(themes) == ["light", "light"]
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    settle(page)
    assert page.evaluate(themes) == ["light", "dark"]  # a page of its own follows the system


def test_the_keyboard_reaches_pages_and_controls_and_all_have_names(open_page: Open) -> None:
    page = open_page()
    reached = []
    for _ in range(13):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.innerText || document.activeElement.tagName"))
    pages = ["Objective", "Sphere", "Your embeddings", "Runs and studies", "Papers"]
    assert reached[:8] == [*pages, "Two-minute tour", "Copy link", "Dark"]
    assert "INPUT" in reached
    page.keyboard.press("Shift+Tab")
    page.get_by_role("button", name="Objective").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator("h1").inner_text() == "Where do the points go?"
    page.keyboard.press("1")
    assert page.locator("h1").inner_text() == "What is left of the gradient?"
    page.go_back()
    settle(page)
    assert page.locator("h1").inner_text() == "Where do the points go?"
    for view in ("Objective", "Sphere"):
        page.get_by_role("button", name=view, exact=True).click()
        assert page.evaluate(NAMELESS) == []


def test_the_tour_leads_through_both_pages(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("button", name="Two-minute tour").click()
    words, titles = 0, []
    while True:
        titles.append(page.locator(".tour h2").inner_text())
        if titles[-1] == "Watch InfoNCE stop":
            wait_for_steps(page, 30)
        elif titles[-1] == "Watch DCL go on":
            assert int(readout(page).split()[1].strip(":,")) < 30  # from the start again
        words += len(page.locator(".tour").inner_text().split())
        if not page.locator(".tour").get_by_role("button", name="Next").count():
            break
        page.locator(".tour").get_by_role("button", name="Next").click()
    assert len(titles) == 9 and "Watch InfoNCE stop" in titles
    assert words < 500  # two minutes of reading
    assert page.get_by_role("button", name="Pause").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".tour").count() == 0
    assert address(page).startswith("#sphere?objective=ntxent&anchors=1")


def test_on_a_phone_the_tour_does_not_hide_what_it_is_about(open_page: Open) -> None:
    page = open_page(size=PHONE)
    page.get_by_role("button", name="Tour").click()
    for light in (".maps canvas", ".controls", ".maps canvas", ".maps canvas", ".stage canvas"):
        page.locator(".tour").get_by_role("button", name="Next").click()
        settle(page)
        lit, card = page.locator(light).first.bounding_box(), page.locator(".tour").bounding_box()
        assert lit["y"] >= 0 and min(lit["y"] + lit["height"], card["y"]) - lit["y"] > 120
