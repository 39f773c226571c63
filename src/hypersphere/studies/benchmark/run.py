"""The benchmark of all objectives over all sizes: in turns, one process per cell, resumable."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hypersphere.studies.benchmark.cases import LIMIT, OURS, PLAIN, Case
from hypersphere.studies.benchmark.cells import FAILED, MEASURED, OVER_MEMORY, OVER_TIME, Cell, Cells, expected
from hypersphere.studies.benchmark.limits import work
from hypersphere.studies.benchmark.peers import peers_of
from hypersphere.studies.benchmark.worker import SHORT, Job, Worker

ENOUGH = 2.0  # seconds: a cell whose rounds add up to this needs no more of them
WARM = 1.0  # seconds: the first turn of a quicker cell only warms up
STARTING, RATE = 1.5, 4e10  # guesses for the remaining time: seconds to start a worker, operations per second
GRACE = 1.0  # seconds a turn may last beyond the limit
TELLING = 1024  # the time of smaller batches is mostly overhead and does not predict larger ones


@dataclass(frozen=True)
class Plan:
    """The cases, contestants and sizes to measure. ``pythons``: the peers that take part, with the interpreter of each;
    ``imports``: files that register the user's own objectives."""

    cases: Sequence[Case]
    sizes: Sequence[int]
    dim: int
    threads: int
    repeats: int
    max_bytes: int
    max_seconds: float
    pythons: Mapping[str, str] = field(default_factory=dict)
    imports: tuple[str, ...] = ()

    @cached_property
    def contestants(self) -> dict[str, list[str]]:
        """The contestants of each case: ours first, then the limit, the plain form and the peers, if there are any."""
        contestants = {}
        for case in self.cases:
            limit = [LIMIT] if work(case.create(self.dim), self.dim).products else []
            plain = [PLAIN] if case.plain else []
            contestants[case.label] = [OURS, *limit, *plain, *(p for p in peers_of(case.label) if p in self.pythons)]
        return contestants

    def groups(self) -> Iterator[tuple[str, int]]:
        """Small sizes of all cases first, so that the cost of larger ones can be predicted."""
        for size in sorted(self.sizes):
            for case in self.cases:
                yield case.label, size


@dataclass(frozen=True)
class Moment:
    """The progress of a benchmark."""

    objective: str
    by: str
    size: int
    done: int  # cells
    cells: int
    spent: float  # seconds
    left: float


