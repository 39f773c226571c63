"""What is tuned: declared ranges, those of a study, inner objectives, and settings that stay as given."""

from hypersphere.objectives import list_objectives
from hypersphere.objectives.registry import objective_class
from hypersphere.objectives.settings import Number
from tests.studies.compare.plans import plan


def test_every_range_contains_its_default():
    for name in list_objectives():
        for key, setting in objective_class(name).settings().items():
            if isinstance(setting, Number) and setting.tune is not None:
                assert setting.tune.low <= setting.default <= setting.tune.high, (name, key)


def test_settings_that_are_given_are_not_tuned():
    made = plan(objectives=[{"name": "ntxent", "temperature": 0.2}, "dhel"])
    assert set(made.spaces["ntxent temperature=0.2"]) == {"optimizer.lr"}
    assert {cell.recipe.objective["temperature"] for cell in made.tuning if cell.objective != "dhel"} == {0.2}


def test_settings_of_an_inner_objective_are_tuned_too():
    made = plan(objectives=[{"name": "cloa", "base": "ntxent"}])
    (label,) = made.spaces
    assert set(made.spaces[label]) == {"optimizer.lr", "objective.base.temperature", "objective.weight"}
    base = made.tuning[1].recipe.objective["base"]
    assert base == {"name": "ntxent", "temperature": made.tuning[1].settings["objective.base.temperature"]}


def test_ranges_of_a_study_override_the_declared_ones():
    made = plan(ranges={"dhel": {"temperature": [0.2, 0.4]}}, trials=6)
    tried = [cell.settings["objective.temperature"] for cell in made.tuning if cell.objective == "dhel" and cell.trial]
    assert all(0.2 <= value <= 0.4 for value in tried)


def test_three_values_or_more_are_the_only_ones_tried_and_whole_numbers_stay_whole():
    made = plan(tune={"batch.size": [64, 128, 256], "evaluation.shots": [0, 9]}, trials=9)
    sizes = [cell.recipe.batch.size for cell in made.tuning if cell.objective == "dhel" and cell.trial]
    assert set(sizes) == {64, 128, 256} and len(sizes) == 8
    assert all(type(cell.settings["evaluation.shots"]) is int for cell in made.tuning if cell.trial)
    assert [made.spaces["dhel"]["batch.size"].share(size) for size in (64, 128, 256)] == [0.0, 0.5, 1.0]


def test_under_a_guide_the_settings_of_the_objective_inside_are_tuned():
    plain, guided = (
        plan(objectives=[objective]).spaces for objective in ("infonce", {"name": "infonce", "guide": "self"})
    )
    assert [list(space) for space in guided.values()] == [list(space) for space in plain.values()]
    assert "objective.temperature" in next(iter(guided.values()))
