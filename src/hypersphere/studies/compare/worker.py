"""A worker: takes cells from the queue, runs some side by side, and decides when the study is over."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypersphere.studies.compare import process
from hypersphere.studies.compare.cells import Cell, Plan, unique
from hypersphere.studies.compare.choice import choose, tuned
from hypersphere.studies.compare.queue import Attempt, Heartbeats, Queue
from hypersphere.studies.compare.scores import validation_score

TICK = 0.1  # seconds between two looks at the processes, if none ends before
LOOK = 2.0  # seconds between two looks at the other workers' results, at least
REST = 20  # times as long as a look takes, until the next one: a long queue is not read all the time
AHEAD = 16  # cells put into the queue at a time: all that wait there are read with every look
PATIENCE = 60.0  # seconds a cell has to save when the study is interrupted


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Progress:
    """The progress of a study, for display."""

    cells: dict[str, Cell]
    attempts: dict[str, Attempt]
    running: dict[str, float]  # cells of this worker → seconds so far
    total: int
    jobs: int

    @property
    def ended(self) -> int:
        return sum(self.attempts[cell].state in ("done", "failed") for cell in self.cells if cell in self.attempts)

    @property
    def seconds_left(self) -> float | None:
        """Estimated from the mean time of the finished cells; None before the first."""
        times = [
            float(attempt.result["seconds"])
            for cell, attempt in self.attempts.items()
            if cell in self.cells and attempt.result and attempt.result.get("steps")
        ]
        if not times:
            return None
        busy = sum(attempt.state == "running" for attempt in self.attempts.values())
        return sum(times) / len(times) * (self.total - self.ended) / max(1, self.jobs, busy)


class Worker:
    """Runs cells of a plan until none is left.

    jobs, threads: the number of cells side by side, and the threads of each.
    classes: objectives that exist in this process only, by name.
    known: results of an earlier round, by cell.
    show: called with the progress whenever something has changed; on_end: with each cell that has ended.
    """

    def __init__(
        self,
        plan: Plan,
        queue: Queue,
        folder: Path,
        *,
        jobs: int,
        threads: int,
        classes: Mapping[str, Any] | None = None,
        known: Mapping[str, dict[str, Any]] | None = None,
        show: Callable[[Progress], None] = lambda progress: None,
        on_end: Callable[[Cell, Attempt], None] = lambda cell, attempt: None,
    ) -> None:
        self.plan, self.queue, self.folder = plan, queue, folder
        self.jobs, self.threads, self.classes = jobs, threads, dict(classes or {})
        self.known = dict(known or {})
        self.show, self.on_end = show, on_end
        self.cells = {cell.id: cell for cell in plan.begin}
        self.later: list[Cell] = []  # not yet in the queue, or put there by another worker
        self.running: list[process.Running] = []
        self._told: set[str] = set()
        self.repeated = 0  # trials that a later stage shares with an earlier one: they run once

    def run(self, again: bool = False) -> dict[str, Attempt]:
        """Works until every cell has ended, here or elsewhere; returns all attempts. ``again``: failed cells too."""
        beats = Heartbeats(self.queue)
        try:
            self.queue.revive()
            self._plan(self.cells.values())
            attempts = self._advance(again)
            next_look = time.monotonic() + LOOK
            while not self._over(attempts):
                self._check_untrained(attempts)
                changed = self._collect(beats)
                changed |= self._fill(beats, again)
                if changed or time.monotonic() > next_look:
                    began = time.monotonic()
                    if not changed:
                        self.queue.revive()
                    attempts = self._advance(again)
                    self.show(self.progress(attempts))
                    ended = time.monotonic()
                    next_look = ended + max(LOOK, REST * (ended - began))
                process.wait_for_end(self.running, TICK)
            self._check_untrained(attempts)
            return attempts
        except BaseException:
            self._interrupt()
            raise
        finally:
            beats.stop()

    def progress(self, attempts: dict[str, Attempt]) -> Progress:
        running = {each.cell: each.seconds for each in self.running}
        return Progress(self.cells, attempts, running, self.plan.count() - self.repeated, self.jobs)

    def _over(self, attempts: dict[str, Attempt]) -> bool:
        ended = all(cell in attempts and attempts[cell].state in ("done", "failed") for cell in self.cells)
        return ended and not self.running

    def _check_untrained(self, attempts: dict[str, Attempt]) -> None:
        """Stops a study whose untrained encoder cannot be scored: nothing else would run either."""
        known = [attempts.get(cell.id) for cell in self.plan.untrained]
        if all(attempt is not None and attempt.state == "failed" for attempt in known):
            reason = known[0].reason  # type: ignore[union-attr]
            raise ValueError(f"the encoder cannot be scored as it was given: {reason}; --retry tries again")

    def _advance(self, again: bool) -> dict[str, Attempt]:
        """Plans the next stage of every objective whose stage is over, and the test runs of every objective whose
        tuning is over. Returns the attempts so far."""
        attempts = self.queue.attempts()
        known = [cell for objective in self.plan.study.objectives for cell in tuned(self.plan, objective, attempts)]
        known += [cell for objective, best in choose(self.plan, attempts) for cell in self.plan.test(objective, best)]
        self.repeated = len(known) - len(unique(known))
        fresh = [cell for cell in known if cell.id not in self.cells]
        if fresh:
            self.cells |= {cell.id: cell for cell in fresh}
            if self._plan(fresh):
                attempts = self.queue.attempts()
        for cell_id, attempt in attempts.items():
            if cell_id in self.cells and cell_id not in self._told and attempt.state in ("done", "failed"):
                self._told.add(cell_id)
                self.on_end(self.cells[cell_id], attempt)
        return attempts

    def _plan(self, cells: Iterable[Cell]) -> int:
        """Keeps cells for later. Those that an earlier round has finished end at once; returns their number."""
        cells = unique(cells)
        self.later += cells
        if not self.known:
            return 0
        return self.queue.adopt(self.known, cells, lambda result: validation_score(result, self.plan.metric))

    def _enqueue(self, again: bool) -> bool:
        """Puts the next cells that are not there into the queue, a few at a time; False if there is none."""
        while self.later:
            first, self.later = self.later[:AHEAD], self.later[AHEAD:]
            if self.queue.enqueue(first, again):
                return True
        return False

    def _fill(self, beats: Heartbeats, again: bool) -> bool:
        changed = False
        while len(self.running) < self.jobs:
            claimed = self.queue.claim(self.cells)
            if claimed is None:
                if self._enqueue(again):
                    continue
                return changed
            trial, cell_id = claimed
            beats.trials.add(trial)
            cell = self.cells[cell_id]
            own = self.classes.get(str(cell.recipe.objective["name"]))
            folder = self.folder / "runs" / cell_id
            self.running.append(process.start(trial, cell_id, cell.recipe, folder, self.threads, own))
            changed = True
        return changed

    def _collect(self, beats: Heartbeats) -> bool:
        over = [each for each in self.running if not each.alive]
        for each in over:
            self.running.remove(each)
            beats.trials.discard(each.trial)
            self._record(each)
        return bool(over)

    def _record(self, each: process.Running) -> None:
        result = process.result_of(each.folder) if each.process.exitcode == 0 else None
        if result is None:
            self.queue.fail(each.trial, each.reason())
            return
        score = validation_score(result, self.plan.metric)
        if score is None:
            self.queue.fail(each.trial, "its score is not a number", result)
        else:
            self.queue.finish(each.trial, score, result)
        process.tidy(each.folder, self.plan.study.keep_models)

    def _interrupt(self) -> None:
        """Lets the running cells save, and returns them to the queue."""
        for each in self.running:
            each.stop()
        until = time.monotonic() + PATIENCE
        for each in self.running:
            each.process.join(max(0.0, until - time.monotonic()))
            if each.alive:
                each.process.kill()
        for each in self.running:
            try:
                self.queue.give_back(each.trial)
            except Exception:  # the storage may have failed; the end of the heartbeat also returns the cell
                continue
