"""A comparison before and after its runs: earlier results, classes as contestants, one line for each run."""

import json

import pytest

import hypersphere as hs
from hypersphere.studies.compare.queue import Attempt
from hypersphere.studies.compare.run import _by_name, _check_folder, finished_runs, line_of, name_of
from tests.studies.compare.plans import attempt, plan


def test_only_finished_runs_of_an_earlier_round_are_known(tmp_path):
    runs = [{"cell": "a", "state": "done", "result": {"steps": 6}}, {"cell": "b", "state": "failed", "result": {}}]
    (tmp_path / "results.json").write_text(json.dumps({"runs": runs}))
    assert finished_runs(tmp_path / "results.json") == {"a": {"steps": 6}}
    (tmp_path / "results.json").write_text('{"runs": [{"state": "done"}]}')
    with pytest.raises(ValueError, match=r"results\.json is not the results\.json of a study: KeyError\('cell'\)"):
        finished_runs(tmp_path / "results.json")


def test_a_run_is_a_line_with_its_scores_and_troubles():
    cell = plan().tuning[2]
    said = line_of(cell, attempt(70.0, 71.5, verdicts=[["over-fusion", "words"]]), "knn")
    assert said.startswith("ntxent, seed 42 (optimizer.lr ")
    assert said.endswith("): validation 70.00, test 71.50, over-fusion")
    assert line_of(cell, Attempt(1, "failed", "out of memory", None), "knn").endswith("): failed: out of memory")


def test_what_is_no_objective_cannot_take_part(forgetful):
    with pytest.raises(ValueError, match=r"dict is not an objective: derive it from hypersphere\.PairwiseObjective"):
        _by_name([dict])

    class Mine(hs.PairwiseObjective):
        """Pulls."""

        def per_anchor(self, positive, negatives, mask):
            return -positive

    named, classes = _by_name(["dhel", {"name": "mpt", "margin": 0.3}, Mine])
    assert named == ["dhel", {"name": "mpt", "margin": 0.3}, "Mine"] and classes == {"Mine": Mine}
    assert _by_name(None) == (None, {})


def test_a_folder_keeps_its_study(tmp_path):
    (tmp_path / "study.json").write_text('{"recipe": {"batch": {"size": 64}}}')
    _check_folder(tmp_path, {"recipe": {"batch": {"size": 64}}})
    with pytest.raises(ValueError, match=r"batch\.size was 64 and is now 128"):
        _check_folder(tmp_path, {"recipe": {"batch": {"size": 128}}})
    (tmp_path / "study.json").rename(tmp_path / "other.json")
    with pytest.raises(FileExistsError, match="is not empty and holds no study; --output names another folder"):
        _check_folder(tmp_path, {})


def test_the_name_in_a_storage_is_that_of_the_recipe_and_what_must_not_change():
    study = plan().study
    assert name_of(study, {"a": 1}).startswith("digits-") and name_of(study, {"a": 1}) != name_of(study, {"a": 2})
