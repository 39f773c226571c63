"""``hypersphere evaluate`` as a user meets it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from hypersphere.cli.answers import OneSentence
from hypersphere.cli.evaluate import POOLINGS, evaluate
from tests.damaged import WRONG, wrong
from tests.data.senteval import write_sts
from tests.evaluation.tiny_model import write_tiny_model

app = typer.Typer(cls=OneSentence, rich_markup_mode=None, pretty_exceptions_enable=False)


app.callback()(lambda: None)


app.command()(evaluate)


def run(*words):
    return CliRunner().invoke(app, ["evaluate", *(str(word) for word in words)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sts(tmp_path_factory.mktemp("senteval"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model"))


def test_a_table_and_then_the_same_from_the_cache_as_json(
    folder: Path, model: Path, tmp_path: Path, monkeypatch
) -> None:
    options = ("--sts", folder, "--tasks", "STS12,SICK-R", "--cache", tmp_path)
    answer = run(model, *options)
    assert answer.exit_code == 0, answer.output
    for needed in ("pooling mean", "cosine", "at most 12 tokens", "truncated", "setting 'all'", "mean of 2"):
        assert needed in answer.stdout
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # from the cache, no model is opened
    again = run(model, *options, "--json")
    assert again.exit_code == 0, again.output
    told = json.loads(again.stdout)
    assert f"{told['sts']['STS12']['spearman']['all']:.2f}" in answer.stdout
    assert told["truncated"] > 0


def test_the_prompt_of_a_model_stands_beside_its_numbers(folder: Path, tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "model")
    plain = json.loads(run(model, "--sts", folder, "--tasks", "STS-B", "--no-cache", "--json").stdout)
    path = model / "config_sentence_transformers.json"
    settings = {"prompts": {"q": "what is: "}, "default_prompt_name": "q"}
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    options = ("--sts", folder, "--tasks", "STS-B", "--cache", tmp_path / "cache")
    answer = run(model, *options)
    assert answer.exit_code == 0, answer.output
    assert "pooling mean; prompt 'what is: '; cosine similarity" in answer.stdout
    told = json.loads(run(model, *options, "--json").stdout)  # from the cache
    assert told["about"]["prompt"] == "what is: " and told["truncated"] > plain["truncated"] > 0


def test_sentences_out_and_embeddings_in(folder: Path, tmp_path: Path) -> None:
    listed, vectors = tmp_path / "mine.jsonl", tmp_path / "mine.npz"
    answer = run("--sts", folder, "--tasks", "STS13", "--sentences", listed)
    assert answer.exit_code == 0 and "distinct sentences" in answer.stdout
    number = len(listed.read_text().splitlines())
    np.savez(vectors, embeddings=np.random.default_rng(0).normal(size=(number, 4)))
    answer = run("--embeddings", vectors, "--sts", folder, "--tasks", "STS13", "--no-cache")
    assert answer.exit_code == 0, answer.output
    assert "as supplied" in answer.stdout and "truncation not known" in answer.stdout


def test_mteb_runs_on_the_same_model_or_says_it_is_missing(model: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "mteb", None)
    answer = run(model, "--mteb", "STS22")
    assert answer.exit_code == 2 and "which is not installed" in answer.output and answer.output.count("\n") == 1
    stand_in = ModuleType("mteb")

    def score(opened, tasks):
        value = float(np.linalg.norm(opened.encode(["the dog"])))
        return SimpleNamespace(
            task_results=[SimpleNamespace(task_name=task, get_score=lambda: value) for task in tasks]
        )

    stand_in.get_tasks = lambda tasks: tasks
    stand_in.evaluate = score
    monkeypatch.setitem(sys.modules, "mteb", stand_in)
    answer = run(model, "--mteb", "STS22", "--mteb", "BIOSSES", "--json")
    assert answer.exit_code == 0, answer.output
    from sentence_transformers import SentenceTransformer

    expected = 100 * np.linalg.norm(SentenceTransformer(str(model), device="cpu").encode(["the dog"]))
    assert json.loads(answer.stdout)["mteb"] == pytest.approx({"STS22": expected, "BIOSSES": expected})


@pytest.mark.parametrize(
    "words, sentence",
    [
        ((), "Name a MODEL"),
        (("{model}",), "Name the sets to evaluate on"),
        (("{model}", "--sts", "{tmp}/no"), "There is no folder"),
        (("{model}", "--sts", "{tmp}"), "has no STS12"),
        (("{model}", "--sts", "{folder}", "--tasks", "STS-B,SICKR"), "did you mean 'SICK-R'?"),
        (("{model}", "--sts", "{folder}", "--setting", "means"), "did you mean 'mean'?"),
        (("{tmp}", "--sts", "{folder}"), "neither config.json nor modules.json"),
        (("{model}", "--transfer", "{folder}"), "has no MR"),
        (("{model}", "--sts", "{folder}", "--embeddings", "x.npy"), "not both"),
        (("--embeddings", "{tmp}/x.npy", "--sts", "{folder}"), "There is no file"),
        (("{model}", "--stss", "{folder}"), "No such option"),
        (("{model}", "--probe", "knn"), "No such option"),  # of the other command
        (("--embeddings", "x.npy", "--sts", "{folder}", "--pooling", "cls"), "--pooling cannot go with --embeddings"),
        (("--embeddings", "x.npy", "--sts", "{folder}", "--max-length", "9"), "--max-length cannot go with"),
        (("{model}", "--sts", "{folder}", "--sentences", "{tmp}/x"), "MODEL cannot go with --sentences"),
        (("--sts", "{folder}", "--sentences", "{tmp}/x", "--mteb", "A"), "--mteb cannot go with --sentences"),
        (("{model}", "--sts", "{folder}", "--tasks", " , "), "--tasks names no task"),
        (("{model}", "--sts", "{folder}", "--cache", "{model}/config.json"), "config.json cannot be written"),
        (("{model}", "--sts", "{folder}", "--cache", "{tmp}", "--no-cache"), "--cache cannot go with --no-cache"),
        (("{model}", "--sts", "{folder}", "--fast"), "--fast has no effect without --transfer"),
        (("{model}", "--transfer", "{folder}", "--setting", "mean"), "--setting has no effect without --sts"),
        (("{model}", "--mteb", "A", "--tasks", "MR"), "--tasks has no effect without --sts or --transfer"),
        (("{model}", "--sts", "{folder}", "--max-length", "65"), "at most 64 tokens"),
        (("--sts", "{folder}", "--sentences", "{tmp}/mine.npy"), "ends in .jsonl, not {tmp}/mine.npy"),
        (("--sts", "{folder}", "--sentences", "{model}/config.json/mine.jsonl"), "cannot be written (Not a directory)"),
        (("--sts", "{folder}", "--sentences", "{tmp}"), "{tmp} is a folder"),
        (("{model}", "--sts", "{folder}", "--pooling", "max"), "did you mean 'mean'? there are cls, mean, first-last"),
        (("{model}", "--sts", "{folder}", "--pooling", "first"), "did you mean 'first-last'?"),
        (("{model}", "--mteb", "STS22", "--pooling", "weightedmean"), "There is no pooling 'weightedmean'"),
    ],
)
def test_bad_input_is_answered_in_one_sentence(words, sentence: str, folder: Path, model: Path, tmp_path: Path) -> None:
    answer = run(*(word.format(model=model, folder=folder, tmp=tmp_path) for word in words))
    assert answer.exit_code == 2, answer.output
    assert sentence.format(model=model, folder=folder, tmp=tmp_path) in answer.output
    assert len(answer.output.strip().splitlines()) == 1


@pytest.mark.parametrize("named", ["{run}", "{run}/model"])
@pytest.mark.parametrize("finished", [True, False])
def test_an_image_encoder_is_sent_to_probe(named: str, finished: bool, folder: Path, tmp_path: Path) -> None:
    run_folder = tmp_path / "digits"
    (run_folder / "model").mkdir(parents=True)
    if finished:
        (run_folder / "model" / "encoder.json").write_text("{}")
    else:
        (run_folder / "recipe.yaml").write_text("task: image\n")
    answer = run(named.format(run=run_folder), "--sts", folder)
    assert answer.exit_code == 2
    assert answer.output == f"{named.format(run=run_folder)} is an image encoder: hypersphere probe {run_folder}\n"


@pytest.mark.parametrize("options, kept", [((), "the same command continues"), (("--no-cache",), "nothing was kept")])
def test_an_interruption_gets_one_sentence(options, kept: str, model: Path, folder: Path, monkeypatch) -> None:
    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hypersphere.evaluation.sentences.evaluate_sentences", interrupt)
    answer = run(model, "--sts", folder, *options)
    assert answer.exit_code == 130 and answer.output.count("\n") == 1 and kept in answer.output


def test_an_error_without_words_is_named(model: Path, folder: Path, monkeypatch) -> None:
    def fail(**_: object) -> None:
        raise ValueError

    monkeypatch.setattr("hypersphere.evaluation.sentences.evaluate_sentences", fail)
    answer = run(model, "--sts", folder)
    assert answer.exit_code == 2 and answer.output.strip().splitlines()[-1] == "ValueError."


def test_sentences_never_take_the_place_of_another_file(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "mine.npy", np.eye(3))
    before = (tmp_path / "mine.npy").read_bytes()
    assert run("--sts", folder, "--tasks", "STS-B", "--sentences", tmp_path / "mine.npy").exit_code == 2
    assert (tmp_path / "mine.npy").read_bytes() == before


def test_sentences_of_another_list_are_not_overwritten(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    assert run("--sts", folder, "--tasks", "STS-B", "--sentences", path).exit_code == 0
    before = path.read_bytes()
    assert run("--sts", folder, "--tasks", "STS-B", "--sentences", path).exit_code == 0  # the same once more
    answer = run("--sts", folder, "--tasks", "STS13", "--sentences", path)
    assert answer.exit_code == 2 and "holds other lines" in answer.output and answer.output.count("\n") == 1
    assert path.read_bytes() == before


def test_the_poolings_are_those_of_the_encoders() -> None:
    from hypersphere.encoders import text

    assert POOLINGS == text.POOLINGS


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float16"])
def test_embeddings_of_few_bits_are_scored(kind: str, folder: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    path, options = tmp_path / "mine.safetensors", ("--sts", folder, "--tasks", "STS13")
    assert run(*options, "--sentences", path.with_suffix(".jsonl")).exit_code == 0
    number = len(path.with_suffix(".jsonl").read_text().splitlines())
    rows = torch.randn(number, 4, generator=torch.Generator().manual_seed(0)).to(getattr(torch, kind))
    scores = []
    for kept in (rows, rows.float()):
        save_file({"embeddings": kept}, path)
        answer = run("--embeddings", path, *options, "--no-cache", "--json")
        assert answer.exit_code == 0, answer.output
        scores.append(json.loads(answer.stdout)["sts"])
    assert scores[0] == scores[1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # numpy leaves a cut archive open
@pytest.mark.parametrize("change", ["cut", "altered"])
def test_a_damaged_archive_gets_one_sentence(change: str, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, embeddings=np.random.default_rng(0).normal(size=(40, 6)))
    whole = path.read_bytes()
    half = len(whole) // 2
    path.write_bytes(whole[:half] if change == "cut" else whole[:half] + bytes(60) + whole[half + 60 :])
    path.with_suffix(".jsonl").write_text("".join(f'"{number}"\n' for number in range(40)))
    answer = run("--embeddings", path, "--sts", folder)
    assert answer.exit_code == 2 and answer.output.count("\n") == 1
    assert "mine.npz cannot be read" in answer.output


def test_a_damaged_cache_is_filled_again(tmp_path: Path) -> None:
    from hypersphere.evaluation.embeddings import embed
    from hypersphere.evaluation.sentence_model import SentenceModel

    class Model:
        def encode(self, texts: list[str]) -> np.ndarray:
            return np.asarray([[len(text), 1.0] for text in texts], dtype=np.float32)

    def run() -> Any:
        return embed(SentenceModel("m", "mark", Model), ["a", "bb"], tmp_path)

    (_, about), folder = run(), tmp_path / "embeddings" / "mark"
    (chunk,) = folder.glob("*.safetensors")
    for content in [*WRONG, json.dumps({"model": "m", "pooling": [1], "max_length": "x"})]:
        wrong(folder / "about.json", content)
        assert run()[1] == about
    for header in (b"[" * 100_000, b"null", b'{"__metadata__": 3}'):
        chunk.write_bytes(len(header).to_bytes(8, "little") + header)
        store, _ = run()
        assert store.discarded == [chunk] and store.rows(["bb"]).tolist() == [[2.0, 1.0]]
