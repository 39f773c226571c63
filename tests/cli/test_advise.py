"""``hypersphere advise``, and ``dissect`` on a model or a run, as a user meets them."""

import json

import numpy as np
import pytest

from tests.cli.command import refused, run


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


def test_advice_and_anatomy_of_a_model_on_a_text(model, text, monkeypatch, tmp_path):
    tree = json.loads(run("advise", model, "--text", text, "--json").stdout)
    name = f"{model.parent.name}/model on lines.txt, all 70 lines, each twice with dropout: 70 pairs in 16 dimensions"
    assert tree["embeddings"] == name
    assert tree["advice"] and "look untrained" in tree["caveat"]
    monkeypatch.setattr("hypersphere.cli.dissect.draw", lambda *_: [])
    words = ("dissect", "infonce", "--embeddings", model, "--out", tmp_path, "--json")
    dissected = json.loads(run(*words, "--text", text).stdout)
    assert dissected["batch"] == tree["embeddings"]
    refused(run(*words), "name the text to embed with --text FILE")


def test_the_evidence_stands_beside_the_advice(views):
    """What InfoNCE makes of the measured cosines at a temperature is what a dissection finds."""
    import torch

    import hypersphere as hs
    from hypersphere.diagnostics import cosines

    tree = json.loads(run("advise", views, "--json").stdout)
    z1, z2 = (torch.from_numpy(np.load(views)[name]).double() for name in ("z1", "z2"))
    positive, mean, std = cosines(z1, z2)
    evidence = tree["evidence"]
    assert evidence["negative cosine"] == pytest.approx({"mean": mean, "std": std})
    assert evidence["positive cosine"]["mean"] == pytest.approx(float(positive.mean()))
    advised = tree["advice"][[each["objective"] for each in tree["advice"]].index("infonce")]["value"]
    rows = {row["temperature"]: row for row in evidence["temperatures"]}
    assert float(f"{advised:.2g}") in rows and {0.01, 0.05, 0.5} <= set(rows)
    found = hs.dissect(hs.create_objective("infonce", temperature=0.05), z1, z2)
    assert rows[0.05]["gradient"] == pytest.approx(float(found.dissipation.mean()), rel=1e-6)
    assert rows[0.05]["hardest"] == pytest.approx(float(found.hardest_share.mean()), rel=1e-6)
    assert rows[0.05]["effective"] == pytest.approx(float(found.effective_negatives.mean()), rel=1e-6)
    low = found.lemma1_interval(0.1, "hardest")[0]
    assert tree["ratio"] == pytest.approx(float(torch.quantile(low[low.isfinite()], 0.9)), rel=1e-6)
    answer = run("advise", views).stdout
    assert tree["headline"] in answer and f"take a temperature of {advised:.2g}" in tree["headline"]
    line = next(line for line in answer.splitlines() if line.endswith("default"))
    assert line.split()[:2] == ["0.05", f"{rows[0.05]['hardest']:.0%}"]


def test_untrained_embeddings_are_told_to_begin_with_the_default(tmp_path):
    z1 = np.random.default_rng(0).normal(size=(60, 8)) + 4
    np.savez(tmp_path / "cone.npz", z1=z1, z2=z1 + 0.01)
    tree = json.loads(run("advise", tmp_path / "cone.npz", "--json").stdout)
    assert tree["headline"].startswith("Begin with infonce's default temperature of 0.05;")
    answer = run("advise", tmp_path / "cone.npz").stdout
    assert "measured" in answer and "advised" not in answer


def test_advice_on_few_pairs_is_refused(tiny, corpus, tmp_path):
    (tmp_path / "few.txt").write_text("the sky\n" * 7)
    refused(run("advise", tiny, "--text", tmp_path / "few.txt"), "few.txt has 7 pairs, and advice needs at least 16")
    refused(run("advise", "views.npz", "--samples", 40), "--samples is for a model on a text")


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
