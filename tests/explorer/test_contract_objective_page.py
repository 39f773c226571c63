"""The page Objective in a real browser."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from hypersphere.anatomy import list_closed_forms
from hypersphere.explorer.catalogue import catalogue
from tests.explorer.views import ALL_SLIDERS, Open, Work, address, choose, settle


def test_one_objective_has_four_maps_two_cuts_and_its_words(open_page: Open) -> None:
    page = open_page()
    assert page.locator(".maps h3").all_inner_texts() == ["Dissipation", "Weight", "Ratio", "Gradient norm"]
    assert page.locator(".cuts svg").count() == 2
    about = page.locator(".about").inner_text()
    assert "L_i = -log( e^{s_ii/τ} / Σ_j e^{s_ij/τ} )" in about
    assert "Use it when in doubt" in about
    assert "Gao et al. 2021" in about
    assert "GD = 1 - p_ii" in about
    assert page.locator(".maps [data-quantity=dissipation] .edge").count() == 2  # a dark line on a light one


def test_two_objectives_have_maps_side_by_side_and_their_difference(open_page: Open) -> None:
    page = open_page("#objective?show=dissipation")
    choose(page, "Compare with", "dcl")
    assert page.locator(".maps h3").all_inner_texts() == [
        "Dissipation, infonce",
        "Dissipation, dcl",
        "Dissipation, infonce − dcl",
    ]
    assert "1 at all angles" in page.locator(".maps").inner_text()  # DCL never dissipates
    assert page.locator(".about h2").all_inner_texts() == ["infonce", "dcl"]
    assert address(page) == "#objective?show=dissipation&b=dcl"
    page.get_by_role("button", name="Weight", exact=True).click()
    settle(page)
    flat = page.locator(".difference text", has_text="at all angles")
    assert flat.all_text_contents() == ["0 at all angles"]  # both have the softmax of the negatives


def test_a_difference_below_zero_is_striped_and_one_above_is_not(open_page: Open) -> None:
    """Purple and orange are equally dark in grey print."""
    colours = """([x, y]) => { const canvas = document.querySelector(".difference canvas");
      const { data } = canvas.getContext("2d").getImageData(x * canvas.width, y * canvas.height, 20, 20);
      return new Set(new Uint32Array(data.buffer)).size; }"""
    page = open_page("#objective?b=dcl&show=dissipation")
    assert page.evaluate(colours, [0.8, 0.8]) == 2  # -1: the anchor has stopped under InfoNCE alone
    choose(page, "Show", "dcl")
    choose(page, "Compare with", "infonce")
    assert page.evaluate(colours, [0.8, 0.8]) == 1
    page.evaluate("() => { location.hash = '#objective?b=met&show=ratio'; }")
    settle(page)
    assert page.evaluate(colours, [0.6, 0.85]) == 2  # 1 - d_n/d_p is below -3 there, and the colours end at -2.5


def test_the_map_is_that_of_the_closed_form(open_page: Open) -> None:
    """The picture's pixels against the formula: full gradient at the upper left, none at the lower right."""
    page = open_page("#objective?show=dissipation")
    corner = """(at) => { const canvas = document.querySelector(".maps canvas");
      return [...canvas.getContext("2d").getImageData(at[0], at[1], 1, 1).data]; }"""
    assert page.evaluate(corner, [0, 0]) == [254, 232, 56, 255]  # the lightest and the darkest colour of cividis
    assert page.evaluate(corner, [199, 199]) == [0, 34, 78, 255]


def test_the_view_is_in_the_address_and_comes_back_from_it(open_page: Open) -> None:
    view = "#objective?a=met&b=infonce&show=ratio&a.margin=0.3&b.temperature=0.1&negatives=31&spread=0.2&p=45&q=120"
    page = open_page(view)
    values = dict(zip(page.locator(".control label").all_inner_texts(), page.locator(".control").all(), strict=True))
    shown = {
        name: each.locator("output").inner_text() for name, each in values.items() if each.locator("output").count()
    }
    assert shown == {"margin": "0.3", "temperature": "0.1", "Negatives": "31", "Spread of angles": "11.5°"}
    assert page.get_by_label("Show", exact=True).input_value() == "met"
    assert "Positive at 45°, negatives at 120°" in page.locator(".readout").inner_text()
    before = page.locator(".readout").inner_text()
    page.get_by_label("margin").press("ArrowRight")
    changed = address(page)
    assert changed != view
    assert "a.margin=0.30" in changed
    page.reload()
    page.wait_for_selector(".page")
    assert page.evaluate("location.hash") == changed
    page.evaluate("(view) => { location.hash = view; }", view)
    settle(page)
    assert page.locator(".readout").inner_text() == before
    assert page.locator(".control output").first.inner_text() == "0.3"


