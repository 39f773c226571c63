"""A study and its cells: what is tuned, what stays the same, and what a mistake is answered with."""

import itertools

import pytest
import torch

from hypersphere.objectives import create_objective, list_objectives
from hypersphere.objectives.registry import objective_class
from hypersphere.objectives.settings import Number
from hypersphere.studies.compare.cells import Plan, evenly_spread
from hypersphere.studies.compare.choice import choose, tuned
from hypersphere.studies.compare.effects import has_effect
from hypersphere.studies.compare.queue import Attempt
from hypersphere.studies.compare.results import collect
from hypersphere.studies.compare.space import own_ranges
from hypersphere.studies.compare.study import Study, label_of, parse_study, read_study
from tests import cases


def plan(**given):
    return Plan(
        read_study("digits", given.pop("words", []), **{"objectives": "ntxent,dhel", "trials": 3, "seeds": 2, **given})
    )


def test_every_range_contains_its_default():
    for name in list_objectives():
        for key, setting in objective_class(name).settings().items():
            if isinstance(setting, Number) and setting.tune is not None:
                assert setting.tune.low <= setting.default <= setting.tune.high, (name, key)


def test_cells_are_untrained_tuning_and_test():
    made = plan()
    assert (len(made.untrained), len(made.tuning), made.count()) == (2, 6, 2 + 6 + 4)
    assert [cell.settings for cell in made.tuning[:2]] == [{}, {}]  # the defaults first
    assert set(made.tuning[2].settings) == {"optimizer.lr", "objective.temperature"}


def test_objectives_meet_the_same_points_and_more_trials_only_add():
    few, more = plan(), plan(trials=5)
    assert [cell.id for cell in few.tuning] == [cell.id for cell in more.tuning[:6]]
    ntxent, dhel = more.tuning[4], more.tuning[5]
    assert (ntxent.objective, dhel.objective) == ("ntxent", "dhel")
    assert ntxent.settings["optimizer.lr"] == dhel.settings["optimizer.lr"]


def test_tuning_never_looks_at_the_test_set_and_never_uses_a_test_seed():
    made = plan()
    tested = made.test({"name": "dhel"}, made.tuning[3])
    assert not any(cell.recipe.evaluation.test for cell in made.tuning)
    assert all(cell.recipe.evaluation.test for cell in (*tested, *made.untrained))
    assert {cell.seed for cell in tested}.isdisjoint({cell.seed for cell in made.tuning})
    assert {cell.seed for cell in tested} == {cell.seed for cell in made.untrained}  # paired


def test_an_id_is_the_content_of_the_run():
    ids = [cell.id for cell in plan().begin]
    assert len(set(ids)) == len(ids)
    assert ids == [cell.id for cell in plan(output="elsewhere").begin]
    assert not set(ids) & {cell.id for cell in plan(words=["batch.size=128"]).begin}
    both, one = plan(), plan(objectives="dhel")
    assert [cell.id for cell in both.untrained] == [cell.id for cell in one.untrained]


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


def test_without_trials_every_objective_runs_as_it_is_given():
    made = plan(objectives=["ntxent", {"name": "mpt", "margin": 0.3}], trials=0)
    assert not made.tuning and made.count() == 2 + 4
    chosen = {cell.objective: cell for _, cell in choose(made, {})}
    tested = made.test({"name": "mpt", "margin": 0.3}, chosen["mpt margin=0.3"])
    assert [cell.recipe.objective for cell in tested] == 2 * [{"name": "mpt", "margin": 0.3}]


def test_changes_may_be_a_mapping_and_a_word_overrides_it(tmp_path):
    (tmp_path / "mine.yaml").write_text("recipe: digits\nobjectives: [ntxent]\nchanges: {steps: 30, batch.size: 64}\n")
    recipe = Plan(read_study(str(tmp_path / "mine.yaml"), ["steps=10"])).tuning[0].recipe
    assert (recipe.steps, recipe.batch.size) == (10, 64)
    (tmp_path / "mine.yaml").write_text("recipe: digits\nobjectives: [ntxent]\nchanges: 3\n")
    with pytest.raises(ValueError, match="changes is 3: it should be a list of key=value words, or a mapping"):
        read_study(str(tmp_path / "mine.yaml"))


def test_passes_over_the_data_and_the_untrained_encoder_go_together():
    made = plan(words=["epochs=2"])
    assert {cell.recipe.epochs for cell in made.tuning} == {2} and {cell.recipe.steps for cell in made.untrained} == {0}


