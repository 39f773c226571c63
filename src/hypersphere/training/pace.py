"""The time a run has left: its steps, and what comes between steps, each timed by itself."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

RECENT = 50  # steps whose median stands for those to come


class Pace:
    """Times steps apart from evaluations, measurements and checkpoints, so that none of these counts as a step.

    ``expect(kind, to_come)`` gives a function of the step and the last step: how often that kind is still to come.
    ``aside(kind)`` is the context in which it happens. Inside another one it is part of that.
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
        """``call``, aside."""

        def within(*args: Any, **kwargs: Any) -> Any:
            with self.aside(kind):
                return call(*args, **kwargs)

        return within

    def step_began(self) -> None:
        if self._since is None:  # what went before the first step belongs to none
            self._since, self._between = time.perf_counter(), 0.0

    def step_ended(self) -> None:
        now = time.perf_counter()
        if self._since is not None:
            self._steps.append(now - self._since - self._between)
        self._since, self._between = now, 0.0

    @property
    def step_seconds(self) -> float:
        """Of a step, with all that belongs to it; 0 before the first."""
        return statistics.median(self._steps) if self._steps else 0.0

    def left(self, step: int, most: int) -> float | None:
        """Seconds from a step to the end of the run; None before the first step. What was never timed is left out."""
        if not self._steps:
            return None
        aside = sum(
            to_come(step, most) * statistics.fmean(self._spent[kind])
            for kind, to_come in self._kinds.items()
            if kind in self._spent
        )
        return (most - step) * self.step_seconds + aside
