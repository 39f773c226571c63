"""Training speed and memory beside sentence-transformers' own trainer: same model, sentences, batch and threads."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from hypersphere.report import atomic_write, markdown_table

WARM = 3  # steps before the clock counts
OURS, THEIRS = "hypersphere", "sentence-transformers"


@dataclass(frozen=True)
class Setting:
    """The setting under which both contenders train."""

    model: str
    text: str
    batch: int = 64
    steps: int = 20
    max_length: int = 32
    threads: int = 2
    cache: bool = False


def measure(setting: Setting, repeats: int, progress: Callable[[str], None] = lambda words: None) -> dict[str, Any]:
    """Both contenders in turn, each time in a process of its own; medians over the turns, and their ratio."""
    turns: dict[str, list[dict[str, float]]] = {OURS: [], THEIRS: []}
    for turn in range(repeats):
        for by in turns:
            progress(f"{by}, turn {turn + 1} of {repeats}")
            turns[by].append(_one(by, setting))
    medians = {
        by: {name: statistics.median(each[name] for each in own) for name in own[0]} for by, own in turns.items()
    }
    return {
        "setting": {**asdict(setting), "model": Path(setting.model).name, "text": Path(setting.text).name},
        "repeats": repeats,
        "medians": medians,
        "turns": turns,
        "speed_ratio": medians[OURS]["sentences_per_second"] / medians[THEIRS]["sentences_per_second"],
        "memory_ratio": medians[OURS]["peak_bytes"] / medians[THEIRS]["peak_bytes"],
    }


def _one(by: str, setting: Setting) -> dict[str, float]:
    job = json.dumps({"by": by, **asdict(setting)})
    done = subprocess.run(
        [sys.executable, "-m", "hypersphere.studies.benchmark.training", job], capture_output=True, text=True
    )
    if done.returncode:
        raise ValueError(f"{by} could not be measured: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    measured: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return measured


def page(results: dict[str, Any]) -> str:
    """The result as Markdown."""
    setting = results["setting"]
    rows = []
    for by, medians in results["medians"].items():
        loss = f"{1000 * medians['loss_seconds']:.1f}" if "loss_seconds" in medians else ""
        rows.append(
            [
                by,
                f"{medians['sentences_per_second']:.1f}",
                f"{medians['step_seconds']:.3f}",
                f"{1000 * medians['optimiser_seconds']:.0f}",
                loss,
                f"{medians['peak_bytes'] / 2**20:.0f}",
            ]
        )
    table = markdown_table(["trainer", "sentences/s", "step s", "optimiser ms", "loss ms", "peak MB"], rows)
    cached = ", gradient cache" if setting["cache"] else ""
    what = f"{setting['model']}, {setting['text']}, batch {setting['batch']}, at most {setting['max_length']} tokens"
    how = f"{setting['threads']} threads{cached}; medians of {results['repeats']} turns, taken alternately"
    ratios = f"Speed ratio {results['speed_ratio']:.2f}, memory ratio {results['memory_ratio']:.2f} (ours over theirs)."
    return f"# Training beside sentence-transformers\n\n{what}, {how}.\n\n{table}\n\n{ratios}\n"


def write(results: dict[str, Any], out: Path) -> Path:
    """training.json and training.md in a folder."""
    atomic_write(out / "training.json", json.dumps(results, indent=1))
    return atomic_write(out / "training.md", page(results))


class Clock(TrainerCallback):
    """Records the end of each step and the seconds of its optimiser."""

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
        """Median seconds of a step after the warm-up."""
        return statistics.median(b - a for a, b in zip(self.ends[WARM:], self.ends[WARM + 1 :], strict=False))


def ours(job: dict[str, Any], folder: Path) -> Any:
    """Our trainer without monitor and evaluation, to measure the cost of a step."""
    from hypersphere.training.load import parse_recipe
    from hypersphere.training.run import create_task

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
    return create_task(recipe, folder, lambda sentence: None).trainer


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
    seconds = []
    for _ in range(7):
        views = [torch.randn(batch, width, requires_grad=True) for _ in range(2)]
        began = time.perf_counter()
        objective(*views).backward()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def main() -> None:
    """One contender's training loop, measured in this process; prints a line of JSON."""
    job = json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        trainer = (ours if job["by"] == OURS else theirs)(job, Path(folder) / "run")
        trainer.args.disable_tqdm = True
        clock = Clock()
        trainer.add_callback(clock)
        trainer.train()
    measured = {
        "sentences_per_second": job["batch"] / clock.step,
        "step_seconds": clock.step,
        "optimiser_seconds": statistics.median(clock.optimiser[WARM:]),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    if job["by"] == OURS:
        measured["loss_seconds"] = loss_seconds(job["batch"], int(trainer.model.get_embedding_dimension()))
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
