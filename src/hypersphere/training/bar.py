"""The progress bar of a run that is watched."""

from __future__ import annotations

import sys
from typing import Any

from tqdm.auto import tqdm
from transformers import ProgressCallback

from hypersphere.training.journal import Record
from hypersphere.training.pace import Pace

FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{left}, {rate_fmt}{postfix}]"


class _Line(tqdm):  # type: ignore[misc]
    """A bar whose speed is that of the steps, and whose time left counts what comes between them too."""

    pace: Pace

    @property
    def format_dict(self) -> dict[str, Any]:
        shown: dict[str, Any] = dict(super().format_dict)
        left = self.pace.left(int(self.n), int(self.total))
        shown["left"] = "?" if left is None else self.format_interval(round(left))
        shown["rate"] = 1 / self.pace.step_seconds if self.pace.step_seconds > 0 else None
        return shown


class Bar(ProgressCallback):
    """Progress, speed, time left, and the three numbers that matter.

    The loss: does it learn. The held-out gap d_ij: does it separate what it has never seen, neither too little nor too
    much (quality has a peak in it, Nie et al. 2023, Fig. 3). The effective rank: has it collapsed. Each can fail while
    the other two look well.
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
                mininterval=0.1 if sys.stderr.isatty() else 30,  # seconds between the lines that a file gets
            )  # fmt: skip
            self._refresh()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs and "loss" in logs:
            self.numbers = {"loss": f"{logs['loss']:.4g}", **{k: v for k, v in self.numbers.items() if k != "loss"}}
            self._refresh()

    def show(self, records: dict[str, Record]) -> None:
        """The numbers of the latest measurement; of the training batch where nothing is held out."""
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
    """Closes the bar of a run that was stopped, so that nothing is drawn after its last sentence."""
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, Bar) and callback.training_bar is not None:
            callback.training_bar.close()
