"""Monitors a run: measures every few steps, records the numbers, and prints a verdict when something goes wrong.

Measuring changes nothing: random states, batch-norm statistics and modes are restored. By default a monitor spends a
twentieth of the step time. It spends more only if that is too little for a verdict: the start and the end of a run are
always measured, and three points between them, then without the anatomy.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hypersphere.training.journal import Journal, Record, read_journal
from hypersphere.training.measurements import Known, Measurements, Views, measure, measure_batches
from hypersphere.training.recipe import Recipe
from hypersphere.training.seeding import preserve_state
from hypersphere.training.temperature import set_temperature
from hypersphere.training.verdicts import THRESHOLDS, Verdict, judge, shortage, suspect

try:
    from transformers import ProgressCallback, TrainerCallback
    from transformers.trainer_callback import PrinterCallback

    from hypersphere.training.progress import Pace, ProgressBar
except ImportError as error:
    raise ImportError("the monitor of a run needs transformers: pip install 'hypersphere-lab[train]'") from error

__all__ = ["Measurements", "Monitor", "measure", "measure_batches", "read_journal"]

if TYPE_CHECKING:
    from hypersphere.training.task import Task

Source = Callable[[], Views | Iterable[Views] | None]
GRID = 10  # by default, a monitor measures at multiples of this many steps
BUDGET = 0.05  # and spends this share of the step time
FEWEST = THRESHOLDS.settled + 1  # measurements after the start that every run gets, if it has as many steps


class Monitor(TrainerCallback):
    """Measures a training batch and held-out data while a Trainer runs.

    training, held_out: functions without arguments. They return (z1, z2, labels or None) of a batch as the objective
        receives it, or an iterable of several, or None while there is nothing to measure. A fourth entry may hold the
        batch's ``ids`` and ``guide`` by name. Only the first process calls them: they must not wait for others, so they
        use the model itself, not its DDP wrapper.
    rows: the most rows of a batch that are measured.
    every: steps between measurements; 0: multiples of 10, as often as ``budget`` (a share of the time all steps of the
        run will take) allows, spread evenly. Whatever the budget, the start and the end are measured, and every quarter
        of a run. If the budget is short, the measurements between start and end leave out the anatomy.
    path: metrics.jsonl; a resumed run drops the lines after the step it resumes from.
    guard: modules beside the Trainer's model whose mode and buffers must stay as they are (a projection head).
    echo: called with each verdict that changes. seed: seeds the random numbers of every measurement, so that dropout
        and augmentation are the same each time and curves show the model, not the draw.

    ``join(trainer)`` installs it, with its loggers and progress bar. Without a Trainer, call ``observe(step)``.
    """

    def __init__(
        self,
        objective: Callable[..., Any],
        *,
        training: Source | None = None,
        held_out: Source | None = None,
        every: int = 0,
        rows: int = 256,
        path: Path | str | None = None,
        budget: float = BUDGET,
        guard: Sequence[nn.Module] = (),
        echo: Callable[[str], None] | None = None,
        seed: int = 0,
    ) -> None:
        if every < 0:
            raise ValueError(f"every is a number of steps, or 0 for as often as the budget allows, not {every}")
        if not 0 < budget <= 1:
            raise ValueError(f"budget is a share of the step time above 0 and at most 1, not {budget}")
        self.objective = objective
        self.sources = {"training": training, "held_out": held_out}
        self.every, self.rows, self.budget, self.seed = every, rows, budget, seed
        self.guard = list(guard)
        self.echo = echo or _write
        self.journal = Journal(path)
        self.verdicts: list[Verdict] = []
        self.gradient_norm: Tensor | float | None = None  # of the latest step, before clipping
        self.seconds = self.step_seconds = 0.0  # spent measuring, spent in steps
        self.measured = self.brief = 0  # measurements so far, and those of them without the anatomy
        self.pace = Pace()
        self.pace.expect("measurement", self._to_come)
        self.bar: ProgressBar | None = None
        self._cost = 0.0  # of the latest whole measurement
        self._start = self._steps = 0  # where this session of the run began, and its steps so far
        self._last_step = self._last_whole = -1
        self._began: float | None = None
        self._handler: Any = None

    # --- measuring

    def observe(
        self, step: int, model: nn.Module | None = None, *, brief: bool = False, **more: float
    ) -> list[Verdict]:
        """Measures now: appends to the journal, announces verdicts that have changed, and returns those that hold.
        ``brief`` leaves out the anatomy."""
        with self.pace.aside("measurement"):
            return self._measure(step, model, brief, more)

    def _measure(self, step: int, model: nn.Module | None, brief: bool, more: dict[str, float]) -> list[Verdict]:
        _wait_for_devices()
        start = time.perf_counter()
        norm = None if self.gradient_norm is None else float(self.gradient_norm)
        records: list[Record] = []
        for split, source in self.sources.items():
            if source is None:
                continue
            with preserve_state([*([] if model is None else [model]), *self.guard], self.seed):
                views = source()
                if views is None:
                    continue
                measurements = measure_batches(
                    self.objective,
                    [views] if isinstance(views, tuple) else views,
                    rows=self.rows,
                    gradient_norm=norm if split == "training" else None,
                    brief=brief,
                )
            reasons = {"reasons": measurements.reasons} if measurements.reasons else {}
            marked = {"brief": True} if brief else {}
            records.append({"step": step, "split": split, **marked, **more, **measurements.to_dict(), **reasons})
        if not records:
            return self.verdicts
        verdicts = judge([*self.journal.records, *records])
        cost = time.perf_counter() - start
        self.seconds += cost
        self.measured += 1
        self.brief += brief
        self._last_step = step
        if not brief:
            self._cost, self._last_whole = cost, step
        for record in records:
            record.update(monitor_seconds=self.seconds, monitor_share=self.share, step_seconds=self.step_seconds)
            record["verdicts"] = [verdict.name for verdict in verdicts]
        self._write_down(records)
        self._announce(verdicts, step)
        return verdicts

    @property
    def share(self) -> float:
        """Time spent measuring as a share of the time spent in steps."""
        return self.seconds / self.step_seconds if self.step_seconds > 0 else math.nan

    def due(self, step: int, most: int) -> bool:
        """Whether to take a whole measurement after a step of a run of ``most`` steps.

        The remaining budget pays for n measurements at the cost of the latest whole one. The steps from that one to the
        end of the run are divided into n equal parts, so that the last measurement falls on the last step.
        """
        if self.every:
            return step % self.every == 0
        if step % _grid(most) or self._steps < 2:
            return False
        left = self.budget * self.step_seconds / self._steps * (most - self._start) - self.seconds
        affordable = math.inf if self._cost == 0 else math.floor(left / self._cost + 1e-9)
        return affordable >= 1 and step - self._last_whole >= (most - self._last_whole) / affordable

    def owed(self, step: int, most: int) -> bool:
        """Whether a verdict needs at least a brief measurement now: nothing was measured for a quarter of the run.

        The cost does not matter here, so that a loaded machine changes no verdict. The end of a run is always measured.
        """
        if self.every or step >= most:
            return False
        grid = _grid(most)
        return step - self._last_step >= max(1, most // FEWEST // grid * grid)

    def _to_come(self, step: int, most: int) -> float:
        """The approximate number of measurements still to come in a run of ``most`` steps."""
        if self.every:
            return multiples(step, most, self.every)
        quarters = math.ceil((most - step) / max(1, most // FEWEST))
        left = self.budget * self.pace.step_seconds * (most - self._start) - self.seconds
        affordable = left / self._cost if self._cost > 0 else math.inf
        return max(quarters, min(affordable, (most - step) / _grid(most)))

    def note(self, step: int, name: str, score: float, **geometry: float) -> None:
        """Records a score on other data, with the geometry measured there, as a line of the split "validation"."""
        self._write_down([{"step": step, "split": "validation", "name": name, "score": score, **geometry}])

    def _write_down(self, records: Sequence[Record]) -> None:
        had = self.journal.problem
        self.journal.append(records)
        if self.journal.problem != had:
            self.echo(self.journal.problem)

    def _announce(self, verdicts: list[Verdict], step: int) -> None:
        before, now = ({verdict.name for verdict in each} for each in (self.verdicts, verdicts))
        for verdict in verdicts:
            if verdict.name not in before:
                self.echo(str(verdict))
        for name in sorted(before - now):
            self.echo(f"{name}: no longer at step {step}.")
        self.verdicts = verdicts

    # --- in a Trainer

    def join(self, trainer: Any) -> Monitor:
        """Adds itself to a Trainer, records its gradient norms, and shows three numbers on its progress bar."""
        trainer.add_callback(self)
        self._handler = trainer.callback_handler
        loss = getattr(trainer, "loss", None)
        if isinstance(loss, nn.Module):
            self.guard.append(loss)
        trainer.remove_callback(ProgressCallback)
        trainer.remove_callback(PrinterCallback)
        if not trainer.args.disable_tqdm:
            self.bar = ProgressBar(self.pace)
            trainer.add_callback(self.bar)
        original = trainer._get_grad_norm

        def known(*args: Any, **kwargs: Any) -> Any:
            self.gradient_norm = original(*args, **kwargs)
            return self.gradient_norm

        trainer._get_grad_norm = known
        every = trainer.args.save_steps if trainer.args.save_strategy == "steps" else math.inf
        self.pace.expect("checkpoint", lambda step, most: multiples(step, most, every))
        trainer._save_checkpoint = self.pace.timed("checkpoint", trainer._save_checkpoint)
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._start = state.global_step
        if state.is_world_process_zero:
            self.journal.resume(state.global_step)
            measured = [r for r in self.journal.records if r["split"] in self.sources]
            if measured:
                self._last_step = measured[-1]["step"]
                self._last_whole = max((r["step"] for r in measured if not r.get("brief")), default=-1)
                self.verdicts = judge(self.journal.records)
            else:
                self._observe(args, state, control, kwargs)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._began = time.perf_counter()
        self.pace.step_began()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._began is not None:
            self.step_seconds += time.perf_counter() - self._began
            self._steps += 1
        self.pace.step_ended()
        if not state.is_world_process_zero:
            return
        whole = self.due(state.global_step, state.max_steps)
        if whole or self.owed(state.global_step, state.max_steps):
            self._observe(args, state, control, kwargs, brief=not whole)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        if self._last_step != state.global_step:
            self._observe(args, state, control, kwargs)
        for sentence in (*suspect(self.journal.records), *shortage(self.journal.records)):
            self.echo(sentence)
        if self.step_seconds > 0:
            brief = f", {self.brief} of them without the anatomy" if self.brief else ""
            self.echo(
                f"Measuring took {self.seconds:.1f} s, {self.share:.1%} of the {self.step_seconds:.1f} s spent in "
                f"steps ({self.measured} measurements{brief})."
            )

    def _observe(self, args: Any, state: Any, control: Any, given: dict[str, Any], brief: bool = False) -> None:
        self.observe(state.global_step, given.get("model"), brief=brief, epoch=float(state.epoch or 0))
        latest = {
            r["split"]: r
            for r in self.journal.records[-3:]
            if r["step"] == state.global_step and r["split"] in self.sources
        }
        if not latest:
            return
        if self.bar is not None:
            self.bar.show(latest)
        if self._handler is not None:
            # To the loggers only: Trainer.log would keep every number in each checkpoint's state as well.
            due = control.should_log
            self._handler.on_log(args, state, control, _for_loggers(latest))
            control.should_log = due  # the step's own loss is still to be logged


def multiples(step: int, most: int, every: float) -> int:
    """How often, after a step, a multiple of ``every`` or the last step is still to come."""
    if step >= most:
        return 0
    return int(most // every - step // every) + (most % every != 0)


def _grid(most: int) -> int:
    """Measurements fall on multiples of this many steps. A short run has a finer grid, so that it gets enough."""
    return max(1, min(GRID, most // FEWEST))


def _for_loggers(latest: dict[str, Record]) -> dict[str, float]:
    """Names as transformers' loggers sort them: plain for "train/…", with the prefix eval_ for "eval/…"."""
    metrics: dict[str, float] = {}
    for split, record in latest.items():
        for name, value in record.items():
            if isinstance(value, float) and math.isfinite(value) and name not in ("epoch", "rows", "dimension"):
                metrics[f"eval_{name}" if split == "held_out" else name] = value
    return metrics


