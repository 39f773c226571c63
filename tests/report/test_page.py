"""A page is one well-formed file, whatever words are put into it."""

import xml.etree.ElementTree as ElementTree

import pytest

from hypersphere.diagnostics import diagnose
from hypersphere.figures.diagnosis import plots
from hypersphere.geometry import uniform_points
from hypersphere.report.diagnosis import diagnosis_page
from hypersphere.report.page import Box, page, paragraph, pictures, section, table

NASTY = "<b>\"a\" & 'b'</b>"


def as_xml(text):
    """Everything between <body> and </body>, read by a strict parser."""
    return ElementTree.fromstring(text[text.index("<body>") : text.index("</body>") + 7])


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


@pytest.mark.parametrize("count, dim", [(300, 8), (5, 3), (40, 2)])
def test_a_diagnosis_is_a_page_with_its_own_identifiers(count, dim):
    z = uniform_points(count, dim)
    text = diagnosis_page(diagnose(z, z.flip(0)), NASTY)
    body = as_xml(text)
    names = [element.get("id") for element in body.iter() if element.get("id")]
    assert len(names) == len(set(names)) > 10
    used = {value[1:] for element in body.iter() for key, value in element.attrib.items() if key.endswith("href")}
    assert used and used <= set(names)
    assert "positives not aligned" in text.lower()


def test_the_same_diagnosis_gives_the_same_page():
    z = uniform_points(30, 4)
    assert diagnosis_page(diagnose(z), "z") == diagnosis_page(diagnose(z), "z")


def test_pictures_have_a_name_for_those_who_do_not_see_them():
    figures = plots(diagnose(uniform_points(30, 4)))
    assert list(figures) == ["similarities", "spectrum", "dimensions", "neighbours"]
    drawn = pictures([(figures["spectrum"], "Spectrum", "words")])
    assert 'role="img" aria-label="Spectrum"' in drawn
