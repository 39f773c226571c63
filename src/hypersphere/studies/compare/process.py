"""Each cell runs in a process of its own: a crash, a leak or a lack of memory costs one row, with its reason."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from hypersphere import processes
from hypersphere.documents import read_json
from hypersphere.objectives import register
from hypersphere.report import atomic_write
from hypersphere.studies.compare.views import views_of
from hypersphere.training.recipe import Recipe

PRELOADED = {
    "image": [
        "hypersphere.training.images",
        "kornia.augmentation",
        "sklearn.datasets",
    ],
    "text": ["hypersphere.training.text", "hypersphere.evaluation.sentences"],
}
KILLED = 9


@dataclass
class Running:
    """A cell that is being trained."""

    trial: int  # optuna's id
    cell: str
    folder: Path
    process: Any
    began: float = field(default_factory=time.monotonic)

    @property
    def alive(self) -> bool:
        return bool(self.process.is_alive())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def stop(self) -> None:
        """Asks the process to save and stop."""
        if self.alive:
            os.kill(self.process.pid, signal.SIGTERM)

    def reason(self) -> str:
        """The reason of the failure, in a sentence."""
        code = self.process.exitcode
        said = _read(self.folder.with_suffix(".json")).get("failure")
        if said:
            return str(said)
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            return f"the process was ended by {name}" + (" (out of memory?)" if -code == KILLED else "")
        return f"the process ended with exit code {code}"


def prepare(task: str) -> None:
    """Starts the process that cells are forked off. It imports for some seconds while this process goes on."""
    _preload(task)
    processes.prepare()


def wait_for_end(running: Sequence[Running], seconds: float) -> None:
    """Returns when one of the cells has ended, or after ``seconds``."""
    wait([each.process.sentinel for each in running], seconds) if running else time.sleep(seconds)


def start(trial: int, cell: str, recipe: Recipe, folder: Path, threads: int, objective: Any = None) -> Running:
    """Trains a recipe in ``folder`` on ``threads`` threads; ``objective``: a class that exists only in this process."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    payload = None
    if objective is not None:
        import cloudpickle

        payload = cloudpickle.dumps((objective.name, objective))
    _preload(recipe.task)
    words = recipe.model_dump_json(), str(folder.absolute()), threads, payload
    process = processes.start(_work, *words, name=f"cell {cell}")
    return Running(trial, cell, folder, process)


def result_of(folder: Path) -> dict[str, Any] | None:
    """Scores, curve, cost and the monitor's measurements of a finished run; None if the run has not finished."""
    from hypersphere.training.journal import read_journal
    from hypersphere.training.verdicts import judge

    results = _read(folder / "results.json")
    if not results:
        return None
    cost = _read(folder.with_suffix(".json"))
    records = read_journal(folder / "metrics.jsonl") if (folder / "metrics.jsonl").is_file() else []
    by_split = {name: [each for each in records if each["split"] == name] for name in CURVES}
    return {
        "scores": results["scores"],
        "given": results.get("given", {}),
        "history": results["history"],
        "best_step": results["best_step"],
        "steps": results["steps"],
        "seconds": cost.get("seconds", results["seconds"]),  # to the end of the process, of its last start
        "memory": cost.get("memory"),
        "verdicts": [[verdict.name, str(verdict)] for verdict in judge(records)],
        "measured": [_kept(each) for each in by_split["held_out"] or by_split["training"]],
        "training": [_kept(each, CURVES["training"]) for each in by_split["training"]],
        "pairs": [_kept(each, CURVES["validation"]) for each in by_split["validation"]],
        "views": cost.get("views", {}),
    }


def tidy(folder: Path, keep_model: bool) -> None:
    """Removes the files that only an unfinished run needs, and the weights unless ``keep_model`` is set."""
    for name in ("checkpoints", "best", *(() if keep_model else ("model",))):
        shutil.rmtree(folder / name, ignore_errors=True)


LEFT_OUT = (
    "split",
    "rows",
    "dimension",
    "reasons",
    "epoch",
    "monitor_seconds",
    "step_seconds",
    "verdicts",
)  # of a measurement: the same in every line
CURVES = {  # quantities kept from measurements on other data than the held-out rows
    "held_out": (),
    "training": ("step", "objective", "infonce", "alignment", "uniformity", "gap"),
    "validation": ("step", "alignment", "uniformity", "infonce"),
}


def _kept(record: Mapping[str, Any], wanted: Sequence[str] = ()) -> dict[str, Any]:
    """The wanted numbers of a measurement, or all of them; NaN is left out."""
    keys = wanted or [key for key in record if key not in LEFT_OUT]
    return {key: _short(record[key]) for key in keys if key in record and record[key] == record[key]}


def _short(value: Any) -> Any:
    """Rounds to six digits: further digits are noise, and a study keeps many numbers."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _preload(task: str) -> None:
    processes.preload(__name__, "hypersphere.training.run", *PRELOADED.get(task, []))


def _work(recipe: str, folder: str, threads: int, objective: bytes | None) -> None:
    """The body of a cell's process: it trains or continues training, measures the final views, and writes its cost."""
    _own_group(Path(folder))
    began, left = time.monotonic(), dict[str, Any]()
    try:
        _train(recipe, Path(folder), threads, objective)
        left["views"] = views_of(Path(folder) / "embeddings.safetensors")
    except BaseException as error:
        words = " ".join(str(error).split()) or type(error).__name__
        left["failure"] = words if isinstance(error, (ValueError, RuntimeError)) else f"{type(error).__name__}: {words}"
        raise SystemExit(1) from error
    finally:
        left["seconds"] = round(time.monotonic() - began, 2)
        left["memory"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        atomic_write(Path(folder).with_suffix(".json"), json.dumps(left))


def _train(text: str, folder: Path, threads: int, objective: bytes | None) -> None:
    import torch

    if objective is not None:
        import pickle

        name, cls = pickle.loads(objective)  # comes from the process that started this one, not from a file
        register(name)(cls)
    torch.set_num_threads(threads)
    from hypersphere.training.load import parse_recipe
    from hypersphere.training.run import train

    recipe = parse_recipe({**json.loads(text), "output": str(folder)}, spared=lambda key: True)
    if (folder / "results.json").is_file():
        return
    begun = (folder / "recipe.yaml").is_file()
    if folder.exists() and not begun:
        shutil.rmtree(folder)
    train(recipe, resume=begun, echo=lambda words: print(words, flush=True), draw=False)


def _own_group(folder: Path) -> None:
    """Ctrl-C reaches the study, which asks its cells to save. When the study's process dies, its cells stop too."""
    os.setpgrp()
    log = os.open(folder.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


def _read(path: Path) -> dict[str, Any]:
    try:
        tree: dict[str, Any] = read_json(path, dict)
    except (OSError, ValueError):
        return {}
    return tree
