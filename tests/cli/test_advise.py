"""``hypersphere advise``, and ``dissect`` on a model or a run, as a user meets them."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from hypersphere.cli.app import app
from tests.cli.test_diagnose import model, text  # noqa: F401


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def refused(answer, sentence):
    assert answer.exit_code == 2
    assert sentence in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1


@pytest.fixture
def views(tmp_path):
    random = np.random.default_rng(0)
    z1 = random.normal(size=(60, 8)).astype(np.float32)
    path = tmp_path / "views.npz"
    np.savez(path, z1=z1, z2=z1 + 0.3 * random.normal(size=z1.shape).astype(np.float32))
    return path


def test_every_objective_is_in_the_table_or_has_its_reason(views):
    answer = run("advise", views)
    assert answer.exit_code == 0, answer.output
    tree = json.loads(run("advise", views, "--json").stdout)
    names = {each["objective"] for each in tree["advice"]}
    assert {"infonce", "ntxent", "met", "mmhe"} <= names and {"dcl", "siglip", "cloa"} <= set(tree["without"])
    for each in tree["advice"]:
        assert f"{each['objective']} {each['parameter']}" in answer.stdout
    assert "No advice for dcl, dclw, dhel: the gradient never dissipates" in answer.stdout
    assert "say little about the temperature" in answer.stdout and tree["caveat"] in answer.stdout


def test_a_batch_size_and_a_quantile_reach_the_advice(views):
    one = ("advise", views, "--objective", "infonce", "--json")
    advice = [json.loads(run(*one, *more).stdout)["advice"][0] for more in ((), ("--batch", 10), ("--quantile", 0.9))]
    assert [each["negatives"] for each in advice] == [59, 9, 59]
    assert advice[0]["value"] < advice[1]["value"] and advice[0]["value"] < advice[2]["value"]


def test_advice_and_anatomy_of_a_model_on_a_text(model, text, monkeypatch, tmp_path):  # noqa: F811
    tree = json.loads(run("advise", model, "--text", text, "--json").stdout)
    name = f"{model.parent.name}/model on lines.txt, twice with dropout: 70 pairs in 16 dimensions"
    assert tree["embeddings"] == name
    assert tree["advice"] and "look untrained" in tree["caveat"]
    monkeypatch.setattr("hypersphere.cli.dissect.draw", lambda *_: [])
    words = ("dissect", "infonce", "--embeddings", model, "--out", tmp_path, "--json")
    dissected = json.loads(run(*words, "--text", text).stdout)
    assert dissected["batch"] == tree["embeddings"]
    refused(run(*words), "say which text to embed, with --text FILE")


def test_the_views_of_a_run_are_taken(tmp_path, monkeypatch):
    from safetensors.numpy import save_file

    z1 = np.random.default_rng(0).normal(size=(20, 6))
    (tmp_path / "run").mkdir()
    save_file({"z1": z1, "z2": z1 + 0.1}, tmp_path / "run" / "embeddings.safetensors")
    monkeypatch.setattr("hypersphere.cli.dissect.draw", lambda *_: [])
    answer = run("dissect", "met", "--embeddings", tmp_path / "run", "--json")
    assert json.loads(answer.stdout)["batch"] == "run: 20 pairs in 6 dimensions"
    assert json.loads(run("advise", tmp_path / "run", "--json").stdout)["batch"] == 20
    save_file({"z1": z1}, tmp_path / "run" / "embeddings.safetensors")
    refused(run("advise", tmp_path / "run"), "has one view of shape (20, 6), and positives need two")


def test_an_objective_of_ones_own_gets_a_reason(views, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import hypersphere as hs\n\n\nclass Mine(hs.PairwiseObjective):\n    margin: float = 0.3\n\n"
        "    def per_anchor(self, positive, negatives, mask):\n        return -positive\n"
    )
    answer = run("advise", views, "--objective", f"{tmp_path / 'mine.py'}:Mine")
    assert answer.exit_code == 0, answer.output
    assert "where its gate closes is not known" in answer.stdout and "margin=0.05,0.1,0.2,0.5" in answer.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nowhere.npz",), "no file nowhere.npz"),
        (("views.npz", "--objective", "infnce"), "did you mean 'infonce'"),
        (("views.npz", "--quantile", 2), "between 0 and 1"),
        (("views.npz", "--text", "lines.txt"), "holds embeddings by itself"),
    ],
)
def test_bad_words_get_one_sentence(words, sentence):
    refused(run("advise", *words), sentence)
