"""One step of a loss on texts, and what the files of this folder train with."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("sentence_transformers")

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments

from hypersphere.encoders.text import _set_dropout
from hypersphere.integrations.sentence_transformers.terms import Terms
from tests.evaluation.tiny_model import WORDS

DIMS, DIM_WEIGHTS = [16, 8, 4], [1, 0.5, 2]


def texts(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS[:20]) for _ in range(draw.randint(3, 8))) for _ in range(count)]


A, P, N1, N2 = (texts(8, seed) for seed in range(4))


def opened(folder: Path, dropout: float = 0.0) -> SentenceTransformer:
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    _set_dropout(model, dropout)
    return model


def features(model: SentenceTransformer, *columns: list[str]) -> list[dict[str, Any]]:
    return [dict(model.preprocess(column)) for column in columns]


def value_of(loss: Any) -> Tensor:
    return loss.loss if isinstance(loss, Terms) else loss


def step(loss: nn.Module, *columns: list[str], labels: Tensor | None = None, factor: float = 1.0) -> dict[str, Tensor]:
    """The value and every gradient of one step."""
    loss.zero_grad()
    model: Any = loss.model
    value = value_of(loss(features(model, *columns), labels))
    (factor * value).backward()
    named = {name.rpartition("model.")[2]: p.grad for name, p in loss.named_parameters() if p.grad is not None}
    return {"value": value.detach(), **{name: grad.clone() for name, grad in named.items()}}


def assert_same(ours: dict[str, Tensor], theirs: dict[str, Tensor], tolerance: float = 2e-5) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert torch.allclose(value, theirs[name], rtol=tolerance, atol=tolerance), name


def by_loops(model: SentenceTransformer, columns: Any, masked: Callable[..., bool], tau: float, own: float) -> float:
    """Mean over anchors of -log softmax, over documents and hard negatives that are not ``masked(i, text, j)``."""
    z = [torch.nn.functional.normalize(model.encode(each, convert_to_tensor=True), dim=1) for each in columns]
    total = 0.0
    for i in range(len(z[0])):
        terms = []
        for column, rows in enumerate(z[1:], 1):
            for j in range(len(rows)):
                if (column, j) == (1, i) or not masked(i, column, j):
                    terms.append(float(z[0][i] @ rows[j]) / tau + (own if column > 1 and j == i else 0.0))
        total -= float(z[0][i] @ z[1][i]) / tau - math.log(sum(map(math.exp, terms)))
    return total / len(z[0])


def dataset(rows: int = 32, **more: Any) -> Dataset:
    return Dataset.from_dict({"anchor": texts(rows, 10), "positive": texts(rows, 11), **more})


def arguments(folder: Path, **more: Any) -> SentenceTransformerTrainingArguments:
    settings: dict[str, Any] = {
        "max_steps": 4, "per_device_train_batch_size": 8, "learning_rate": 1e-2, "logging_steps": 1, "use_cpu": True,
        "report_to": "none", "disable_tqdm": True, "save_strategy": "no", "seed": 3, "lr_scheduler_type": "constant",
    }  # fmt: skip
    return SentenceTransformerTrainingArguments(output_dir=str(folder), **(settings | more))
