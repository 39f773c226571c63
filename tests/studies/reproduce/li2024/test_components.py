"""The components' figure: every clause can fail."""

import pytest

from hypersphere.studies.reproduce.li2024 import components


@pytest.mark.parametrize("spoilt", ["ratio", "weight"])
def test_each_clause_of_the_components_can_fail(spoilt, monkeypatch):
    anatomy = components._anatomy

    def changed(name, polar, negatives, **settings):
        if spoilt == "ratio" and "value" in settings:
            settings["value"] = 1.0
        if spoilt == "weight" and (name, polar) == ("infonce", 12):
            settings["temperature"] = 0.2
        return anatomy(name, polar, negatives, **settings)

    assert components.components(quick=True).verdict == "agrees"
    monkeypatch.setattr(components, "_anatomy", changed)
    assert components.components(quick=True).verdict == "partly"
