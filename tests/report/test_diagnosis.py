"""A diagnosis as a page: its own identifiers, and the same page for the same rows."""

import pytest

from hypersphere.diagnostics import diagnose
from hypersphere.geometry import uniform_points
from hypersphere.report.diagnosis import diagnosis_page
from tests.report.markup import NASTY, as_xml


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
