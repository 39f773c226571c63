"""A trainer of two views that takes a second, and a monitor that joins it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

import hypersphere as hs
from hypersphere.training.monitor import Monitor


class TwoViews(nn.Module):
    """Batch norm has statistics, dropout draws random numbers: both must not notice the monitor."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 8))
        self.objective = hs.create_objective("infonce")

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"loss": self.objective(self.body(x), self.body(x))}


def trainer_of(folder: Path, steps: int, **more: Any) -> Trainer:
    torch.manual_seed(0)
    data = [{"x": row} for row in torch.randn(64, 8, generator=torch.Generator().manual_seed(1))]
    arguments = TrainingArguments(
        output_dir=str(folder), max_steps=steps, per_device_train_batch_size=16, learning_rate=1e-2, seed=3,
        report_to=more.pop("report_to", []), use_cpu=True, logging_steps=5, save_steps=10, **more,
    )  # fmt: skip
    return Trainer(model=TwoViews(), args=arguments, train_dataset=data)  # type: ignore[arg-type]


def watched(trainer: Trainer, path: Path | None, **settings: Any) -> Monitor:
    model = trainer.model
    assert isinstance(model, TwoViews)
    batch, unseen = torch.randn(2, 32, 8, generator=torch.Generator().manual_seed(2))

    def training() -> tuple[Tensor, Tensor, None]:
        model.train()
        random.random()
        np.random.rand()
        return model.body(batch), model.body(batch), None

    def held_out() -> tuple[Tensor, Tensor, None]:
        model.eval()
        return model.body(unseen), model.body(unseen + 0.1), None

    settings.setdefault("every", 5)
    monitor = Monitor(model.objective, training=training, held_out=held_out, path=path, **settings)
    return monitor.join(trainer)
