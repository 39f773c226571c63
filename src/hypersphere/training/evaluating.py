"""Scores on other data while a run goes on, and the weights that did best."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn
from transformers import TrainerCallback

from hypersphere.report import write_whole
from hypersphere.training import checkpoints
from hypersphere.training.task import Task
from hypersphere.training.trainer import ObjectiveTraining, save_weights


class Evaluation(TrainerCallback):
    """Calls ``task.score`` before the first step and every so many steps, and keeps the best weights in ``folder``.

    Evaluating leaves random state and training mode as they were, so that a run is the same with it and without it.
    """

    def __init__(self, task: Task, folder: Path, every: int, keep_best: bool, say: Callable[[str], None]) -> None:
        self.task, self.folder, self.every, self.keep_best, self.say = task, folder, every, keep_best, say
        self.scores: dict[int, dict[str, float]] = {}

    @property
    def file(self) -> Path:
        return self.folder / "scores.json"

    @property
    def best(self) -> int | None:
        """The step whose score was highest."""
        return self._best_of(list(self.scores))

    def _best_of(self, steps: list[int]) -> int | None:
        """The first step with the highest score; a score that is no number is below all others."""
        scores = {step: self.scores[step][self.task.key] for step in steps}
        known = {step: -math.inf if math.isnan(value) else value for step, value in scores.items()}
        return max(known, key=lambda step: (known[step], -step)) if known else None

    def remember(self, step: int) -> None:
        """The scores up to a step, from the file; later ones will be measured again."""
        if self.file.is_file():
            known = {int(number): scores for number, scores in json.loads(self.file.read_text()).items()}
            self.scores = {number: scores for number, scores in known.items() if number <= step}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not state.is_world_process_zero:
            return
        self.remember(state.global_step)
        if state.global_step == 0:
            self._evaluate(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % self.every == 0 or state.global_step == state.max_steps:
            self._evaluate(state)

    def _evaluate(self, state: Any) -> None:
        if not state.is_world_process_zero or self.task.score is None:
            return
        trainer = self.task.trainer
        mode = trainer.encoder.training
        random = torch.random.get_rng_state()
        trainer.encoder.eval()
        try:
            scores = self.task.score()
        finally:
            trainer.encoder.train(mode)
            torch.random.set_rng_state(random)
        before, self.scores = self.scores, {**self.scores, state.global_step: scores}
        try:
            if self.keep_best and self.best == state.global_step:
                save_weights(_both(trainer), self._weights(state.global_step))
            write_whole(self.file, json.dumps(self.scores))
        except (OSError, SafetensorError) as error:
            self.scores = before
            self.say(f"Step {state.global_step}: its score could not be kept ({error}); the best so far stays.")
        self._tidy()
        due = trainer.control.should_log
        trainer.log({f"eval_{name}": value for name, value in scores.items()})
        trainer.control.should_log = due  # the step's own loss has still to be logged
        shown = ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
        self.say(f"Step {state.global_step}: {shown}")

    def restore_best(self) -> int | None:
        """Puts the best weights back; the step they are of."""
        if not self.keep_best or self.best is None:
            return None
        _both(self.task.trainer).load_state_dict(load_file(self._weights(self.best)))
        return self.best

    def _weights(self, step: int) -> Path:
        return self.folder / f"step-{step}.safetensors"

    def _tidy(self) -> None:
        """Removes weights that are the best neither now nor for a run resumed from a checkpoint on the disk."""
        ends = [
            checkpoints.step_of(path) for path in checkpoints.numbered(Path(str(self.task.trainer.args.output_dir)))
        ]
        useful = {self._best_of([step for step in self.scores if step <= end]) for end in ends} | {self.best}
        for path in self.folder.glob("step-*.safetensors"):
            if int(path.stem.rsplit("-", 1)[1]) not in useful:
                path.unlink(missing_ok=True)


def _both(trainer: ObjectiveTraining) -> nn.Module:
    """The encoder, and the head and objective it was trained with."""
    return nn.ModuleDict({"encoder": trainer.encoder, "loss": trainer.loss})
