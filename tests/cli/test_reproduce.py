"""``hypersphere reproduce`` as a user meets it."""

import json
import os
import signal
import time

import pytest
from typer.testing import CliRunner

from hypersphere.cli.app import app
from hypersphere.cli.reproduce import minutes_of
from hypersphere.studies.reproduce import list_items
from hypersphere.studies.reproduce.catalogue import ITEMS, PAPERS, paper_of
from hypersphere.studies.reproduce.contest import contests


def run(*words):
    return CliRunner().invoke(app, ["reproduce", *(str(word) for word in words)])


def test_the_list_has_title_paper_place_and_minutes():
    lines = run("--list").stdout.splitlines()
    assert lines[0].split() == ["name", "title", "paper", "place", "minutes"]
    assert len(lines) == 1 + len(ITEMS)
    for line, name in zip(lines[1:], list_items(), strict=True):
        assert line.startswith(name) and line.endswith(f"{minutes_of(name):g}")
        assert ITEMS[name].title in line and PAPERS[paper_of(name)].short in line and ITEMS[name].place in line


def test_the_list_in_json():
    rows = json.loads(run("--list", "--json").stdout)
    assert [each["name"] for each in rows] == list_items()
    assert all(each["minutes"] > 0 for each in rows)


def test_an_item_that_trains_takes_the_minutes_of_its_contests():
    by_name = {each["name"]: each for each in json.loads(run("--list", "--json").stdout)}
    assert by_name["cloa2024/table3"]["minutes"] == contests()["cloa-rates"].minutes + ITEMS["cloa2024/table3"].minutes
    assert by_name["cloa2024/table3"]["contests"] == ["cloa-rates"] and by_name["cloa2024/table1"]["contests"] == []


@pytest.mark.parametrize("words", [("li2024",), ("--list", "li2024")])
def test_a_paper_alone_lists_its_items(words):
    names = [line.split()[0] for line in run(*words).stdout.splitlines()[1:]]
    assert names == list_items("li2024")
    assert set(names) < set(list_items())


def test_an_item_is_computed_and_judged(tmp_path):
    answer = run("nie2023/appendix-d", "--quick", "--out", tmp_path)
    assert answer.exit_code == 0, answer.output
    assert "**Verdict:** agrees." in answer.output
    assert "Nie et al. 2023, Appendix D." in answer.output
    assert (tmp_path / "nie2023" / "appendix-d-quick" / "appendix-d.png").exists()


def test_an_item_in_json(tmp_path):
    tree = json.loads(run("cloa2024/table1", "--json", "--out", tmp_path).stdout)
    assert (tree["name"], tree["verdict"], tree["place"]) == ("cloa2024/table1", "undecided", "Table 1")
    assert list(tree["clauses"].values()) == [None]
    assert str(tmp_path / "cloa2024" / "table1" / "taxonomy.png") in tree["files"]


@pytest.mark.parametrize(
    "words, sentence",
    [
        ((), "--list shows what there is, --all takes everything."),
        (("li2024/fig99",), "only table1, table2, fig2, fig3, fig4, fig10, fig11, lemma1, components, fig1"),
        (("li2024/fig22",), "did you mean 'li2024/fig2'?"),
        (("--list", "nie2023/table9"), "nie2023 has no item 'table9'"),
        (("fig2",), "'fig2' lacks its paper: there is nie2023/fig2, li2024/fig2 and cloa2024/fig2."),
        (("li2023/fig3",), "There is no paper 'li2023', but there is li2024/fig3, nie2023/fig3 and cloa2024/fig3."),
        (
            ("koromilas/kcl",),
            "only nie2023, li2024, koromilas2024, cloa2024 and hypersphere; did you mean 'koromilas2024'?",
        ),
    ],
)
def test_an_unknown_name_gets_one_sentence_on_the_same_paper(words, sentence):
    answer = run(*words)
    assert answer.exit_code == 2
    assert sentence in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1


def test_a_contest_that_is_terminated_is_interrupted(tmp_path, monkeypatch):
    """SIGTERM ends a contest as Ctrl-C does: the runs save, and the record is written."""

    def terminated(*args, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)

    monkeypatch.setattr("hypersphere.cli.reproduce.write_item", terminated)
    ended = run("cloa2024/fig2", "--out", tmp_path)
    assert ended.exit_code == 130 and "Interrupted; the same command continues." in ended.stderr


def test_a_folder_that_holds_something_else_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERSPHERE_DATA", str(tmp_path))
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "studies" / "cloa-rates").mkdir(parents=True)
    (tmp_path / "studies" / "cloa-rates" / "mine.txt").write_text("notes")
    words = ("--out", tmp_path / "out", "--studies", tmp_path / "studies", "--scale", "small")
    ended = run("cloa2024/fig2", *words)
    assert ended.exit_code == 2 and "is not empty and holds no study" in ended.stderr
    assert (tmp_path / "studies" / "cloa-rates" / "mine.txt").read_text() == "notes"
