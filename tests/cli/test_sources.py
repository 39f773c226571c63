"""Where embeddings come from: a file, a run, a model on a text, as ``diagnose`` and ``advise`` read them."""

from __future__ import annotations

import gzip
import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hypersphere.messages import LONGEST
from tests.cli.command import refused, run
from tests.damaged import WRONG, wrong

diagnose = partial(run, "diagnose")


def test_rows_of_a_file_are_named_by_a_text(tmp_path):
    z = np.random.default_rng(0).normal(size=(50, 8))
    z[7] = z[3]
    np.save(tmp_path / "z.npy", z)
    (tmp_path / "lines.txt").write_text(
        "\n\n".join("the same" if row in (3, 7) else f"line {row}" for row in range(50))
    )
    told = diagnose(tmp_path / "z.npy", "--text", tmp_path / "lines.txt").stdout
    assert "Rows to look at, counted from 0:" in told
    assert "copies: rows 3, 7: 2 equal rows “the same”" in told
    assert "copies: rows 3, 7: 2 equal rows\n" in diagnose(tmp_path / "z.npy").stdout
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    refused(
        diagnose(tmp_path / "z.npy", "--text", tmp_path / "lines.txt"), "2 lines that are not empty, but there are 50"
    )


@pytest.mark.parametrize(
    "head, told",
    [
        ({"kind": "none"}, "the run has no head"),
        ({"kind": "mlp", "keep": False}, "before the head (mlp)"),
        ({"kind": "linear-tanh", "keep": True}, "after the head (linear-tanh)"),
    ],
)
def test_a_run_is_told_whether_encoder_or_head_is_meant(head, told, tmp_path):
    import torch
    import yaml
    from safetensors.torch import save_file

    save_file({"z1": torch.eye(9)}, tmp_path / "embeddings.safetensors")
    for place in (tmp_path, tmp_path / "embeddings.safetensors"):
        assert "head" not in diagnose(place).stdout  # a run of which the recipe is lost
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump({"head": head}))
    for place in (tmp_path, tmp_path / "embeddings.safetensors"):
        assert told in diagnose(place).stdout and told in json.loads(diagnose(place, "--json").stdout)["read"]


def test_a_collapse_of_the_head_is_told_beside_a_healthy_encoder(tmp_path):
    import torch
    from safetensors.torch import save_file

    save_file({"z1": torch.eye(9)}, tmp_path / "embeddings.safetensors")
    (tmp_path / "recipe.yaml").write_text("head: {kind: mlp}\n")
    assert "out of the head, which may collapse alone." in diagnose(tmp_path).stdout
    fine = {"split": "training", "effective_rank": 20.0, "rows": 64, "dimension": 32}
    point = {**fine, "positive_absolute": 1.0, "negative_absolute": 1.0, "effective_rank": 1.0}
    for last, told in ((fine, "found nothing wrong there."), (point, "found there: over-fusion.")):
        records = [{**fine, "step": 10}, *({**last, "step": step} for step in (20, 30))]
        (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))
        assert told in diagnose(tmp_path).stdout


def test_a_model_on_a_text(model, text):
    from sentence_transformers import SentenceTransformer

    from hypersphere.diagnostics import uniformity

    tree = json.loads(diagnose(model, "--text", text, "--json").stdout)
    assert tree["rows"] == 70 and tree["dims"] == 16 and tree["source"] == "model on lines.txt"
    lines = [line for line in text.read_text(encoding="utf-8").splitlines() if line]
    encoded = SentenceTransformer(str(model), device="cpu").encode(
        lines, convert_to_tensor=True, show_progress_bar=False
    )
    assert tree["uniformity"] == pytest.approx(uniformity(encoded), 1e-5)  # row order does not change this number


@pytest.fixture
def prompted(model, tmp_path):
    """The same encoder that puts words before every line and keeps half of the dimensions."""
    folder = tmp_path / "prompted"
    shutil.copytree(model, folder)
    path = folder / "config_sentence_transformers.json"
    settings = {"prompts": {"q": "w1 w2 w3 "}, "default_prompt_name": "q", "truncate_dim": 8}
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    return folder


def test_a_model_on_a_text_gives_what_its_encode_gives(prompted, text):
    from sentence_transformers import SentenceTransformer

    from hypersphere.diagnostics import uniformity

    encoder = SentenceTransformer(str(prompted), device="cpu")
    assert encoder.truncate_dim == 8
    answer = diagnose(prompted, "--text", text, "--json")
    assert answer.exit_code == 0, answer.output
    tree = json.loads(answer.stdout)
    lines = [line for line in text.read_text(encoding="utf-8").splitlines() if line]
    encoded = encoder.encode(lines, convert_to_tensor=True, show_progress_bar=False)
    assert tree["dims"] == encoded.shape[1] == 8
    assert tree["uniformity"] == pytest.approx(uniformity(encoded), 1e-5)
    assert tree["read"] == (
        "Every line stood after the model's prompt 'w1 w2 w3 '. The model keeps its first 8 dimensions."
    )


