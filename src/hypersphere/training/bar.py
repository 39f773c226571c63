"""The progress bar of a run that is watched."""

from __future__ import annotations

import sys
from typing import Any

from transformers import ProgressCallback

from hypersphere.training.journal import Record


class Bar(ProgressCallback):
    """Transformers' progress bar (speed, time left) with the three numbers that matter.

    The loss: does it learn. The held-out gap d_ij: does it separate what it has never seen, neither too little nor too
    much (quality has a peak in it, Nie et al. 2023, Fig. 3). The effective rank: has it collapsed. Each can fail while
    the other two look well.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[str, str] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        super().on_train_begin(args, state, control, **kwargs)  # type: ignore[no-untyped-call]
        self.current_step = state.global_step
        if self.training_bar is not None:  # the time left of a resumed run is that of its own steps
            self.training_bar.initial = self.training_bar.n = state.global_step
            if not sys.stderr.isatty():
                self.training_bar.mininterval = 30  # seconds between the lines that a file gets
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
