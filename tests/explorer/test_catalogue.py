"""The objectives as the page shows them."""

from __future__ import annotations

import math

from hypersphere.anatomy import list_closed_forms
from hypersphere.explorer.catalogue import catalogue
from hypersphere.objectives import create_objective, list_objectives


def test_the_catalogue_has_every_objective_with_settings_that_create_it() -> None:
    entries = {entry["name"]: entry for entry in catalogue()["objectives"]}
    assert list(entries) == list_objectives()
    for name, entry in entries.items():
        assert all(entry[word] for word in ("summary", "formula", "use", "source", "gradient"))
        assert entry["closed_form"] == (name in list_closed_forms())
        for setting in entry["settings"]:
            if "choices" in setting:
                assert setting["default"] in setting["choices"]
            else:
                assert setting["low"] <= setting["default"] <= setting["high"]
                assert math.isfinite(setting["high"] - setting["low"])
                assert setting["low"] > 0 or not setting["log"]
        if entry["closed_form"] and name != "paradigm":  # whose settings belong to its components
            create_objective(name, **{each["name"]: each["default"] for each in entry["settings"]})
