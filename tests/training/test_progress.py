"""The progress bar and the time left."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from hypersphere.training.monitor import multiples
from hypersphere.training.progress import Pace, ProgressBar
from tests.training.two_views import trainer_of, watched


def test_the_bar_shows_three_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainer = trainer_of(tmp_path, 10, save_strategy="no", disable_tqdm=False)
    monitor = watched(trainer, None, echo=lambda words: None)
    assert sum(isinstance(callback, ProgressBar) for callback in trainer.callback_handler.callbacks) == 1
    trainer.train()
    assert monitor.bar is not None
    assert list(monitor.bar.numbers) == ["loss", "held-out gap", "rank"]
    assert monitor.bar.numbers["rank"].endswith("/8")
    shown = capsys.readouterr()
    assert "held-out gap" in shown.err
    assert "10/10" in shown.err
    assert "{" not in shown.out  # no dictionaries between the lines


def test_an_evaluation_is_no_step_and_those_to_come_are_in_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 2 s, an evaluation of 100 s every 10 of 40 steps, a checkpoint of 5 s at the end, a slow first step."""
    clock = [0.0]
    monkeypatch.setattr("hypersphere.training.progress.time.perf_counter", lambda: clock[0])
    pace = Pace()
    pace.expect("evaluation", lambda step, most: multiples(step, most, 10))
    pace.expect("checkpoint", lambda step, most: multiples(step, most, 100))  # never timed: nobody knows
    with pace.aside("evaluation"):
        clock[0] += 100
    clock[0] += 50  # something else before the first step
    assert pace.left(0, 40) is None
    for step in range(1, 26):
        pace.step_began()
        clock[0] += 2 if step > 1 else 30
        pace.step_ended()
        if step % 10 == 0:
            with pace.aside("evaluation"):
                clock[0] += 60
                with pace.aside("measurement"):  # part of what goes on
                    clock[0] += 40
        if step in (9, 10, 25):
            assert pace.step_seconds == 2
            assert pace.left(step, 40) == 2 * (40 - step) + 100 * {9: 4, 10: 3, 25: 2}[step]
    bar = ProgressBar(pace)
    bar.on_train_begin(None, SimpleNamespace(global_step=25, max_steps=40, is_world_process_zero=True), None)
    assert bar.training_bar is not None
    shown = str(bar.training_bar)
    assert "25/40" in shown and "<03:50, " in shown and "2.00s/step" in shown
    bar.training_bar.close()
