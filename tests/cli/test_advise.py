"""``hypersphere advise``, and ``dissect`` on a model or a run, as a user meets them."""

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from hypersphere.cli.app import app
from tests.cli.test_diagnose import model, text  # noqa: F401
from tests.evaluation.tiny_model import WORDS


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
    name = f"{model.parent.name}/model on lines.txt, all 70 lines, each twice with dropout: 70 pairs in 16 dimensions"
    assert tree["embeddings"] == name
    assert tree["advice"] and "look untrained" in tree["caveat"]
    monkeypatch.setattr("hypersphere.cli.dissect.draw", lambda *_: [])
    words = ("dissect", "infonce", "--embeddings", model, "--out", tmp_path, "--json")
    dissected = json.loads(run(*words, "--text", text).stdout)
    assert dissected["batch"] == tree["embeddings"]
    refused(run(*words), "say which text to embed, with --text FILE")


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


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    from tests.evaluation.tiny_model import write_tiny_model

    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def corpus(tmp_path):
    """200 sentences, and 200 pairs of a sentence and a shorter one."""
    draw = np.random.default_rng(0)
    sentences = [" ".join(draw.choice(WORDS, size=8)) for _ in range(200)]
    (tmp_path / "lines.txt").write_text("\n".join(sentences), encoding="utf-8")
    pairs = [f"{sentence}\t{sentence.rpartition(' ')[0]}" for sentence in sentences]
    (tmp_path / "pairs.txt").write_text("\n".join(pairs), encoding="utf-8")
    return tmp_path


def test_a_sample_of_lines_is_embedded_and_counted(tiny, corpus):
    tree = json.loads(run("advise", tiny, "--text", corpus / "lines.txt", "--samples", 40, "--json").stdout)
    assert tree["embeddings"] == (
        "saved on lines.txt, 40 of 200 lines, drawn at random (seed 0), each twice with dropout: 40 pairs in 16 "
        "dimensions"
    )
    assert tree["batch"] == 40
    words = ("diagnose", tiny, "--text", corpus / "lines.txt", "--samples", 40)
    tree = json.loads(run(*words, "--json").stdout)
    assert tree["rows"] == 40 and len(tree["views"]) == 1
    assert tree["read"] == "40 of 200 lines, drawn at random (seed 0); rows are counted among them."
    assert tree["read"] in run(*words).stdout
    (corpus / "classes.txt").write_text("\n".join(f"c{line % 2}" for line in range(200)))
    labelled = json.loads(run(*words, "--labels", corpus / "classes.txt", "--json").stdout)
    assert labelled["classes"]["classes"] == 2
    few = json.loads(run("diagnose", tiny, "--text", corpus / "lines.txt", "--json").stdout)
    assert few["rows"] == 200 and "read" not in few


def test_two_texts_in_every_line_are_two_views(tiny, corpus):
    """As the model's encode gives them, in eval mode; dropout takes the whole line."""
    from sentence_transformers import SentenceTransformer

    lines = [line.split("\t") for line in (corpus / "pairs.txt").read_text().splitlines()]
    encoder = SentenceTransformer(str(tiny), device="cpu")
    one, other = (
        encoder.encode([line[view] for line in lines], convert_to_tensor=True, show_progress_bar=False)
        for view in range(2)
    )
    from hypersphere.diagnostics import alignment

    tree = json.loads(run("diagnose", tiny, "--text", corpus / "pairs.txt", "--json").stdout)
    assert tree["pairs"]["alignment"] == pytest.approx(alignment(one, other), rel=1e-4)
    tree = json.loads(run("advise", tiny, "--text", corpus / "pairs.txt", "--json").stdout)
    assert "all 200 lines, two texts each: 200 pairs" in tree["embeddings"]
    assert tree["evidence"]["positive cosine"]["mean"] > tree["evidence"]["negative cosine"]["mean"]
    words = ("advise", tiny, "--text", corpus / "pairs.txt", "--views", "dropout", "--json")
    assert "each twice with dropout" in json.loads(run(*words).stdout)["embeddings"]


def test_a_model_without_dropout_needs_pairs(tiny, corpus):
    still = corpus / "still"
    shutil.copytree(tiny, still)
    settings = json.loads((still / "config.json").read_text())
    settings |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (still / "config.json").write_text(json.dumps(settings))
    refused(run("advise", still, "--text", corpus / "lines.txt"), "has no dropout")
    assert run("advise", still, "--text", corpus / "pairs.txt").exit_code == 0


@pytest.mark.parametrize("command", ["advise", "diagnose"])
def test_a_bad_text_or_model_gets_one_sentence(tiny, corpus, command):
    def on(name, content=None, folder=tiny):
        if content is not None:
            (corpus / name).write_bytes(content)
        return run(command, folder, "--text", corpus / name)

    refused(on("nothing.txt"), "There is no text file")
    refused(on("empty.txt", b""), "empty.txt holds 0 instances with text; at least 2 are needed")
    refused(on("blank.txt", b"\n \n"), "blank.txt holds 0 instances with text")
    refused(on("binary.txt", b"\x93NUMPY\x01\x00\xff\xfe" * 50), "is not UTF-8 text")
    refused(on("zeros.txt", b"the sky\n" + b"\0" * 500 + b"\nthe sea\n"), "is not a text")
    (corpus / "folder.txt").mkdir()
    refused(on("folder.txt"), "There is no text file")
    bare = corpus / "bare"
    shutil.copytree(tiny, bare, ignore=shutil.ignore_patterns("vocab*", "tokenizer*"))
    refused(on("lines.txt", folder=bare), "tokenizer")
    refused(run(command, tiny, "--text", corpus / "lines.txt", "--samples", 1), "--samples is at least")
    refused(run(command, tiny, "--text", corpus / "lines.txt", "--views", "three"), "--views is")
    refused(run(command, tiny, "--text", corpus / "lines.txt", "--views", "pairs"), "1 texts separated by tabs, not 2")


def test_advice_on_few_pairs_is_refused(tiny, corpus, tmp_path):
    (tmp_path / "few.txt").write_text("the sky\n" * 7)
    refused(run("advise", tiny, "--text", tmp_path / "few.txt"), "few.txt has 7 pairs, and advice needs at least 16")
    refused(run("advise", "views.npz", "--samples", 40), "--samples is for a model on a text")


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
