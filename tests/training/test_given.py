"""The model a run on text is given: what is kept of it, what is set, and whether training made it better."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, StaticEmbedding, Transformer
from typer.testing import CliRunner

from hypersphere.cli.app import app
from hypersphere.training.outcome import outcome
from hypersphere.training.reading import parse_recipe, read_recipe
from hypersphere.training.run import NotPreparedError, train
from hypersphere.training.text import prepare_text
from tests.training import worlds


def sentence_model(folder: Path, **settings: Any) -> Path:
    """A SentenceTransformer with all that a run could lose: mean, dense layer, normalisation, prompt, length."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        modules = [
            Transformer(str(worlds.encoder(folder)), max_seq_length=20),
            Pooling(16, "mean"),
            Dense(16, 8, activation_function=torch.nn.Identity()),
            Normalize(),
        ]
    settings = {"prompts": {"query": "red cat "}, "default_prompt_name": "query", **settings}
    model = SentenceTransformer(modules=modules, device="cpu", **settings)
    model.save_pretrained(str(folder / "sentence-model"), create_model_card=False)
    return folder / "sentence-model"


def words(folder: Path, *more: str, encoder: Path | None = None) -> list[str]:
    """A shipped recipe as a user would fine-tune with it; encoder: another one than the SentenceTransformer."""
    own = sentence_model(folder)
    return [
        f"encoder.name={encoder or own}", f"data.source={worlds.pairs(folder)}", "data.views=pairs",
        "data.held_out=0", f"evaluation.sts={worlds.scored(folder)}", "batch=8", "steps=4",
        "evaluation.every=2", "loggers=[]", f"output={folder / 'run'}", *more,
    ]  # fmt: skip


def agree_with(model: SentenceTransformer, path: Path) -> None:
    """Rewrites the scores as the model's own cosines: no other model can do better."""
    table = list(csv.DictReader(path.read_text().splitlines()))
    first, second = (model.encode([row[key] for row in table]) for key in ("sentence1", "sentence2"))
    rows = [[r["sentence1"], r["sentence2"], f"{c:.6f}"] for r, c in zip(table, (first * second).sum(1), strict=True)]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["sentence1", "sentence2", "score"], *rows])


def spearman(model: SentenceTransformer, path: Path) -> float:
    table = list(csv.DictReader(path.read_text().splitlines()))
    first, second = (model.encode([row[key] for row in table]) for key in ("sentence1", "sentence2"))
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    return 100 * float(scipy.stats.spearmanr(cosines, [float(row["score"]) for row in table]).statistic)


def test_a_shipped_recipe_leaves_a_sentence_transformer_its_modules_and_begins_with_it(tmp_path: Path) -> None:
    said: list[str] = []
    finished = train(read_recipe("simcse-small", words(tmp_path)), say=said.append)
    before, after = (SentenceTransformer(str(f)) for f in (tmp_path / "sentence-model", finished.folder / "model"))
    assert [type(module) for module in after] == [Transformer, Pooling, Dense, Normalize]
    assert (after[1].pooling_mode, after.max_seq_length) == ("mean", 20)
    assert (after.prompts["query"], after.default_prompt_name) == ("red cat ", "query")
    expected = spearman(before, tmp_path / "scored.csv")
    assert finished.results["given"]["stsb_dev"] == pytest.approx(expected, abs=1e-3)
    assert finished.results["history"][0]["stsb_dev"] == pytest.approx(expected, abs=1e-3)
    kept = "mean of the last layer, then a dense layer, then normalisation; at most 20 tokens"
    assert f"Encoder: a SentenceTransformer, kept as it is: {kept}." in said
    assert "Head: none; the objective sees the pooled embedding itself." in said


def test_what_the_user_gives_replaces_the_models_own_and_the_run_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    given = words(tmp_path, "encoder.pooling=cls", "encoder.max_length=9", "head=linear-tanh")
    task = prepare_text(read_recipe("simcse-small", given), tmp_path / "run", said.append)
    assert said[0] == (
        "Encoder: a SentenceTransformer, changed by encoder.pooling and encoder.max_length (as given: pooling mean, "
        "then dense, then normalize, at most 20 tokens); now: [CLS] of the last layer; at most 9 tokens."
    )
    assert len(task.trainer.loss.head) == 2
    assert task.given is not None  # the comparison is with the model before these changes
    untouched = spearman(SentenceTransformer(str(tmp_path / "sentence-model")), tmp_path / "scored.csv")
    assert task.given()["stsb_dev"] == pytest.approx(untouched, abs=1e-3)