def test_a_grid_crosses_its_keys_with_every_objective_and_seed():
    made = plan(grid={"optimizer.lr": [0.1, 0.01], "batch.size": [64, 128]})
    assert not made.tuning and len(made.grid) == 2 * 4 * 2
    assert {(cell.recipe.optimizer.lr, cell.recipe.batch.size) for cell in made.grid} == set(
        itertools.product((0.1, 0.01), (64, 128))
    )


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_trials_fill_the_ranges_more_evenly_than_chance(dimensions):
    points = torch.tensor([evenly_spread(k, dimensions) for k in range(1, 17)])
    assert ((points >= 0) & (points < 1)).all()
    chance = torch.rand(200, 16, dimensions, generator=torch.Generator().manual_seed(0))
    assert _largest_gap(points) < torch.stack([_largest_gap(each) for each in chance]).median()


def _largest_gap(points):
    """The largest distance on one axis between neighbouring values, the worst axis."""
    edged = torch.cat([torch.zeros(1, points.shape[1]), points, torch.ones(1, points.shape[1])])
    return edged.sort(dim=0).values.diff(dim=0).max()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"objectives": "ntxent,dehl"}, "no objective 'dehl'; did you mean 'dhel'"),
        ({"objectives": ""}, "an objective of a study is a name"),
        ({"objectives": "ntxent,ntxent"}, "stands twice"),
        ({"words": ["batch.sise=3"]}, "batch.size"),
        ({"reference": "infonce"}, "is not among the objectives"),
        ({"trials": -1}, "trials"),
        ({"trials": 0, "ranges": {"dhel": {"temperature": [0.2, 0.5]}}}, "a study without trials tunes nothing"),
        ({"trials": 10**12}, "2,000,000,000,004 runs; more than 50,000 are not begun"),
        ({"grid": {"steps": list(range(1, 30_001))}}, "120,000 runs"),
        ({"words": ["objective=met"]}, "would be the same for all objectives: give it with an objective"),
        ({"words": ["objective.temperature=0.2"]}, "would be the same for all objectives"),
        ({"words": ["output=x"]}, "the study's own is --output"),
        ({"output": "~nosuchuser/x"}, "no home folder ~nosuchuser"),
        ({"grid": {"batch.size": [32, 32]}}, "has a value of batch.size twice"),
        ({"grid": {"objective.name": ["dcl"]}}, "set by the study itself"),
        ({"ranges": {"dhel": {"temperature": [0.2, 0.3, 0.2]}}}, "hold one of them twice"),
        ({"grid": {"batch.size": []}}, "no values for batch.size, so the study has no cells"),
        ({"grid": {"seed": [1]}}, "set by the study itself"),
        ({"ranges": {"dhel": {"temperature": [0.5, 0.5]}}}, "range of dhel's temperature is empty"),
        ({"ranges": {"dhel": {"temperature": [0.5, 0.9]}}}, "excludes its default 0.3"),
        ({"ranges": {"dhel": {"marign": [0.5, 0.9]}}}, "not a key"),
        ({"tune": {"optimizer.lr": [1, 2]}}, "excludes its default 0.002"),
        ({"stages": [{"objective.marign": [0.1, 0.2]}]}, "objective.marign, which no objective of the study has"),
        ({"stages": [{"batch.size": [32, 32]}]}, "a stage has a value of batch.size twice"),
        ({"stages": [{"batch.size": [32]}], "tune": {"optimizer.lr": [1e-3, 1e-2]}}, "in stages has its values there"),
        ({"stages": [{"batch.size": []}]}, "stages"),
        ({"stages": [{"seed": [1, 2]}]}, "set by the study itself"),
        ({"stages": [{"encoder.name": [1, 2]}]}, "not a number"),
        ({"metric": "stsb_dev"}, "has no metric stsb_dev; it has knn"),
        ({"words": ["data.held_out=0"]}, "needs data.held_out"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(given, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        plan(**given)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600


def test_an_objective_that_needs_labels_is_refused_where_there_are_none(tmp_path):
    (tmp_path / "lines.txt").write_text("a sentence\n" * 80)
    words = [f"data.source={tmp_path / 'lines.txt'}", f"evaluation.sts={tmp_path}"]
    with pytest.raises(ValueError, match="supcon reads labels, and text has none"):
        Plan(read_study("simcse-small", words, objectives="infonce,supcon"))


def test_a_study_file_is_read_with_its_recipe_beside_it(tmp_path):
    (tmp_path / "mine.yaml").write_text("recipe: digits\nobjectives: [ntxent, {name: mpt, margin: 0.3}]\nseeds: 9\n")
    study = read_study(str(tmp_path / "mine.yaml"), ["steps=10"], trials=2)
    assert study.labels == ["ntxent", "mpt margin=0.3"]
    assert (study.seeds, study.trials, study.output) == (9, 2, "studies/mine")
    assert Plan(study).tuning[0].recipe.steps == 10


def test_an_unknown_key_of_a_study_suggests_the_right_one():
    with pytest.raises(ValueError, match="no key seedz; did you mean 'seeds'"):
        parse_study({"recipe": "digits", "objectives": ["ntxent"], "seedz": 3})


def test_what_must_not_change_is_the_recipe_not_the_contestants():
    def fingerprint(**given):
        return read_study("digits", given.pop("words", []), objectives="ntxent", **given).fingerprint()

    assert fingerprint() == fingerprint(seeds=9, trials=2) == Study(recipe="digits", objectives=["dhel"]).fingerprint()
    assert fingerprint() != fingerprint(words=["batch.size=64"])


STAGES = [{"batch.size": [64, 128], "optimizer.lr": [0.001, 0.01], "objective.temperature": [0.3]},
          {"objective.temperature": [0.1, 0.3, 0.5]}]  # fmt: skip


def ended(cells, score):
    return {cell.id: Attempt(-1, "done", "", {"history": {"0": {"knn": score(cell)}}, "best_step": 0, "scores": {}})
            for cell in cells}  # fmt: skip


def test_a_later_stage_starts_from_the_best_setting_of_the_one_before():
    made = plan(stages=STAGES)
    first = made.stage({"name": "ntxent"}, 0, {})
    assert [cell.settings["batch.size"] for cell in first] == [64, 64, 128, 128]
    assert all(cell.recipe.objective["temperature"] == 0.3 for cell in first) and made.tuning[:4] == first
    attempts = ended(made.tuning, lambda cell: cell.recipe.batch.size + cell.recipe.optimizer.lr)
    cells = tuned(made, {"name": "ntxent"}, attempts)
    assert [cell.trial for cell in cells] == list(range(7)) and not choose(made, attempts)
    assert all((cell.recipe.batch.size, cell.recipe.optimizer.lr) == (128, 0.01) for cell in cells[4:])
    assert cells[5].id == first[3].id  # the same setting is run once
    attempts |= ended(cells[4:], lambda cell: 200 - cell.recipe.objective["temperature"])
    ((objective, best),) = choose(made, attempts)
    assert (objective["name"], best.settings["objective.temperature"], best.trial) == ("ntxent", 0.1, 4)


def test_the_best_of_an_earlier_stage_may_stay_the_best():
    made = plan(
        stages=[{"optimizer.lr": [0.001, 0.002, 0.004]}, {"objective.temperature": [0.1, 0.2]}], objectives="ntxent"
    )
    attempts = ended(made.tuning, lambda cell: 50 - cell.trial)
    attempts |= ended(tuned(made, {"name": "ntxent"}, attempts)[3:], lambda cell: 10.0)
    (row,) = collect(made, attempts).contestants
    assert row.settings == {"optimizer.lr": 0.001} and len(row.tuning) == 5
    assert list(row.at_bound) == ["optimizer.lr"]  # the temperature is the default, none of the values


def test_the_runs_of_a_search_in_stages_are_counted_in_advance():
    made = plan(stages=STAGES, objectives="ntxent,dhel,kcl")
    assert made.count() == 2 + 2 * (4 + 3) + (4 + 1) + 3 * 2  # kcl has no temperature: its second stage is one point
    again = plan(stages=STAGES)
    assert [cell.id for cell in made.stage({"name": "dhel"}, 1, {})] == [
        cell.id for cell in again.stage({"name": "dhel"}, 1, {})
    ]


def test_a_stage_without_a_score_ends_the_search_of_its_objective():
    made = plan(stages=STAGES, objectives="ntxent")
    failed = {cell.id: Attempt(-1, "failed", "diverged", None) for cell in made.tuning}
    failed |= ended(made.untrained, lambda cell: 1.0)
    assert len(tuned(made, {"name": "ntxent"}, failed)) == 4 and not choose(made, failed)
    assert collect(made, failed).complete


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


def test_under_a_guide_the_settings_of_the_objective_inside_are_tuned():
    plain, guided = (
        plan(objectives=[objective]).spaces for objective in ("infonce", {"name": "infonce", "guide": "self"})
    )
    assert [list(space) for space in guided.values()] == [list(space) for space in plain.values()]
    assert "objective.temperature" in next(iter(guided.values()))


def test_every_declared_range_of_a_default_objective_has_an_effect_but_for_the_modified_ones():
    idle = {}
    for name in list_objectives():
        made = create_objective(name, **cases.settings_of(name, 4, 8))
        without = [key for key, span in own_ranges(made).items() if not has_effect(made, key, span)]
        if without:
            idle[name] = without
    assert idle == {"mbarlow": ["weight"], "mmhe": ["weight"], "mmhs": ["temperature", "weight"], "mvicreg": ["weight"]}
