"""Scores on other data during a run, and the weights with the best score."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn
from transformers import TrainerCallback

from hypersphere.documents import json_safe, read_json
from hypersphere.report import atomic_write
from hypersphere.training import checkpoints
from hypersphere.training.monitor import Monitor, multiples
from hypersphere.training.seeding import preserve_state
from hypersphere.training.task import Scores, Task
from hypersphere.training.trainer import ObjectiveTraining, save_weights


class ScoreCallback(TrainerCallback):
    """Calls ``task.score`` before the first step and at regular intervals, and keeps the best weights in ``folder``.
    The monitor, if there is one, times the evaluation and records the score.

    Evaluating restores random state and training mode, so that a run is the same with and without it.
    """

    def __init__(
        self,
        task: Task,
        folder: Path,
        every: int,
        keep_best: bool,
        echo: Callable[[str], None],
        monitor: Monitor | None = None,
    ) -> None:
        self.task, self.folder, self.every, self.keep_best, self.echo = task, folder, every, keep_best, echo
        self.monitor = monitor
        if monitor is not None and task.scored:
            monitor.pace.expect("evaluation", lambda step, most: multiples(step, most, every))
        self.scores: dict[int, dict[str, float]] = {}
        self.lost: set[int] = set()  # steps whose weights cannot be read
        self.digests: dict[int, list[int | str]] = {}  # size and hash of the weights of each step that was the best

    @property
    def file(self) -> Path:
        return self.folder / "scores.json"

    @property
    def best(self) -> int | None:
        """The step with the highest score, among those whose weights are not lost."""
        return self._best_of(self.scores)

    def _best_of(self, steps: Iterable[int]) -> int | None:
        """The first step with the highest score; a step with a NaN score is never the best."""
        scores = {step: self.scores[step][self.task.key] for step in steps if step not in self.lost}
        known = {step: value for step, value in scores.items() if not math.isnan(value)}
        return max(known, key=lambda step: (known[step], -step)) if known else None

    def remember(self, step: int) -> None:
        """Reads the scores up to a step from the file. Later ones will be measured again; at step 0, all of them."""
        self.lost, self.scores, self.digests = set(), {}, {}
        if step and self.file.is_file():
            try:
                self._read_scores(step)
            except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                self.echo(f"The scores so far cannot be read ({error}); there are none.")
        if self.keep_best:
            self._best_readable(self._look)

    def _read_scores(self, step: int) -> None:
        known = read_json(self.file, dict)
        if known.pop("seal", None) != _seal(known):
            raise ValueError(f"{self.file} is damaged")
        scores = {
            int(number): {name: math.nan if value is None else float(value) for name, value in each.items()}
            for number, each in known["scores"].items()
            if int(number) <= step
        }
        if not all(self.task.key in each for each in scores.values()):
            raise ValueError(f"{self.task.key} is missing")
        self.scores, self.digests = scores, {int(number): each for number, each in known["weights"].items()}

    def _keep(self, step: int) -> None:
        """Writes the scores, and the weights of ``step`` if they are the best; the file is sealed."""
        if self.keep_best and self.best == step:
            save_weights(_both(self.task.trainer), self._weights(step))
            self.digests = {**self.digests, step: checkpoints.digest(self._weights(step))}
        record = {
            "scores": {str(each): json_safe(scores) for each, scores in self.scores.items()},
            "weights": {str(each): digest for each, digest in self.digests.items() if each in self.scores},
        }
        atomic_write(self.file, json.dumps({**record, "seal": _seal(record)}, indent=1))

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
        if not state.is_world_process_zero or not self.task.scored:
            return
        trainer = self.task.trainer
        scores = self._measure(state.global_step)
        before, self.scores = self.scores, {**self.scores, state.global_step: scores}
        try:
            self._keep(state.global_step)
        except (OSError, SafetensorError) as error:
            self.scores = before
            self.echo(f"Step {state.global_step}: its score could not be kept ({error}); the best so far stays.")
        self._tidy()
        due = trainer.control.should_log
        trainer.log({f"eval_{name}": value for name, value in scores.items()})
        trainer.control.should_log = due  # the step's own loss is still to be logged
        shown = ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
        self.echo(f"Step {state.global_step}: {shown}")

    def _measure(self, step: int) -> Scores:
        """Computes the scores; the monitor times and records them."""
        encoder = self.task.trainer.encoder
        with preserve_state([encoder]), ExitStack() as held:
            encoder.eval()
            if self.monitor is not None:
                held.enter_context(self.monitor.pace.aside("evaluation"))
            scores = self.task.score()
            geometry = {} if self.monitor is None else self.task.geometry()
        if self.monitor is not None:
            self.monitor.note(step, self.task.key, scores[self.task.key], **geometry)
        return scores

    def restore_best(self) -> int | None:
        """Restores the best weights and returns their step, or None if the last weights stay."""
        if not self.keep_best or not self.task.scored:
            return None
        best = self._best_readable(self._load)
        if best is None:
            known = "No weights with a score are left" if self.lost else "No score is a number"
            self.echo(f"{known if self.scores else 'No score was kept'}; the last weights are used.")
        return best

    def _best_readable(self, read: Callable[[int], None]) -> int | None:
        """The best step whose weights ``read`` can read. Better steps are lost, which is reported once."""
        wanted, why = self.best, ""
        while (best := self.best) is not None:
            try:
                read(best)
                break
            except (OSError, SafetensorError, ValueError) as error:
                self.lost.add(best)
                why = why or str(error)
        if best != wanted:
            instead = "no others were kept" if best is None else f"those of step {best} are the best now"
            self.echo(f"The best weights so far, of step {wanted}, cannot be read ({why}); {instead}.")
        return best

    def _look(self, step: int) -> None:
        """Fails if the weights of a step are missing or differ from those that were written."""
        path = self._weights(step)
        if checkpoints.digest(path) != self.digests.get(step):
            raise ValueError(f"{path} is damaged")

    def _load(self, step: int) -> None:
        self._look(step)
        _both(self.task.trainer).load_state_dict(load_file(self._weights(step)))

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


def _seal(record: Any) -> str:
    """A hash of the record that does not depend on the order of its keys."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _both(trainer: ObjectiveTraining) -> nn.Module:
    """The encoder together with its head and objective."""
    return nn.ModuleDict({"encoder": trainer.encoder, "loss": trainer.loss})