def test_views_by_dropout_have_the_prompt_and_the_dimensions_too(prompted, text):
    """Without dropout both views are what ``encode`` gives."""
    path = prompted / "config.json"
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    path.write_text(json.dumps(json.loads(path.read_text()) | still))
    tree = json.loads(diagnose(prompted, "--text", text, "--views", "dropout", "--json").stdout)
    alone = json.loads(diagnose(prompted, "--text", text, "--json").stdout)
    assert tree["dims"] == 8 and tree["pairs"]["alignment"] < 1e-9
    assert tree["uniformity"] == pytest.approx(alone["uniformity"], 1e-5)


def test_a_text_is_read_as_its_editor_wrote_it(model, tmp_path):
    """A byte order mark is no word, and U+2028 or a form feed ends no line."""
    plain, marked = tmp_path / "plain.txt", tmp_path / "marked.txt"
    lines = [f"w{number} w{number + 1} w{2 * number % 7}" for number in range(30)]
    plain.write_text("\n".join(lines), encoding="utf-8")
    marked.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(line.replace(" ", "\u2028") for line in lines).encode())
    tree, other = (json.loads(diagnose(model, "--text", path, "--json").stdout) for path in (plain, marked))
    assert other["rows"] == 30 and other["uniformity"] == pytest.approx(tree["uniformity"], 1e-6)


def test_two_views_by_dropout_are_positives_of_each_other(model, text):
    words = (model, "--text", text, "--views", "dropout", "--json")
    tree = json.loads(diagnose(*words).stdout)
    assert tree["pairs"]["alignment"] > 1e-4
    assert tree["pairs"]["positive_cosine"] > tree["pairs"]["negative_cosine"]
    assert json.loads(diagnose(*words).stdout)["pairs"] == tree["pairs"]  # a seed is a seed
    assert json.loads(diagnose(*words, "--seed", 1).stdout)["pairs"] != tree["pairs"]


def test_a_run_on_text_is_its_model(model, text, tmp_path):
    """RUN/model is found; without a text it is said that one is needed."""
    folder = tmp_path / "run"
    shutil.copytree(model, folder / "model")
    (folder / "recipe.yaml").write_text("task: text\nhead: {kind: mlp, keep: false}\n")
    tree, alone = (json.loads(diagnose(place, "--text", text, "--json").stdout) for place in (folder, model))
    assert tree["uniformity"] == alone["uniformity"]
    assert "before the head (mlp)" in tree["read"] and "read" not in alone
    refused(diagnose(folder), "--text FILE")


def test_pickled_weights_are_refused(model, text, tmp_path):
    import torch
    from safetensors.torch import load_file

    folder = shutil.copytree(model, tmp_path / "pickled")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    refused(diagnose(folder, "--text", text), "a pickle, which is never read")


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


def test_a_model_with_a_damaged_file_is_refused(tmp_path: Path) -> None:
    from hypersphere.encoders.checkpoint import open_sentence_model
    from tests.evaluation.tiny_model import write_tiny_model

    folder = write_tiny_model(tmp_path)
    for path in [path for path in sorted(folder.rglob("*.json")) if path.name != "tokenizer.json"]:
        whole = path.read_bytes()
        for content in [each for each in WRONG if each not in ("{}", "[]" if path.name == "modules.json" else "{}")]:
            wrong(path, content)
            with pytest.raises(ValueError, match=rf"{path.name} is damaged"):
                open_sentence_model(folder)
        path.write_bytes(whole)
    config = json.loads((folder / "config.json").read_text())
    for key, value in [("hidden_size", "x"), ("num_attention_heads", [1]), ("vocab_size", 10**12)]:
        (folder / "config.json").write_text(json.dumps({**config, key: value}))
        with pytest.raises(ValueError, match="could not be loaded"):
            open_sentence_model(folder)


def test_a_module_outside_its_model_is_refused(tmp_path: Path) -> None:
    from hypersphere.encoders.checkpoint import module_folders

    (tmp_path / "modules.json").write_text('[{"path": "../elsewhere"}]')
    with pytest.raises(ValueError, match=r"modules.json is damaged"):
        module_folders(tmp_path)


def test_a_text_without_line_ends_is_refused(here: Path) -> None:
    from hypersphere.data.text import read_corpus

    for name in ("one.txt.gz", "one.csv.gz", "one.jsonl.gz"):
        (here / name).write_bytes(gzip.compress(b"a" * 2_000_000))
        with pytest.raises(ValueError, match=r"line 1 of .* is longer than 1,000,000 characters"):
            read_corpus(name)


@pytest.mark.parametrize("line", ["[" * 100_000, "{", "5", "[]", '{"a": {"b": 1}}', '{"a": "x", "a": "y"}'])
def test_a_line_that_is_no_object_is_refused(line: str, here: Path) -> None:
    from hypersphere.data.text import read_corpus

    (here / "x.jsonl").write_text(f'{{"a": "fine"}}\n{line}\n')
    with pytest.raises(ValueError, match=r"^line 2 of x.jsonl") as caught:
        read_corpus("x.jsonl")
    assert len(str(caught.value)) < LONGEST
