"""A page is one well-formed file, whatever words are put into it."""

import xml.etree.ElementTree as ElementTree

from hypersphere.diagnostics import diagnose
from hypersphere.figures.anatomy import new_figure
from hypersphere.figures.diagnosis import plots
from hypersphere.geometry import uniform_points
from hypersphere.report.page import READABLE, STYLE, Box, page, paragraph, pictures, section, table
from tests.report.markup import NASTY, as_xml


def test_words_are_escaped_everywhere():
    parts = [
        section(NASTY, paragraph(NASTY), table([NASTY, NASTY], [[NASTY, NASTY]]), Box("warn", NASTY, [NASTY]).html())
    ]
    body = as_xml(page(NASTY, NASTY, parts, NASTY))
    assert "".join(body.itertext()).count(NASTY) == 11  # each as often as it was put in
    assert body.find(".//b") is None


def test_numbers_stand_to_the_right():
    body = ElementTree.fromstring(table(["name", "value"], [["met", "1.1"]], numbers=[1]))
    assert [cell.get("class") for cell in body.iter("td")] == [None, "number"]


def test_pictures_have_a_name_for_those_who_do_not_see_them():
    figures = plots(diagnose(uniform_points(30, 4)))
    assert list(figures) == ["similarities", "spectrum", "dimensions", "neighbours"]
    drawn = pictures([(figures["spectrum"], "Spectrum", "words")])
    assert 'role="img" aria-label="Spectrum"' in drawn


def test_pictures_are_as_wide_as_their_letters_need_and_scroll():
    """On a narrow screen the box around a drawing scrolls; nine inches of drawing are not pressed into it."""
    wide, narrow = new_figure(9.0, 2.0), new_figure(5.0, 2.0)
    body = ElementTree.fromstring(pictures([(wide, "Wide", "words"), (narrow, "Narrow", "words")]))
    boxes = [element for element in body.iter("div") if element.get("class") == "drawing"]
    assert [box.get("style") for box in boxes] == [f"--least: {READABLE * inches:.0f}rem" for inches in (9, 5)]
    assert ".drawing { overflow-x: auto; }" in STYLE and "min-width: var(--least)" in STYLE


def test_a_page_stays_readable_where_the_browser_darkens_it():
    """Letters and lines are turned light, a white ground behind them would not be; so drawings have none."""
    assert "color-scheme: only light" in page("a", "b", [])
    drawn = pictures([(figure, name, "words") for name, figure in plots(diagnose(uniform_points(30, 4))).items()])
    assert "fill: #ffffff" not in drawn and "fill: none" in drawn