def test_a_plain_transformer_gets_simcses_pooling_length_and_head(tmp_path: Path) -> None:
    said: list[str] = []
    given = words(tmp_path, encoder=tmp_path / "encoder")
    task = prepare_text(read_recipe("simcse-small", given), tmp_path / "run", said.append)
    assert said[0].endswith("no pooling of its own; set: [CLS] of the last layer; at most 32 tokens.")
    assert [type(layer) for layer in task.trainer.loss.head] == [torch.nn.Linear, torch.nn.Tanh]
    assert task.given is not None and task.score is not None
    task.trainer.encoder.eval()
    assert task.given()["stsb_dev"] == pytest.approx(task.score()["stsb_dev"], abs=1e-3)


def test_dimensions_that_the_model_leaves_out_are_not_trained_on(tmp_path: Path) -> None:
    model = sentence_model(tmp_path, truncate_dim=5)
    tree = worlds.text_recipe(tmp_path, encoder={"name": str(model), "max_length": None})
    task = prepare_text(parse_recipe(tree), tmp_path / "run", lambda sentence: None)
    inputs = task.trainer.data_collator([task.trainer.train_dataset[row] for row in range(4)])  # type: ignore[index]
    assert task.trainer.embed(task.trainer.encoder, inputs).shape == (2, 4, 5)
    assert task.trainer.compute_loss(task.trainer.encoder, inputs).isfinite()


def test_a_damaged_model_is_reported_in_the_last_line_and_in_the_card(tmp_path: Path) -> None:
    ruin = words(tmp_path, "optimizer.lr=0.01", "evaluation.best=false")
    agree_with(SentenceTransformer(str(tmp_path / "sentence-model")), tmp_path / "scored.csv")
    answer = CliRunner().invoke(app, ["train", "simcse-small", *ruin])
    assert answer.exit_code == 0, answer.output
    last = answer.output.strip().splitlines()[-1]
    assert last.startswith("Worse than the model as given: stsb_dev ") and last.endswith(", as given 100.00.")
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert last in card and "| as given | after training |" in card


def results(best: int | None, given: dict[str, float], **scores: float) -> dict[str, Any]:
    return {"best_step": best, "given": given, "scores": scores}


def test_the_outcome_names_what_got_worse_beside_what_got_better() -> None:
    given = {"dev": 79.64, "test": 82.03}
    assert outcome(results(60, given, dev=82.70, test=77.0)) == (
        "Worse than the model as given: test 77.00, as given 82.03. "
        "Better than the model as given: dev 82.70, as given 79.64."
    )
    assert outcome(results(60, given, dev=float("nan"), test=82.031)).startswith(
        "Worse than the model as given: dev nan"
    )
    assert outcome(results(60, given, dev=79.64, test=82.03)) == "Neither better nor worse than the model as given."


def test_weights_of_step_0_mean_that_nothing_was_learned() -> None:
    given = {"dev": 79.64, "test": 82.03}
    assert outcome(results(0, given, dev=79.64, test=82.03)) == (
        "Nothing was learned: no step was better than the model as given, which the run kept."
    )
    replaced = outcome(results(0, given, dev=70.0, test=71.0))
    assert "no step was better than the weights at step 0" in replaced and "Worse than the model" in replaced
    assert "no step was better than the weights at step 0" in outcome(results(0, {}, knn=90.0))
    assert outcome(results(20, {}, knn=90.0)) == ""


def test_what_cannot_be_kept_or_trained_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(NotPreparedError, match="a SentenceTransformer gets no simcse head"):
        train(read_recipe("simcse-small", words(tmp_path, "head.keep=true")), say=lambda sentence: None)
    with pytest.raises(ValueError, match="simcse is for text"):
        read_recipe("digits", ["head=simcse"])
    tokenizer = SentenceTransformer(str(tmp_path / "sentence-model")).tokenizer.backend_tokenizer
    static = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=4)], device="cpu")
    static.save_pretrained(str(tmp_path / "static"), create_model_card=False)
    with pytest.raises(NotPreparedError, match="begins with StaticEmbedding, not with a transformer"):
        train(read_recipe("simcse-small", words(tmp_path, encoder=tmp_path / "static")), say=lambda sentence: None)
