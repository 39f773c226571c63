"""Shows that the full-scale contests start, step, evaluate and resume with the published architectures.

    python -m benchmarks.full_scale [--only cloa-rates,nie-objectives] [--json benchmarks/results/full_scale.json]

It needs no GPU, data sets or weights. BERT-base (also in the place of RoBERTa-base), ResNet-18 and ResNet-50 come from
their configurations with random weights, and the data are a few made-up rows. For every contest one run of its first
objective is trained for four steps, stopped by SIGTERM in the middle, resumed, and scored on held-out rows. The scores
mean nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.report import atomic_write, markdown_table
from hypersphere.studies.compare.cells import Plan
from hypersphere.studies.reproduce.contest import contests
from hypersphere.training.load import write_recipe
from hypersphere.training.recipe import Recipe

WORDS = [f"word{place}" for place in range(200)]
FEW = {
    "text": ["data.rows=24", "data.held_out=8", "batch.size=8", "precision=fp32", "monitor.rows=8"],
    "image": ["data.rows=24", "data.held_out=8", "batch.size=8", "monitor.rows=8", "evaluation.test=false"],
    "three-lines": [],
}


def make_data(home: Path) -> None:
    """Made-up data under the names that the full scale reads, and BERT-base with random weights."""
    import io
    import tarfile

    draw = np.random.default_rng(0)
    for name, marks, files in (
        (
            "cifar-10-binary.tar.gz",
            1,
            {**{f"data_batch_{k}.bin": 10_000 for k in range(1, 6)}, "test_batch.bin": 10_000},
        ),
        ("cifar-100-binary.tar.gz", 2, {"train.bin": 50_000, "test.bin": 10_000}),
    ):
        with tarfile.open(home / name, "w:gz", compresslevel=1) as archive:
            for file, rows in files.items():
                body = np.zeros((rows, marks + 3072), np.uint8)
                body[:, marks - 1] = np.arange(rows) % (10 if marks == 1 else 100)
                body[:, marks::64] = draw.integers(0, 256, body[:, marks::64].shape)
                member = tarfile.TarInfo(f"cifar/{file}")
                member.size = body.nbytes
                archive.addfile(member, io.BytesIO(body.tobytes()))
    words = random.Random(0)
    lines = [" ".join(words.choices(WORDS, k=12)) for _ in range(64)]
    (home / "wiki1m_for_simcse.txt").write_text("\n".join(lines) + "\n")
    rows = ["sentence1,sentence2,score"] + [f"{a},{b},{words.uniform(0, 5):.2f}" for a, b in itertools.pairwise(lines)]
    (home / "scored.csv").write_text("\n".join(rows[:33]) + "\n")
    make_bert(home / "bert-base")


def make_bert(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordLevel({word: k for k, word in enumerate([*special, *WORDS])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {f"{each.strip('[]').lower()}_token": each for each in special}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **names).save_pretrained(folder)
    BertModel(BertConfig()).save_pretrained(folder)


def recipe_of(name: str, folder: Path) -> Recipe:
    """The first trained cell of a contest at its full scale, with a few rows and four steps."""
    plan = Plan(contests()[name].at("full", folder))
    study, objective = plan.study, plan.study.objectives[0]
    recipe = plan.untrained[0].recipe
    words = [*FEW[recipe.task], "steps=4", "checkpoint.every=1", "evaluation.every=2", "loggers=[]"]
    if recipe.task == "text":
        words += [
            f"encoder.name={folder / 'bert-base'}",
            f"evaluation.sts={folder / 'scored.csv'}",
            "evaluation.after=[]",
        ]
    kept = [word for word in study.changes if word.partition("=")[0] not in {each.partition("=")[0] for each in words}]
    if recipe.task == "image":  # image contests give the section evaluation as a whole
        kept = [word for word in kept if not word.startswith("evaluation=")]
    if recipe.task == "three-lines":
        words = ["steps=4", "checkpoint.every=1", "loggers=[]"]
    return study.model_copy(update={"changes": kept}).base(objective, words)


def show(name: str, home: Path) -> dict[str, Any]:
    """Starts, stops, resumes and scores one run of a contest."""
    recipe = recipe_of(name, home)
    path, run = home / f"{name}.yaml", home / f"run-{name}"
    path.write_text(write_recipe(recipe.model_copy(update={"output": str(run)})))
    command = [sys.executable, "-m", "hypersphere", "train", str(path)]
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(run.glob("checkpoints/checkpoint-*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate()
    stopped = process.returncode
    if stopped not in (0, 143):
        raise SystemExit(f"{name} did not start: {said[-2000:]}")
    if stopped == 143:
        done = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name} did not resume: {done.stderr[-2000:]}")
    results = json.loads((run / "results.json").read_text())
    scores = [f"{score} at step {step}" for step, each in results["history"].items() for score in each]
    return {"contest": name, "encoder": recipe.encoder.name.rpartition("/")[2], "objective": recipe.objective["name"],
            "stopped by SIGTERM": stopped == 143, "steps": results["steps"], "scores": ", ".join(scores),
            "seconds": round(time.monotonic() - start)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="contests, separated by commas; default: all")
    parser.add_argument("--json", type=Path, help="file for what was seen")
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    names = options.only.split(",") if options.only else list(contests())
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        make_data(home)
        os.environ["HYPERSPHERE_DATA"] = str(home)
        rows = []
        for name in names:
            rows.append(show(name, home))
            print(rows[-1], flush=True)
    print(markdown_table(list(rows[0]), [[str(value) for value in row.values()] for row in rows]))
    if options.json:
        atomic_write(options.json, json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
