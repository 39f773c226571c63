"""The callback in the trainer: what is logged, saved and resumed, and what it says of held-out texts."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from transformers import TrainerState

from hypersphere.integrations.sentence_transformers import Callback, Evaluator, Loss
from hypersphere.integrations.sentence_transformers.callback import worse_retrieval
from hypersphere.training.journal import read_journal
from tests.integrations.sentence_transformers.steps import (
    A,
    P,
    arguments,
    dataset,
    opened,
    texts,
)


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Four steps with everything; then the last two once more, from the checkpoint."""
    output, said = tmp_path_factory.mktemp("run"), []

    def trained(resume: bool) -> SentenceTransformerTrainer:
        model = opened(folder, dropout=0.1)
        loss = Loss(model, "infonce", temperature=0.5, learnable=True, temperature_bounds=(0.2, 0.6))
        held_out = Evaluator(texts(12, 20), texts(12, 21), name="dev")
        trainer = SentenceTransformerTrainer(
            model=model, train_dataset=dataset(), eval_dataset=dataset(8), loss=loss, evaluator=held_out,
            callbacks=[Callback(loss, held_out, every=2, echo=said.append)],
            args=arguments(output, save_strategy="steps", save_steps=2, eval_strategy="steps", eval_steps=2,
                           learning_rate_mapping={"log_temperature": 0.3}),
        )  # fmt: skip
        trainer.train(resume_from_checkpoint=str(output / "checkpoint-2") if resume else None)
        return trainer

    first = trained(resume=False)
    weights = {name: value.clone() for name, value in first.loss.state_dict().items()}
    again = trained(resume=True)
    return {"trainer": first, "weights": weights, "again": again, "said": said, "output": output}


def test_the_trainer_logs_the_terms_beside_the_loss(run: dict[str, Any]) -> None:
    history = run["trainer"].state.log_history
    steps = [each for each in history if "loss" in each]
    assert len(steps) == 4
    for each in steps:
        assert math.isclose(each["alignment"] + each["energy"], each["loss"], abs_tol=2e-4)
    evaluated = [each for each in history if "eval_loss" in each]
    assert all({"eval_alignment", "eval_energy", "eval_dev_mean_reciprocal_rank"} <= each.keys() for each in evaluated)
    for name in ("alignment", "uniformity", "effective_rank", "gap", "healthy", "recall_at_1"):
        assert f"eval_dev_{name}" in evaluated[0]
    table = (run["output"] / "eval" / "geometry_evaluation_dev_results.csv").read_text().splitlines()
    assert table[0].endswith(",verdict") and len(table) >= 3


def test_a_learned_temperature_moves_within_its_bounds_and_is_saved(run: dict[str, Any]) -> None:
    temperature = float(run["weights"]["objective.log_temperature"].exp())
    assert 0.2 - 1e-6 <= temperature <= 0.6 + 1e-6
    assert not math.isclose(temperature, 0.5, rel_tol=1e-3)
    assert (run["output"] / "checkpoint-2" / "loss.safetensors").is_file()


def test_a_resumed_run_ends_where_the_uninterrupted_one_does(run: dict[str, Any]) -> None:
    again = run["again"].loss.state_dict()
    assert again.keys() == run["weights"].keys()
    for name, value in run["weights"].items():
        assert torch.allclose(value, again[name], atol=1e-6), name


def test_a_temperature_is_read_from_the_checkpoint_that_was_resumed_and_from_no_other(
    run: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    """The trainer takes a path, and callbacks hear of output_dir alone: there may be a checkpoint of another run."""
    saved = run["output"] / "checkpoint-2"
    state = TrainerState.load_from_json(str(saved / "trainer_state.json"))
    state.log_history[0]["loss"] = math.nan
    other = tmp_path / "checkpoint-2"
    shutil.copytree(saved, other, ignore=shutil.ignore_patterns("model*", "optimizer*"))
    elsewhere = tmp_path / "elsewhere" / "kept"
    shutil.copytree(other, elsewhere)
    state.save_to_json(str(elsewhere / "trainer_state.json"))
    state.log_history.append({"eval_gap": 0.5})  # by a callback before this one
    expected = load_file(saved / "loss.safetensors")["objective.log_temperature"]
    for named, heard in ((str(elsewhere), []), (None, ["give its path as resume_from_checkpoint= of the"])):
        said: list[str] = []
        loss = Loss(opened(folder), "infonce", temperature=0.3, learnable=True)
        callback = Callback(loss, Evaluator(A, P), echo=said.append)
        callback._resume(SimpleNamespace(output_dir=str(tmp_path), resume_from_checkpoint=named), state)
        assert len(said) == len(heard) and all(part in line for part, line in zip(heard, said, strict=True))
        assert torch.allclose(loss.objective.log_temperature, expected if named else torch.tensor(0.3).log())


def test_the_model_card_has_settings_and_citation(run: dict[str, Any], tmp_path: Path) -> None:
    run["trainer"].model.save_pretrained(str(tmp_path))
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "InfoNCE(temperature=" in card and '"mask_duplicates": true' in card
    assert "@software{hypersphere-infonce" in card and "Gao et al. 2021" in card


def test_the_callback_measures_training_and_held_out_texts(run: dict[str, Any]) -> None:
    records = read_journal(run["output"] / "metrics.jsonl")
    assert {(each["step"], each["split"]) for each in records} == {
        (step, split) for step in (0, 2, 4) for split in ("training", "held_out", "retrieval")
    }


@pytest.fixture
def collapsing(folder: Path) -> Iterator[tuple[Callback, SentenceTransformer, list[str]]]:
    model, said = opened(folder), []
    loss = Loss(model, "infonce")
    twins = texts(40, 30)
    callback = Callback(loss, Evaluator(twins, [f"{text} ." for text in twins]), echo=said.append)
    callback.model = model
    callback.observe(0, model)
    yield callback, model, said


def test_the_callback_says_that_texts_score_alike_and_retrieval_is_worse(collapsing: Any) -> None:
    callback, model, said = collapsing
    assert [line.partition(":")[0] for line in said] == [
        "Held-out texts at step 0, any two of which score 0.91 on average"
    ]
    assert "anisotropic cone" in said[0] and "Remedy: " in said[0]  # as an untrained encoder has it
    with torch.no_grad():
        model[0].auto_model.embeddings.LayerNorm.weight.mul_(0.02)
        model[0].auto_model.embeddings.LayerNorm.bias.add_(torch.arange(16.0))
    for number in (10, 20, 30):
        callback.observe(number, model)
    collapse, fused, worse = said[1:]  # each is said once
    assert collapse.startswith("Held-out texts at step 10, any two of which score 1.00 on average: rank-1 over-fusion")
    assert fused.startswith("over-fusion at step 20") and "Try: a learning rate" in fused
    assert worse.startswith("worse retrieval at step 20") and "Try: the weights of step 0" in worse
    assert "38% of the anchors (78% before training)" in worse
    assert worse_retrieval(callback.journal.records[:4]) is None  # one measurement is not enough


def test_a_callback_needs_a_loss_and_an_evaluator(model: SentenceTransformer) -> None:
    with pytest.raises(ValueError, match="the trainer's loss and an Evaluator"):
        Callback(Loss(model), A)  # type: ignore[arg-type]
