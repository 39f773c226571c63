"""transformers' Trainer: an objective as its loss gives the weights of a plain loop; its logs get held-out numbers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

import hypersphere as hs
from tests.integrations import planted, small


@pytest.mark.parametrize(
    "case", [{}, {"split": 2}, {"split": 2, "labelled": True}], ids=["plain", "accumulated", "labelled"]
)
def test_a_trainer_ends_with_the_weights_of_a_plain_loop(
    case: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="transformers.trainer"):
        weights, trainer = small.with_transformers(str(tmp_path), **case)
    small.assert_same(weights, small.expected(case.get("split", 1), learnable=False))
    assert "labels=None" not in caplog.text
    if "labelled" in case:  # the Trainer evaluates a loss where there are labels; no accumulation divides this one
        with torch.no_grad():
            losses = [small.objective()(*trainer.model(**batch)).item() for batch in small.batches()]
        assert trainer.evaluate()["eval_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_a_model_with_return_loss_is_evaluated_without_labels(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    class Encoder(small.Encoder):
        def forward(self, first: Any, second: Any, return_loss: bool = True) -> Any:
            return super().forward(first, second)

    args = TrainingArguments(
        str(tmp_path), per_device_eval_batch_size=small.BATCH, gradient_accumulation_steps=2, use_cpu=True,
        report_to=[], remove_unused_columns=False, disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    loss = hs.integrations.transformers.Loss(small.objective(), args)
    trainer = Trainer(Encoder(), args, eval_dataset=small.Pairs(), compute_loss_func=loss)
    with torch.no_grad():
        losses = [small.objective()(*trainer.model(**batch)).item() for batch in small.batches()]
    assert trainer.evaluate()["eval_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_held_out_numbers_are_logged_and_a_collapse_is_reported_once(tmp_path: Path) -> None:
    said: list[str] = []
    callback = hs.integrations.transformers.HeldOutCallback(planted.Collapsing(), every=1, echo=said.append)
    weights, trainer = small.with_transformers(str(tmp_path), callback=callback)
    numbers = [each for each in trainer.state.log_history if "eval_alignment" in each]
    assert [each["step"] for each in numbers] == [0, 1, 2, 3]
    planted.check(numbers, said, "eval_")
    assert len([each for each in trainer.state.log_history if "loss" in each]) == small.STEPS  # which are still logged
    small.assert_same(weights, small.expected(learnable=False))  # measuring has changed nothing
    assert trainer.model.training


def test_what_cannot_work_is_answered_with_one_sentence(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    module = hs.integrations.transformers
    args = TrainingArguments(str(tmp_path), use_cpu=True, report_to=[], max_steps=1, disable_tqdm=True)
    loss = module.Loss(small.objective(), args)
    with pytest.raises(ValueError, match=r"the model returned a dict, .*views="):
        loss({"z": torch.eye(4)})
    with pytest.raises(ValueError, match="the model returned a Tensor"):
        loss(torch.ones(3, 2))
    x = torch.randn(8, 3)
    torch.testing.assert_close(
        module.Loss(small.objective(), args, views=lambda out: out["z"].chunk(2))({"z": x}), loss(x)
    )
    with pytest.raises(ValueError, match="no optimizer of the Trainer updates what this objective learns: keep it in"):
        module.Loss(small.objective(learnable=True), args)
    with pytest.raises(ValueError, match="objective must be a name or a function of two views, not NoneType"):
        module.Loss(None, args)
    with pytest.raises(ValueError, match="the second argument is the Trainer's TrainingArguments, not NoneType"):
        module.Loss("dhel", None)
    with pytest.raises(ValueError, match="embed must be a function of the model that returns two views, not a tuple"):
        module.HeldOutCallback((torch.eye(3), torch.eye(3)))
    with pytest.raises(ValueError, match="at least 1, not 0"):
        module.HeldOutCallback(lambda model: None, every=0)
    callback = module.HeldOutCallback(planted.Collapsing())
    trainer = Trainer(small.Encoder(), args, train_dataset=small.Pairs(), callbacks=[callback], compute_loss_func=loss)
    with pytest.raises(ValueError, match=r"join\(trainer\)"):
        trainer.train()
    bad = module.HeldOutCallback(lambda model: torch.eye(3))
    bad._trainer = trainer
    with pytest.raises(ValueError, match="embed must return the two views of the held-out rows, not a Tensor"):
        bad.on_train_begin(args, trainer.state, trainer.control, model=trainer.model)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")
def test_the_lines_of_the_page_run_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(small.section("transformers"), names)
    assert [each["step"] for each in names["trainer"].state.log_history if "eval_gap" in each] == [0, 2, 4]
