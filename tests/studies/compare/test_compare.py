"""Whole studies on the digits: real runs in real processes, on one worker and on several."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import hypersphere as hs
from hypersphere.engine import masked_mean
from hypersphere.studies.compare import compare, process
from hypersphere.studies.compare.cells import UNTRAINED

WORDS = ["steps=6", "evaluation.every=3", "monitor.every=6", "batch.size=32", "data.rows=300", "data.held_out=100"]


def study(folder, said=None, **given):
    options = {"objectives": ["ntxent", "vicreg"], "trials": 2, "seeds": 2, "output": str(folder), "jobs": 2, **given}
    return compare("digits", changes=WORDS, echo=(said if said is not None else []).append, **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "digits"
    return study(folder), folder


def test_a_study_has_a_row_for_each_objective_and_for_the_untrained_encoder(finished):
    comparison, _ = finished
    assert {row.name for row in comparison.ranking} == {"ntxent", "vicreg", UNTRAINED}
    assert all(set(row.test) == {43, 44} for row in comparison.rows)
    assert comparison.complete and not comparison.failures


def test_settings_are_chosen_by_validation_and_the_test_set_is_used_by_the_last_runs_alone(finished):
    comparison, _ = finished
    for row in comparison.contestants:
        assert all(run.test is None and run.validation is not None for run in row.tuning)
        best = max(row.tuning, key=lambda run: (run.validation, -run.trial))
        assert row.settings == best.settings and all(run.settings == best.settings for run in row.runs)


def test_the_files_say_the_same(finished):
    comparison, folder = finished
    tree = json.loads((folder / "results.json").read_text())
    means = {row["name"]: row["summary"]["mean"] for row in tree["rows"]}
    assert means == {row.name: row.summary.mean for row in comparison.rows}
    with open(folder / "results.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 2 + 4 + 4 == len(tree["runs"])
    scores = [float(line["test"]) for line in lines if line["contestant"] == "vicreg" and line["test"]]
    assert sum(scores) / len(scores) == pytest.approx(means["vicreg"])
    page = (folder / "report.html").read_text()
    titles = (
        "Verdict",
        "Ranking",
        "Cost and settings",
        "How it came about",
        "Why",
        "What went wrong",
        "Recipes to copy",
    )
    order = [page.index(f"<h2>{title}</h2>") for title in titles]
    assert order == sorted(order) and "http" not in page.replace("http://www.w3.org", "")
    assert (folder / "ranking.png").read_bytes().startswith(b"\x89PNG")
    for name in ("table.md", "table.tex"):
        assert f"{means['ntxent']:.2f}" in (folder / name).read_text()


def test_a_finished_study_runs_nothing_and_more_seeds_run_only_what_is_new(finished, monkeypatch):
    comparison, folder = finished
    started = []
    original = process.start
    monkeypatch.setattr(process, "start", lambda *args, **rest: started.append(args[1]) or original(*args, **rest))
    assert study(folder).by_name["ntxent"].test == comparison.by_name["ntxent"].test
    assert not started
    more = study(folder, seeds=3)
    assert len(started) == len(set(started)) == 3  # one for each objective, and the untrained encoder
    assert set(more.by_name["ntxent"].test) == {43, 44, 45}


def test_finished_runs_of_an_earlier_round_are_not_repeated(finished, tmp_path, monkeypatch):
    comparison, folder = finished
    monkeypatch.setattr(process, "start", lambda *args, **rest: pytest.fail(f"{args[1]} was started"))
    known = study(tmp_path / "elsewhere", known=folder / "results.json")
    assert known.complete and known.by_name["vicreg"].test == comparison.by_name["vicreg"].test
    (tmp_path / "no.json").write_text('{"rows": []}')
    with pytest.raises(ValueError, match=r"no\.json is not the results.json of a study"):
        study(tmp_path / "third", known=tmp_path / "no.json")


def test_a_run_keeps_its_curves_and_its_views_and_no_checkpoints(finished):
    comparison, folder = finished
    result = comparison.by_name["ntxent"].runs[0].result
    assert {"hardest_weight", "positive_angle", "ratio", "gap"} <= set(result["measured"][-1])
    assert [each["step"] for each in result["training"]] == [0, 6] and "infonce" in result["training"][0]
    assert sum(result["views"]["positive"]) == pytest.approx(1, abs=1e-3)
    runs = list((folder / "runs").glob("*/results.json"))
    assert runs and not [path for path in runs if (path.parent / "checkpoints").exists()]
    assert all((path.parent / "model").exists() for path in runs)


def test_another_recipe_in_the_same_folder_is_refused_and_changes_nothing(finished):
    _, folder = finished
    before = (folder / "results.json").read_bytes()
    with pytest.raises(ValueError, match=r"optimizer\.weight_decay was 0.0001 and is now 0.3"):
        compare("digits", ["ntxent"], [*WORDS, "optimizer.weight_decay=0.3"], output=str(folder))
    assert (folder / "results.json").read_bytes() == before


def test_a_crash_is_a_row_with_its_reason_and_the_others_go_on(tmp_path, monkeypatch):
    said = []
    original = process.start

    def start(trial, cell, recipe, folder, *rest):
        running = original(trial, cell, recipe, folder, *rest)
        if recipe.objective["name"] == "vicreg" and recipe.steps:
            os.kill(running.process.pid, signal.SIGKILL)
        return running

    monkeypatch.setattr(process, "start", start)
    comparison = study(tmp_path / "study", said, trials=1, seeds=1)
    assert [run.reason for run in comparison.failures] == ["the process was ended by SIGKILL (out of memory?)"]
    assert comparison.by_name["vicreg"].summary is None and comparison.by_name["ntxent"].summary is not None
    assert "SIGKILL" in (tmp_path / "study" / "report.html").read_text()


def test_a_study_whose_encoder_cannot_be_scored_ends_at_once(tmp_path):
    words = [word for word in WORDS if not word.startswith("data.")]
    with pytest.raises(ValueError, match=r"cannot be scored as it was given: data\.held_out is 1420.*; --retry tries"):
        compare("digits", ["ntxent"], [*words, "data.held_out=1420"], seeds=1, trials=1, output=str(tmp_path / "s"),
                echo=[].append)  # fmt: skip


def test_a_search_in_stages_resumes_and_ends_with_the_best_setting(tmp_path, monkeypatch):
    """Stopped after its first stage, it goes on with the second, and runs nothing twice."""
    stages = [{"optimizer.lr": [0.0005, 0.005], "objective.temperature": [0.5]}, {"objective.temperature": [0.2, 0.5]}]
    given = {"objectives": ["ntxent"], "seeds": 1, "stages": stages}
    started, original = [], process.start

    def start(trial, cell, *rest):
        started.append(cell)
        return original(trial, cell, *rest)

    class Stopping(list):
        def append(self, words):
            super().append(words)
            if len(self) == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(process, "start", start)
    with pytest.raises(KeyboardInterrupt):
        study(tmp_path / "study", said=Stopping(), **given)
    assert len(started) == 1 + 2  # the untrained encoder and the first stage
    comparison = study(tmp_path / "study", **given)
    row = comparison.by_name["ntxent"]
    assert len(started) == len(set(started)) == 1 + 2 + 1 + 1  # of the second stage one point is known
    assert [run.trial for run in row.tuning] == [0, 1, 2, 3] and comparison.complete
    best = max(row.tuning, key=lambda run: (run.validation, -run.trial))
    assert row.settings == best.settings and set(row.settings) == {"optimizer.lr", "objective.temperature"}
    first = max(row.tuning[:2], key=lambda run: (run.validation, -run.trial))
    assert {run.settings["optimizer.lr"] for run in row.tuning[2:]} == {first.settings["optimizer.lr"]}
    with pytest.raises(ValueError, match="stages"):
        study(tmp_path / "study", **given | {"stages": stages[:1]})


def test_a_finished_study_needs_no_data_to_be_read_again(finished, monkeypatch):
    comparison, folder = finished
    monkeypatch.setattr("hypersphere.studies.compare.run.check_data", lambda recipe: pytest.fail("data was asked for"))
    assert study(folder, seeds=2).by_name["ntxent"].test == {
        seed: value for seed, value in comparison.by_name["ntxent"].test.items() if seed < 45
    }


@pytest.mark.timeout(400)  # two workers import everything, perhaps on a busy machine
def test_three_workers_on_postgresql_one_of_them_killed_give_the_same_table(finished, fresh_database, tmp_path):
    """Two are commands, of which one is killed while it runs a cell; the third is this process."""
    comparison, _ = finished
    url = fresh_database()
    command = [sys.executable, "-m", "hypersphere", "compare", "digits", "--objectives", "ntxent,vicreg"]
    command += ["--trials", "2", "--seeds", "2", "--storage", url, "--jobs", "2", "--json", *WORDS, "--output"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    workers = [subprocess.Popen([*command, str(tmp_path / f"worker{k}")], **pipes) for k in range(2)]
    try:
        _wait_for_a_running_cell(tmp_path / "worker0")
        workers[0].send_signal(signal.SIGKILL)
        workers[0].communicate(timeout=60)
        third = study(tmp_path / "worker2", storage=url)
        text, errors = workers[1].communicate(timeout=240)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    assert workers[1].returncode == 0, errors
    rows = {row["name"]: row for row in json.loads(text)["rows"]}
    for row in comparison.rows:
        test = {seed: row.test[seed] for seed in (43, 44)}
        assert {int(seed): score for seed, score in rows[row.name]["test"].items()} == test
        assert third.by_name[row.name].test == test
    _every_cell_once(url, 10)


def _wait_for_a_running_cell(folder):
    until = time.monotonic() + 100
    while not list(folder.glob("runs/*/recipe.yaml")):
        assert time.monotonic() < until, "no cell has begun"
        time.sleep(0.05)


def _every_cell_once(url, count):
    import optuna

    from hypersphere.studies.compare.queue import connect

    storage = connect(url)
    (summary,) = storage.get_all_studies()
    trials = storage.get_all_trials(summary._study_id)
    done = [trial.user_attrs["cell"] for trial in trials if trial.state == optuna.trial.TrialState.COMPLETE]
    storage.remove_session()
    storage.engine.dispose()
    assert len(done) == len(set(done)) == count


class OfAFile(hs.PairwiseObjective):
    """Squared gap to the mean negative."""

    negatives = "cross"

    def per_anchor(self, positive, negatives, mask):
        return (1 - positive) ** 2 + masked_mean(negatives, mask) ** 2


NOTEBOOK = """
import hypersphere as hs
from hypersphere.engine import masked_mean

class OfANotebook(hs.PairwiseObjective):
    negatives = "cross"
    margin: float = 0.5

    def per_anchor(self, positive, negatives, mask):
        return (self.margin - positive + masked_mean(negatives, mask)).relu()
"""


def test_classes_of_ones_own_take_part_with_a_file_and_without(tmp_path, forgetful):
    notebook = {"__name__": "__main__"}
    exec(NOTEBOOK, notebook)
    own = [OfAFile, notebook["OfANotebook"], {"name": "ntxent", "temperature": 0.2}]
    comparison = study(tmp_path / "study", objectives=own, trials=1, seeds=1)
    names = {row.name for row in comparison.rows if row.summary is not None}
    assert names == {
        "OfAFile",
        "OfANotebook",
        "ntxent temperature=0.2",
        UNTRAINED,
    }
