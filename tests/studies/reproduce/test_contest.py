"""Contests: every one is complete, is read by an item, and keeps what is done."""

import json
from pathlib import Path

import pytest

from hypersphere.studies.compare.cells import Plan
from hypersphere.studies.reproduce import contest as holding
from hypersphere.studies.reproduce.catalogue import ITEMS
from hypersphere.studies.reproduce.contest import contests, hold, record_path
from tests.studies.reproduce.fabricated import held, result

RESULTS = Path(__file__).parents[3] / "results"


def test_every_contest_is_read_by_an_item_and_every_item_has_its_contests():
    assert {each for item in ITEMS.values() for each in item.contests} == set(contests())


@pytest.mark.parametrize("name", list(contests()))
def test_a_contest_is_a_study_in_both_scales(name):
    contest = contests()[name]
    small, full, tiny = (Plan(contest.at(scale, Path("nowhere"))) for scale in ("small", "full", "tiny"))
    assert small.study.labels == full.study.labels
    assert small.study.seeds >= (3 if small.untrained[0].recipe.task == "text" else 5)
    assert tiny.count() <= 40 and contest.smaller and contest.minutes > 0 and contest.gpu_hours > 0


def test_all_of_it_takes_a_day_at_most_and_no_run_half_an_hour():
    small = {name: contest.minutes for name, contest in contests().items()}
    assert sum(small.values()) <= 24 * 60
    for path in sorted((RESULTS / "studies").glob("*.json")):
        assert max(run["result"].get("seconds", 0) for run in json.loads(path.read_text())["runs"]) <= 30 * 60
    for name, minutes in small.items():  # two runs side by side
        assert 2 * minutes / Plan(contests()[name].at("small", Path("nowhere"))).count() <= 30


def test_a_contest_whose_data_is_not_here_says_where_to_get_it(tmp_path, monkeypatch):
    monkeypatch.delenv("HYPERSPHERE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"needs cifar10 \(CIFAR-10, binary version .*HYPERSPHERE_DATA"):
        hold("cloa-rates", "small", out=tmp_path, work=tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_contest_keeps_what_is_done(tmp_path, monkeypatch):
    """The record of a first round is where the second goes on."""

    def stopped(study, **rest):
        raise KeyboardInterrupt

    some = held("cloa-lines", lambda cell: result(30.0, knn=30.0), "tiny").comparison
    monkeypatch.setattr("hypersphere.studies.compare.run.compare", stopped)
    monkeypatch.setattr(holding, "resumed", lambda study, work: some)
    with pytest.raises(KeyboardInterrupt):
        hold("cloa-lines", "tiny", out=tmp_path, work=tmp_path / "work")
    known = json.loads(record_path(tmp_path, "cloa-lines", "tiny").read_text())
    assert len(known["runs"]) == some.plan.count() and known["about"]["torch"]


def test_a_contest_that_goes_on_keeps_what_is_done_from_time_to_time(tmp_path, monkeypatch):
    """A machine that loses its power loses the last minutes only."""
    some = held("cloa-lines", lambda cell: result(30.0, knn=30.0), "tiny").comparison

    def lost(study, echo, **rest):
        monkeypatch.setattr(holding.time, "monotonic", lambda: begun + holding.KEEP_EVERY + 1)
        echo("a run has ended")
        raise MemoryError

    begun = holding.time.monotonic()
    monkeypatch.setattr("hypersphere.studies.compare.run.compare", lost)
    monkeypatch.setattr(holding, "resumed", lambda study, work: some)
    with pytest.raises(MemoryError):
        hold("cloa-lines", "tiny", out=tmp_path, work=tmp_path / "work", echo=lambda words: None)
    known = json.loads(record_path(tmp_path, "cloa-lines", "tiny").read_text())
    assert len(known["runs"]) == some.plan.count() and known["about"]["minutes"] == pytest.approx(10, abs=0.1)