class Benchmark:
    """Measures the missing cells of a plan."""

    def __init__(self, plan: Plan, cells: Cells) -> None:
        self.plan, self.cells = plan, cells
        self._began = time.time()
        self._round = 0

    def pending(self, label: str, size: int) -> list[str]:
        return [by for by in self.plan.contestants[label] if not self._done(self.cells.get(label, by, size))]

    def _limit(self, status: str) -> float:
        return self.plan.max_bytes if status == OVER_MEMORY else self.plan.max_seconds

    def _done(self, cell: Cell) -> bool:
        if cell.status in (OVER_MEMORY, OVER_TIME):  # worth another try under a wider limit
            return cell.limit is not None and cell.limit >= self._limit(cell.status)
        return cell.status == MEASURED and self._missing(cell) == 0

    def _missing(self, cell: Cell) -> int:
        """Number of rounds that a cell still needs; a slower cell needs fewer."""
        if sum(cell.rounds.values()) >= ENOUGH:
            return 0
        return max(self.plan.repeats - len(cell.rounds), 0)

    def run(self, report: Callable[[Moment], None]) -> None:
        for label, size in self.plan.groups():
            if self.pending(label, size):
                self._measure(label, size, report)

    def _measure(self, label: str, size: int, report: Callable[[Moment], None]) -> None:
        """Measures one objective at one size: all missing contestants in turns, with ours beside them."""
        trying = []
        for by in self.pending(label, size):
            beyond = self._beyond(label, by, size)
            if beyond is None:
                trying.append(by)
            else:
                self.cells.keep(beyond)
        if trying and OURS not in trying and self.cells.get(label, OURS, size).status == MEASURED:
            trying.insert(0, OURS)
        with ExitStack() as stack:
            workers = {by: stack.enter_context(self._worker(label, by, size)) for by in trying}
            for by in trying:
                report(self._moment(label, by, size))
                answer = workers[by].ready()
                if "ready" in answer:
                    cell = self.cells.get(label, by, size)
                    # Noted here, written to disk by its first turn; a cell beyond a limit starts anew.
                    fresh = cell if cell.status == MEASURED else Cell(label, by, size)
                    self.cells.note(replace(fresh, version=answer["version"]))
                else:
                    self._drop(workers, label, by, size, answer)
            self._rounds(workers, label, size, report)

    def _rounds(self, workers: dict[str, Worker], label: str, size: int, report: Callable[[Moment], None]) -> None:
        warming = True
        while missing := [by for by in workers if warming or self._missing(self.cells.get(label, by, size))]:
            self._round += 1
            name = f"{self._began:.0f}.{self._round}"
            order = dict.fromkeys([*(each for each in workers if each == OURS), *missing])  # ours beside all others
            counted = []
            for by in order:
                report(self._moment(label, by, size))
                if self._turn(workers, label, by, size, name, WARM if warming else 0):
                    counted.append(by)
            if counted and OURS in workers and OURS not in counted:  # this may be the only round of slow contestants
                self._turn(workers, label, OURS, size, name, 0)
            warming = False

    def _turn(self, workers: dict[str, Worker], label: str, by: str, size: int, name: str, least: float) -> bool:
        """Takes one turn in the named round. Returns whether it counts: it must last at least ``least`` seconds."""
        answer = workers[by].turn(self.plan.max_seconds + GRACE)
        if "seconds" not in answer:
            self._drop(workers, label, by, size, answer)
            return False
        cell, counts = self.cells.get(label, by, size), bool(answer["seconds"] >= least)
        rounds = {**cell.rounds, **({name: answer["seconds"]} if counts else {})}
        self.cells.keep(replace(cell, rounds=rounds, bytes=answer.get("bytes", cell.bytes)))
        return counts

    def _worker(self, label: str, by: str, size: int) -> Worker:
        plan = self.plan
        job = Job(label, by, size, plan.dim, plan.threads, plan.max_bytes)
        if by in plan.pythons:  # a peer does not need the user's files, and may lack their imports
            return Worker(job, plan.pythons[by])
        return Worker(replace(job, imports=plan.imports))

    def _drop(self, workers: dict[str, Worker], label: str, by: str, size: int, answer: Mapping[str, Any]) -> None:
        """Records a cell that could not be measured, with the reason."""
        workers.pop(by).close()
        if "over" in answer:
            self.cells.keep(
                self._over(OVER_MEMORY if answer["over"] == "memory" else OVER_TIME, label, by, size, "tried")
            )
        else:
            self.cells.keep(Cell(label, by, size, status=FAILED, note=answer["failed"]))

    def _beyond(self, label: str, by: str, size: int) -> Cell | None:
        """The cell as beyond a limit, if smaller sizes predict it or if ours is missing for comparison; else None."""
        for cell in self.cells.of(label, by):
            if cell.size < size and cell.status in (OVER_MEMORY, OVER_TIME) and self._done(cell):
                return self._over(cell.status, label, by, size, f"not tried: see N = {cell.size}")
        ours = self.cells.get(label, OURS, size).status
        if by == LIMIT and ours in (OVER_MEMORY, OVER_TIME):
            return self._over(ours, label, by, size, "not tried: ours is beyond a limit")
        seconds, memory = self._foreseen(label, by, size)
        for status, foreseen in ((OVER_MEMORY, memory), (OVER_TIME, seconds)):
            if foreseen is not None and foreseen > self._limit(status):
                return self._over(status, label, by, size, "not tried")
        return None

    def _foreseen(self, label: str, by: str, size: int) -> tuple[float | None, float | None]:
        """Seconds and bytes, if smaller sizes predict them reliably; limits are enforced, so a miss costs little."""
        smaller = [cell for cell in self.cells.of(label, by) if cell.size < size]
        seconds = [(c.size, c.seconds) for c in smaller if c.seconds is not None]
        memory = [(c.size, c.bytes) for c in smaller if c.bytes is not None]
        tells = seconds and seconds[-1][0] >= TELLING
        return expected(seconds, size, most=2.0) if tells else None, expected(memory, size, alone=1.0)

    def _over(self, status: str, label: str, by: str, size: int, note: str) -> Cell:
        """A cell beyond a limit, with its time and memory estimated from smaller sizes, measured or estimated."""
        smaller = [cell for cell in self.cells.of(label, by) if cell.size < size]
        times = [(c.size, taken) for c in smaller if (taken := c.seconds or c.expected_seconds)]
        sizes = [(c.size, taken) for c in smaller if (taken := c.bytes or c.expected_bytes)]
        seconds = expected(times, size, most=2.0, reach=math.inf)
        memory = expected(sizes, size, alone=1.0, reach=math.inf)
        if note == "tried" and status == OVER_TIME:  # it takes more than the limit, whatever smaller sizes predict
            seconds = max(seconds or 0, self.plan.max_seconds)
        elif note == "tried":
            memory = max(memory or 0, self.plan.max_bytes)
        cell = Cell(label, by, size, status=status, limit=self._limit(status), note=note)
        return replace(cell, expected_seconds=seconds, expected_bytes=memory)

    def _moment(self, label: str, by: str, size: int) -> Moment:
        groups = list(self.plan.groups())
        total = sum(len(self.plan.contestants[each]) for each, _ in groups)
        open_cells = [(each, other, n) for each, n in groups for other in self.pending(each, n)]
        left = sum(self._cost(*cell) for cell in open_cells)
        return Moment(label, by, size, total - len(open_cells), total, time.time() - self._began, left)

    def _cost(self, label: str, by: str, size: int) -> float:
        """Rough estimate of the seconds that a cell takes."""
        if by not in (OURS, LIMIT) and 12 * size**2 > self.plan.max_bytes:
            return 0.0
        known = [(c.size, c.seconds) for c in self.cells.of(label, by) if c.seconds is not None]
        once = expected(known, size, most=2.0, reach=math.inf) or 1e-3 + 6 * size**2 * self.plan.dim / RATE
        if once > self.plan.max_seconds:
            return 0.0
        missing = min(self._missing(self.cells.get(label, by, size)), math.ceil(ENOUGH / once))
        return STARTING + (max(missing, 1) if once >= WARM else 1 + missing) * max(once, SHORT)
