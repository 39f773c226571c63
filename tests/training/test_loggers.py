"""Loggers: which are used, and a full disk ends TensorBoard alone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from hypersphere.training.load import parse_recipe
from hypersphere.training.loggers import LOGGERS, guard_tensorboard, installed, report_to
from hypersphere.training.run import create_task
from tests.training import worlds


def test_a_disk_that_is_full_ends_tensorboard_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its thread fails at the first record, or at one in the middle of the run."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    def full(self: Any, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RecordWriter, "write", full)
    said: list[str] = []
    tree = worlds.text_recipe(tmp_path, loggers=["tensorboard"], steps=2)
    task = create_task(parse_recipe(tree), tmp_path / "run", said.append)
    guard_tensorboard(task.trainer, tmp_path / "run" / "tensorboard", said.append)
    hook = threading.excepthook
    task.trainer.train()
    assert task.trainer.state.global_step == 2 and threading.excepthook is hook
    assert [sentence for sentence in said if "tensorboard cannot be written ([Errno 28] No space left" in sentence]
    assert "Traceback" not in capfd.readouterr().err


def test_tensorboard_by_default_the_others_only_if_asked_or_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for _, variables in LOGGERS.values():
        for variable in variables:
            monkeypatch.delenv(variable, raising=False)
    there = {"tensorboard", "wandb", "mlflow"}
    monkeypatch.setattr("hypersphere.training.loggers.find_spec", lambda name: object() if name in there else None)
    assert report_to() == (["tensorboard"], [])
    assert report_to(["wandb"]) == (["wandb"], [])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:runs")
    assert report_to() == (["tensorboard", "mlflow"], [])
    monkeypatch.setenv("WANDB_PROJECT", "sphere")
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert report_to() == (["tensorboard", "mlflow"], [])
    there.clear()
    chosen, missing = report_to(["tensorboard", "wandb"])
    assert chosen == []
    assert [words.split()[0] for words in missing] == ["tensorboard", "wandb"]
    with pytest.raises(ValueError, match="no logger 'tensorbord'"):
        report_to(["tensorbord"])


def test_installed_agrees_with_importing() -> None:
    assert installed("tensorboard")
