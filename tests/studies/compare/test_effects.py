"""A setting without an effect is found by trying it."""

import pytest

from hypersphere.objectives import create_objective, list_objectives
from hypersphere.studies.compare.effects import has_effect
from hypersphere.studies.compare.space import own_ranges
from hypersphere.studies.compare.study import label_of, read_study
from tests import cases
from tests.studies.compare.plans import plan


@pytest.mark.parametrize(
    ("objective", "idle"),
    [
        ({"name": "kcl", "kernel": "imq"}, {"t"}),
        ({"name": "kcl", "kernel": "riesz", "s": -1.0}, {"t"}),
        ({"name": "kcl", "kernel": "gaussian_riesz"}, set()),
        ({"name": "mmhe"}, {"weight"}),
        ({"name": "mmhe", "stage": "original"}, {"margin", "ratio", "temperature"}),
        ({"name": "mmhs"}, {"weight", "temperature"}),
        ({"name": "cloa", "base": {"name": "kcl", "kernel": "imq"}}, {"base.t"}),
    ],
)
def test_a_setting_without_effect_is_not_tuned_unless_a_range_is_given(objective, idle):
    label, made = label_of(objective), read_study("digits", objectives=[objective]).base(objective).create_objective()
    tried = {key.removeprefix("objective.") for key in plan(objectives=[objective]).spaces[label]}
    declared = set(own_ranges(made, fixed=objective))
    assert declared - tried == idle
    for name in idle:
        low, high = own_ranges(made)[name]
        assert f"objective.{name}" in plan(objectives=[objective], ranges={label: {name: [low, high]}}).spaces[label]


def test_every_declared_range_of_a_default_objective_has_an_effect_but_for_the_modified_ones():
    idle = {}
    for name in list_objectives():
        made = create_objective(name, **cases.settings_of(name, 4, 8))
        without = [key for key, span in own_ranges(made).items() if not has_effect(made, key, span)]
        if without:
            idle[name] = without
    assert idle == {"mbarlow": ["weight"], "mmhe": ["weight"], "mmhs": ["temperature", "weight"], "mvicreg": ["weight"]}
