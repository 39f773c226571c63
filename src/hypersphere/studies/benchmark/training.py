"""Training speed and memory beside sentence-transformers' own trainer: same model, sentences, batch and threads."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hypersphere.report import markdown_table, write_whole
from hypersphere.studies.benchmark.training_worker import OURS, THEIRS


@dataclass(frozen=True)
class Setting:
    """What both contenders train."""

    model: str
    text: str
    batch: int = 64
    steps: int = 20
    max_length: int = 32
    threads: int = 2
    cache: bool = False


def measure(setting: Setting, repeats: int, tick: Callable[[str], None] = lambda words: None) -> dict[str, Any]:
    """Both contenders in turn, each time in a process of its own; medians over the turns, and their ratio."""
    turns: dict[str, list[dict[str, float]]] = {OURS: [], THEIRS: []}
    for turn in range(repeats):
        for by in turns:
            tick(f"{by}, turn {turn + 1} of {repeats}")
            turns[by].append(_one(by, setting))
    medians = {
        by: {name: statistics.median(each[name] for each in found) for name in found[0]} for by, found in turns.items()
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
        [sys.executable, "-m", "hypersphere.studies.benchmark.training_worker", job], capture_output=True, text=True
    )
    if done.returncode:
        raise ValueError(f"{by} could not be measured: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def page(found: dict[str, Any]) -> str:
    """The result as Markdown."""
    setting = found["setting"]
    rows = []
    for by, medians in found["medians"].items():
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
    how = f"{setting['threads']} threads{cached}; medians of {found['repeats']} turns, taken alternately"
    ratios = f"Speed ratio {found['speed_ratio']:.2f}, memory ratio {found['memory_ratio']:.2f} (ours over theirs)."
    return f"# Training beside sentence-transformers\n\n{what}, {how}.\n\n{table}\n\n{ratios}\n"


def write(found: dict[str, Any], out: Path) -> Path:
    """training.json and training.md in a folder."""
    write_whole(out / "training.json", json.dumps(found, indent=1))
    return write_whole(out / "training.md", page(found))
