"""The progress of a run: its bar and its time left. Steps and the work between them are timed separately."""

from __future__ import annotations

import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.auto import tqdm
from transformers import ProgressCallback

from hypersphere.training.journal import Record

FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{left}, {rate_fmt}{postfix}]"
RECENT = 50  # the median over this many steps predicts those to come


class Pace:
    """Times steps separately from evaluations, measurements and checkpoints, so that none of these counts as a step.

    ``expect(kind, to_come)`` registers a function of the step and the last step: how often that kind is still to come.
    ``aside(kind)`` is the context that times one occurrence. A nested context counts as part of the outer one.
    """

    def __init__(self) -> None:
        self._steps: deque[float] = deque(maxlen=RECENT)
        self._kinds: dict[str, Callable[[int, int], float]] = {}
        self._spent: dict[str, list[float]] = {}
        self._since: float | None = None  # when the latest step ended
        self._between = 0.0  # spent aside since then
        self._inside = False

    def expect(self, kind: str, to_come: Callable[[int, int], float]) -> None:
        self._kinds[kind] = to_come

    @contextmanager
    def aside(self, kind: str) -> Iterator[None]:
        if self._inside:
            yield
            return
        start, self._inside = time.perf_counter(), True
        try:
            yield
        finally:
            self._inside = False
            seconds = time.perf_counter() - start
            self._between += seconds
            self._spent.setdefault(kind, []).append(seconds)

    def timed(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """``call``, wrapped in ``aside(kind)``."""

        def within(*args: Any, **kwargs: Any) -> Any:
            with self.aside(kind):
                return call(*args, **kwargs)

        return within

    def step_began(self) -> None:
        if self._since is None:  # time before the first step belongs to no step
            self._since, self._between = time.perf_counter(), 0.0

    def step_ended(self) -> None:
        now = time.perf_counter()
        if self._since is not None:
            self._steps.append(now - self._since - self._between)
        self._since, self._between = now, 0.0

    @property
    def step_seconds(self) -> float:
        """Seconds of a whole step; 0 before the first."""
        return statistics.median(self._steps) if self._steps else 0.0

    def left(self, step: int, most: int) -> float | None:
        """Seconds from a step to the end of the run; None before the first step. Kinds never timed are left out."""
        if not self._steps:
            return None
        aside = sum(
            to_come(step, most) * statistics.fmean(self._spent[kind])
            for kind, to_come in self._kinds.items()
            if kind in self._spent
        )
        return (most - step) * self.step_seconds + aside


class _Line(tqdm):  # type: ignore[misc]
    """A bar that shows the speed of the steps alone; its time left includes the work between steps."""

    pace: Pace

    @property
    def format_dict(self) -> dict[str, Any]:
        shown: dict[str, Any] = dict(super().format_dict)
        left = self.pace.left(int(self.n), int(self.total))
        shown["left"] = "?" if left is None else self.format_interval(round(left))
        shown["rate"] = 1 / self.pace.step_seconds if self.pace.step_seconds > 0 else None
        return shown


class ProgressBar(ProgressCallback):
    """Progress, speed, time left, and the three numbers that matter.

    The loss: does the model learn? The held-out gap d_ij: does it separate unseen instances, neither too little nor too
    much (quality peaks at a medium gap, Nie et al. 2023, Fig. 3)? The effective rank: has it collapsed? Each can fail
    while the other two look good.
    """

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self.pace = pace
        self.numbers: dict[str, str] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.current_step = state.global_step
        if state.is_world_process_zero:
            own = type("Line", (_Line,), {"pace": self.pace})  # the bar is drawn before its constructor ends
            self.training_bar = own(
                total=state.max_steps, initial=state.global_step, unit="step", bar_format=FORMAT, dynamic_ncols=True,
                mininterval=0.1 if sys.stderr.isatty() else 30,  # 30 seconds between lines in a file
            )  # fmt: skip
            self._refresh()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs and "loss" in logs:
            self.numbers = {"loss": f"{logs['loss']:.4g}", **{k: v for k, v in self.numbers.items() if k != "loss"}}
            self._refresh()

    def show(self, records: dict[str, Record]) -> None:
        """Shows the latest held-out measurement, or the training batch's if nothing is held out."""
        split = "held_out" if "held_out" in records else "training"
        chosen = records[split]
        if "loss" not in self.numbers:
            self.numbers["loss"] = f"{records.get('training', chosen)['objective']:.4g}"
        self.numbers["held-out gap" if split == "held_out" else "gap"] = f"{chosen['gap']:.3f}"
        reach = int(min(chosen["rows"], chosen["dimension"]))
        self.numbers["rank"] = f"{chosen['effective_rank']:.1f}/{reach}"
        self._refresh()

    def _refresh(self) -> None:
        if self.training_bar is not None:
            self.training_bar.set_postfix_str(", ".join(f"{k} {v}" for k, v in self.numbers.items()), refresh=False)


def close_bars(trainer: Any) -> None:
    """Closes the bar of a stopped run, so that nothing is drawn after its last message."""
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, ProgressBar) and callback.training_bar is not None:
            callback.training_bar.close()
