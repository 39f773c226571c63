"""One contender's training loop, measured in a process of its own; prints a line of JSON."""

from __future__ import annotations

import json
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

WARM = 3  # steps before the clock counts
OURS, THEIRS = "hypersphere", "sentence-transformers"


class Clock(TrainerCallback):
    """When each step ended, and the seconds its optimiser took."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.optimiser: list[float] = []
        self._began = 0.0

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._began = time.perf_counter()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.optimiser.append(time.perf_counter() - self._began)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.ends.append(time.perf_counter())

    @property
    def step(self) -> float:
        """Median seconds of a step, warm."""
        return statistics.median(b - a for a, b in zip(self.ends[WARM:], self.ends[WARM + 1 :], strict=False))


def ours(job: dict[str, Any], folder: Path) -> Any:
    """Our trainer without monitor and evaluation: what a step costs."""
    from hypersphere.training.reading import parse_recipe
    from hypersphere.training.text import prepare_text

    recipe = parse_recipe(
        {
            "task": "text",
            "data": {"source": job["text"], "rows": job["batch"] * job["steps"]},
            "encoder": {"name": job["model"], "pooling": "mean", "max_length": job["max_length"]},
            "objective": {"name": "infonce", "temperature": 0.05},
            "batch": {"size": job["batch"], "cache": job["cache"], "chunk": 64 if job["cache"] else 0},
            "steps": job["steps"],
            "checkpoint": {"every": 10**6},
            "loggers": [],
            "output": str(folder),
        }
    )
    return prepare_text(recipe, folder, lambda sentence: None).trainer


def theirs(job: dict[str, Any], folder: Path) -> Any:
    """sentence-transformers' trainer with MultipleNegativesRankingLoss on the same sentences, each given twice."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer import losses
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    from hypersphere.data.text import read_corpus

    sentences = read_corpus(job["text"], rows=job["batch"] * job["steps"]).columns[0]
    transformer = Transformer(job["model"], max_seq_length=job["max_length"])
    model = SentenceTransformer(modules=[transformer, Pooling(transformer.get_embedding_dimension(), "mean")])
    loss: torch.nn.Module
    if job["cache"]:
        loss = losses.CachedMultipleNegativesRankingLoss(model, scale=20.0, mini_batch_size=64)
    else:
        loss = losses.MultipleNegativesRankingLoss(model, scale=20.0)
    return SentenceTransformerTrainer(
        model=model,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(folder), max_steps=job["steps"], per_device_train_batch_size=job["batch"],
            learning_rate=3e-5, report_to=[], save_strategy="no", logging_steps=10**6, disable_tqdm=True,
            dataloader_pin_memory=False,
        ),
        train_dataset=Dataset.from_dict({"anchor": sentences, "positive": sentences}),
        loss=loss,
    )  # fmt: skip


def loss_seconds(batch: int, width: int) -> float:
    """Forward and backward of the objective alone on embeddings of that shape."""
    import hypersphere as hs

    objective = hs.create_objective("infonce", temperature=0.05)
    taken = []
    for _ in range(7):
        views = [torch.randn(batch, width, requires_grad=True) for _ in range(2)]
        began = time.perf_counter()
        objective(*views).backward()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def main() -> None:
    job = json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        trainer = (ours if job["by"] == OURS else theirs)(job, Path(folder) / "run")
        trainer.args.disable_tqdm = True
        clock = Clock()
        trainer.add_callback(clock)
        trainer.train()
    found = {
        "sentences_per_second": job["batch"] / clock.step,
        "step_seconds": clock.step,
        "optimiser_seconds": statistics.median(clock.optimiser[WARM:]),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    if job["by"] == OURS:
        found["loss_seconds"] = loss_seconds(job["batch"], int(trainer.model.get_embedding_dimension()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