def _wait_for_devices() -> None:
    """Waits until the devices are idle: pending work belongs to the step, not to the measurement."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _write(words: str) -> None:
    """Prints above the progress bar."""
    from tqdm.auto import tqdm

    tqdm.write(words)


def watch(task: Task, recipe: Recipe, path: Path, echo: Callable[[str], None]) -> Monitor:
    """Adds a monitor to the task's trainer. It measures a fixed training batch, and the held-out batches if there are
    any, as the objective receives them; hard negatives are left out."""
    trainer = task.trainer
    alone = recipe.create_objective()  # only the first process measures: it must not wait for the others

    @functools.cache  # texts and guide stay as they are
    def known(batch: int) -> Known:
        given = trainer.known_alone(trainer._prepare_inputs(batches[batch]))
        return {name: given[name] for name in ("ids", "guide") if name in given}

    batches = [task.sample, *task.held_out]

    def views(batch: int) -> Views:
        here = trainer._prepare_inputs(batches[batch])
        alone.load_state_dict(trainer.loss.objective.state_dict())
        latest = max(0, trainer.state.global_step - 1)
        set_temperature(alone, recipe.objective, trainer.epoch_of(latest))
        trainer.encoder.train()  # dropout makes the views of text
        z = trainer.loss.project(trainer.embed(trainer.encoder, here))
        return z[0], z[1], here.get("labels"), known(batch)

    def held_out() -> Iterator[Views]:
        return (views(batch) for batch in range(1, len(batches)))

    return Monitor(
        alone.to(trainer.args.device),
        training=lambda: views(0),
        held_out=held_out if task.held_out else None,
        every=recipe.monitor.every,
        rows=recipe.batch.size + 1,  # a batch may have one row more: a single row left over joins it
        path=path,
        echo=echo,
        seed=recipe.seed,
    ).join(trainer)