def test_every_slider_of_every_closed_form_moves_its_map(open_page: Open) -> None:
    page = open_page("#objective?negatives=15&show=dissipation")
    settings = {entry["name"]: entry["settings"] for entry in catalogue()["objectives"]}
    for name in list_closed_forms():
        if name in settings:
            choose(page, "Show", name)
            assert page.evaluate(ALL_SLIDERS) == 2 + sum("low" in each for each in settings[name])
    for name in ("kcl", "triplet", "mmhe"):
        choose(page, "Show", name)
        choice = next(each for each in settings[name] if "choices" in each)
        for value in choice["choices"]:
            choose(page, choice["name"], value)
            assert page.locator(".maps canvas").count() == (0 if value == "riesz" else 1)
    assert "cannot align" not in page.locator(".maps").inner_text()


@pytest.mark.parametrize("view", ["#objective", "#objective?b=met&show=dissipation"])
def test_a_slider_costs_less_than_fifty_milliseconds(open_page: Open, record_property: Any, view: str) -> None:
    page = open_page(view)
    slider = page.get_by_label("temperature")
    work, walls = [], []
    for _ in range(8):
        before = Work(page)
        slider.press("ArrowRight")
        settle(page)
        work.append(before.since())
        walls.append(float(page.locator(".page").get_attribute("data-milliseconds")))
    record_property("slider_milliseconds", {"processor": work, "wall": walls})
    print(f"slider to picture: {median(work):.1f} ms of processor time, {median(walls):.1f} ms on the clock")
    assert min(work) < 50  # the others wait for caches that the rest of the machine has emptied


def test_the_pointer_follows_mouse_and_keyboard(open_page: Open) -> None:
    page = open_page("#objective?show=dissipation&p=30&q=75")
    page.locator(".surface").focus()
    for key in ("ArrowUp", "ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
        settle(page)
    assert "Positive at 31°, negatives at 86°" in page.locator(".readout").inner_text()
    assert "negatives at 86°" in page.locator(".cuts h3").nth(1).inner_text()
    box = page.locator(".maps canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 1)
    settle(page)
    assert "Positive at 90°, negatives at 180°" in page.locator(".readout").inner_text()
    assert "p=89" in address(page) or "p=90" in address(page)


def test_an_objective_without_a_closed_form_is_asked_of_python(open_page: Open) -> None:
    watch = """window.sentences = new Set();
      const watch = () => document.querySelectorAll(".sentence").forEach((each) => sentences.add(each.innerText));
      new MutationObserver(watch).observe(document, { childList: true, subtree: true });"""
    page = open_page("#objective?a=siglip&show=dissipation", script=watch)
    page.wait_for_selector(".maps canvas")
    assert page.evaluate("[...sentences]") == ["siglip has no closed form: Python is computing its map …"]
    assert "Python took gradients apart." in page.locator(".maps figcaption").inner_text()
    choose(page, "Compare with", "infonce")
    assert page.locator(".maps canvas").count() == 3


def test_without_a_server_a_missing_map_costs_a_sentence_and_words_are_escaped(open_page: Open) -> None:
    page = open_page()
    entry = {
        "name": "mine",
        "summary": "<b onclick=x>bold</b>",
        "formula": "<img src=x>",
        "use": "",
        "settings": [],
        "closed_form": False,
    }
    page.evaluate(
        """async (entry) => { const { mount } = await import("./explorer.js"), home = document.createElement("div");
        document.body.append(home);
        const data = { objectives: [entry], version: "" }, state = { page: "objective", a: "mine" };
        window.home = mount(home, { api: null, data, state }); }""",
        entry,
    )
    second = page.locator(".explorer").nth(1)
    assert 'Open the page with "hypersphere explore"' in second.locator(".maps").inner_text()
    assert "<b onclick=x>bold</b>." in second.locator(".about").inner_text()
    assert second.locator(".about img, .about b").count() == 0
    page.evaluate("window.home.destroy()")
    assert second.inner_text() == ""
