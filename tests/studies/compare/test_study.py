"""A study as it is written down: its recipe and changes, and what a mistake is answered with."""

import pytest

from hypersphere.studies.compare.cells import Plan
from hypersphere.studies.compare.study import Study, parse_study, read_study
from tests.studies.compare.plans import plan


def test_changes_may_be_a_mapping_and_a_word_overrides_it(tmp_path):
    (tmp_path / "mine.yaml").write_text("recipe: digits\nobjectives: [ntxent]\nchanges: {steps: 30, batch.size: 64}\n")
    recipe = Plan(read_study(str(tmp_path / "mine.yaml"), ["steps=10"])).tuning[0].recipe
    assert (recipe.steps, recipe.batch.size) == (10, 64)
    (tmp_path / "mine.yaml").write_text("recipe: digits\nobjectives: [ntxent]\nchanges: 3\n")
    with pytest.raises(ValueError, match="changes is 3: it should be a list of key=value words, or a mapping"):
        read_study(str(tmp_path / "mine.yaml"))


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
