"""What is released or printed is found by its name, and met by nobody who does not ask for it."""

from __future__ import annotations

import pytest

import hypersphere as hs
from hypersphere.objectives import table
from hypersphere.objectives.registry import is_registered, objective_class

NAMES = hs.list_objectives("released/*") + hs.list_objectives("printed/*")


def test_they_are_listed_for_a_pattern_with_a_slash_alone() -> None:
    assert not [name for name in hs.list_objectives() if "/" in name]
    for pattern in ("mpt", "*mpt", "m*", "*", "?at"):
        assert not [name for name in hs.list_objectives(pattern) if "/" in name]
    assert len(NAMES) == 16 and hs.list_objectives("*/*") == sorted(NAMES) == hs.list_objectives("/")
    assert hs.list_objectives("released/m?t") == ["released/mat", "released/met", "released/mpt"]
    assert hs.list_objectives("*/mmhs") == ["printed/mmhs", "released/mmhs"]
    assert hs.list_objectives("released/nothing*") == []


def test_they_are_outside_the_table() -> None:
    assert "released/" not in table.markdown() and "printed/" not in table.markdown()


@pytest.mark.parametrize("name", NAMES)
def test_each_is_named_after_the_objective_that_is_right(name: str) -> None:
    right = name.partition("/")[2]
    assert is_registered(name) and objective_class(name).name == name
    assert right in hs.list_objectives() or name == "released/mixcse"
    assert table.summary(objective_class(name)) and objective_class(name).source


@pytest.mark.parametrize("name", hs.list_objectives())
def test_no_objective_has_a_setting_for_what_is_wrong(name: str) -> None:
    assert "variant" not in objective_class(name).settings()


def test_a_mistyped_name_gets_the_nearest_of_its_kind() -> None:
    with pytest.raises(ValueError, match=r"no objective 'released/mtp'; did you mean 'released/m.t'"):
        hs.create_objective("released/mtp")
    with pytest.raises(ValueError, match="no objective 'mmhee'; did you mean 'mmhe'"):
        hs.create_objective("mmhee")
    with pytest.raises(ValueError, match=r"say create_objective\('released/mixcse', preset='mixcse'\)"):
        hs.create_objective("mixcse")
