"""Contests and the items that read them: every one is complete, and runs from end to end at its tiny scale."""

import csv
import functools
import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from hypersphere.studies.compare import process
from hypersphere.studies.compare.cells import Plan
from hypersphere.studies.reproduce import contest as holding
from hypersphere.studies.reproduce import items
from hypersphere.studies.reproduce.catalogue import ITEMS
from hypersphere.studies.reproduce.contest import contests, hold, record_path, recorded
from hypersphere.studies.reproduce.index import NOT_RUN, index
from hypersphere.studies.reproduce.items import as_csv, find, reproduce, write
from tests.studies.fabricated import held, result
from tests.training import worlds

RESULTS = Path(__file__).parents[2] / "results"
TRAINED = [name for name, item in ITEMS.items() if item.contests]


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


@pytest.mark.parametrize("name", TRAINED)
def test_an_item_can_be_written_from_runs_without_scores(name, tmp_path, monkeypatch):
    """From contests that gave little: nothing is claimed. Figures are drawn once, not a second time as PDF."""
    drawn = items._drawn
    monkeypatch.setattr(
        items, "_drawn", lambda figure, kind, title: drawn(figure, kind, title) if kind == "png" else b""
    )
    little = {each: held(each, lambda cell: result(30.0, "knn"), "tiny") for each in ITEMS[name].contests}
    finding, folder = write(name, find(name)(little), tmp_path, quick=True, held=little)
    assert finding.verdict == "undecided" and finding.published and finding.here
    assert (folder / "finding.md").read_text().startswith(f"# {ITEMS[name].title}")


@pytest.fixture
def tiny_data(tmp_path, monkeypatch):
    """What contests on text look for, a few words large."""
    home = tmp_path / "data"
    home.mkdir()
    worlds.corpus(home).rename(home / "wiki.txt")
    worlds.encoder(home).rename(home / "distilbert")
    worlds.scored(home)
    monkeypatch.setenv("HYPERSPHERE_DATA", str(home))


@pytest.fixture
def without_processes(monkeypatch):
    """Runs are trained in this process, one after the other: that each has its own is shown in compare/."""

    def start(trial, cell, recipe, folder, threads, objective=None):
        folder.parent.mkdir(parents=True, exist_ok=True)
        process._train(recipe.model_dump_json(), folder.absolute(), torch.get_num_threads(), None)
        return process.Running(trial, cell, folder, SimpleNamespace(is_alive=lambda: False, exitcode=0))

    monkeypatch.setattr(process, "start", start)
    monkeypatch.setattr(process, "wait_for_end", lambda running, seconds: None)
    monkeypatch.setattr("hypersphere.studies.compare.worker.TICK", 0.0)


@pytest.mark.parametrize("name", ["koromilas2024/batch-size", "nie2023/fig3"])
@pytest.mark.timeout(400)
def test_an_item_is_trained_judged_and_written(name, tmp_path, without_processes, monkeypatch, request):
    said = []
    if name == "nie2023/fig3":  # on text; its second contest is not held here
        request.getfixturevalue("tiny_data")
        monkeypatch.setattr(
            "hypersphere.studies.reproduce.items.hold",
            lambda each, scale, **rest: hold(each, scale, **rest) if each == "nie-margins" else
            held(each, lambda cell: result(30.0, "stsb_dev"), scale),
        )  # fmt: skip
    finding, folder = reproduce(name, tmp_path / "out", quick=True, work=tmp_path / "studies", echo=said.append)
    tree = json.loads((folder / "results.json").read_text())
    assert tree["verdict"] == finding.verdict == "undecided"  # one seed decides nothing
    assert all((folder / f"{figure}.png").read_bytes().startswith(b"\x89PNG") for figure in finding.figures)
    first = ITEMS[name].contests[0]
    record = record_path(tmp_path / "out", first, "tiny")
    kept = recorded(first, "tiny", tmp_path / "out")
    assert kept is not None and kept.comparison.complete and not kept.comparison.failures
    monkeypatch.setattr("hypersphere.studies.compare.run.compare", lambda *args, **rest: pytest.fail("trained again"))
    assert hold(first, "tiny", out=tmp_path / "out", work=tmp_path / "elsewhere").about == kept.about
    assert str(tmp_path) not in record.read_text()


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


def test_the_list_has_every_item_and_is_what_the_results_say():
    page = index(RESULTS)
    assert (RESULTS / "README.md").read_text(encoding="utf-8") == page
    for name in ITEMS:
        assert f"[{name}]({name}/finding.md)" in page or re.search(rf"\| {name} +\|", page)
    assert page.count(NOT_RUN) == sum(not (RESULTS / name / "results.json").is_file() for name in ITEMS)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/*/results.json")), ids=lambda path: path.parent.name)
def test_a_table_is_what_its_results_say(path):
    tree = json.loads(path.read_text())
    assert tree["name"] == f"{path.parent.parent.name}/{path.parent.name}" in ITEMS
    page = (path.parent / "finding.md").read_text(encoding="utf-8")
    assert f"**Verdict:** {tree['verdict']}." in page and tree["measured"] in page
    assert tree["verdict"] in ("agrees", "partly", "does not agree", "undecided") and tree["command"] in page
    assert tree["fault"] or tree["verdict"] not in ("partly", "does not agree")
    for about in tree["contests"].values() or [tree["about"]]:
        assert {"commit", "machine", "minutes", "torch"} <= set(about) and about["commit"] in page
        assert " ".join(about.get("smaller", "").split()) in " ".join(page.split())
    pictures = re.findall(r"!\[.*\]\((.*)\.png\)", page)
    assert pictures and all((path.parent / f"{each}.{kind}").is_file() for each in pictures for kind in ("png", "pdf"))
    linked = re.findall(r"Data: \[.*\]\((.*)\.csv\)", page)
    assert "Data: " in page and set(linked) == set(tree["tables"])
    for table, rows in tree["tables"].items():
        text = (path.parent / f"{table}.csv").read_text(encoding="utf-8")
        written = list(csv.DictReader(io.StringIO(text)))
        expected = list(csv.DictReader(io.StringIO(as_csv(rows))))
        assert written == expected


@functools.cache
def in_results(name):
    """A contest as results/ has it; read once for all items that need it."""
    return recorded(name, "small", RESULTS)


def written_from_records(name):
    recorded_all = all(record_path(RESULTS, each, "small").is_file() for each in ITEMS[name].contests)
    return recorded_all and (RESULTS / name / "results.json").is_file()


RECORDED = [name for name in TRAINED if written_from_records(name)]


def test_every_record_is_of_a_contest_and_some_items_are_written_from_them():
    assert {path.stem for path in (RESULTS / "studies").glob("*.json")} <= set(contests()) and RECORDED


@pytest.mark.parametrize("path", sorted((RESULTS / "studies").glob("*.json")), ids=lambda path: path.stem)
def test_a_recorded_run_is_a_run_of_its_contest(path):
    """A contest that changes loses the runs that are no longer its own."""
    held = in_results(path.stem)
    planned = {run.cell for row in held.comparison.rows for run in (*row.tuning, *row.runs)}
    assert {run["cell"] for run in json.loads(path.read_text())["runs"]} <= planned


@pytest.mark.parametrize("name", RECORDED)
def test_the_verdicts_come_from_the_recorded_runs(name):
    """Every item whose contests are all recorded gives again the verdict that stands in results/."""
    finding = find(name)({each: in_results(each) for each in ITEMS[name].contests})
    tree = json.loads((RESULTS / name / "results.json").read_text())
    for each in ("verdict", "here", "measured"):
        assert getattr(finding, each) == tree[each]
