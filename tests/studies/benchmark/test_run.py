"""What is measured, in which order, and what is not measured because of a limit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hypersphere.studies.benchmark import run
from hypersphere.studies.benchmark.cases import find_case
from hypersphere.studies.benchmark.cells import FAILED, MEASURED, OVER_MEMORY, OVER_TIME, Cells, ratio
from hypersphere.studies.benchmark.run import Benchmark, Moment, Plan
from hypersphere.studies.benchmark.worker import Job

Answer = Callable[[Job], dict[str, Any]]


class Scripted:
    """In place of a process: every turn is answered by a function of the job, and noted."""

    turns: list[tuple[str, int]]
    answer: Answer

    def __init__(self, job: Job, python: str = "") -> None:
        self.job = job

    def ready(self) -> dict[str, Any]:
        return {"ready": True, "version": "1"}

    def turn(self, timeout: float) -> dict[str, Any]:
        Scripted.turns.append((self.job.by, self.job.size))
        return Scripted.answer(self.job)

    def close(self) -> None:
        pass

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    Scripted.turns = []
    monkeypatch.setattr(run, "Worker", Scripted)
    return Scripted.turns


def plan(**changes: Any) -> Plan:
    usual: dict[str, Any] = {"sizes": [64, 128, 256], "repeats": 2, "max_bytes": 1000, "max_seconds": 100.0}
    return Plan(**{"cases": [find_case("infonce")], "dim": 4, "threads": 1, **usual, **changes})


def measure(what: Plan, folder: Path, answer: Answer) -> Cells:
    Scripted.answer = staticmethod(answer)  # type: ignore[assignment]
    cells = Cells(folder, {})
    Benchmark(what, cells).run(lambda moment: None)
    return cells


def quick(job: Job) -> dict[str, Any]:
    return {"seconds": 0.1, "bytes": job.size}


def test_contestants_take_turns_after_a_first_round_that_warms_up(turns: list[Any], tmp_path: Path) -> None:
    cells = measure(plan(sizes=[64]), tmp_path, quick)
    assert [by for by, _ in turns] == ["hypersphere", "limit", "plain"] * 3
    assert {len(cell.rounds) for cell in cells.all()} == {2}


def test_a_finished_benchmark_measures_nothing(turns: list[Any], tmp_path: Path) -> None:
    before = measure(plan(), tmp_path, quick).path.read_bytes()
    turns.clear()
    assert measure(plan(), tmp_path, quick).path.read_bytes() == before
    assert turns == []


def test_an_interrupted_benchmark_goes_on_where_it_was(turns: list[Any], tmp_path: Path) -> None:
    def until_tired(job: Job) -> dict[str, Any]:
        if len(turns) == 5:  # the limit's second turn at the first size
            raise KeyboardInterrupt
        return quick(job)

    with pytest.raises(KeyboardInterrupt):
        measure(plan(sizes=[64]), tmp_path, until_tired)
    done = Cells(tmp_path, {}).get("infonce", "hypersphere", 64).rounds
    assert len(done) == 1
    cells = measure(plan(sizes=[64]), tmp_path, quick)
    assert done.items() <= cells.get("infonce", "hypersphere", 64).rounds.items()
    assert all(len(cell.rounds) >= 2 for cell in cells.all())


def test_a_newcomer_is_measured_beside_ours(turns: list[Any], tmp_path: Path) -> None:
    measure(plan(sizes=[64]), tmp_path, quick)
    turns.clear()
    measure(plan(sizes=[64], pythons={"info-nce-pytorch": "python"}), tmp_path, quick)
    assert {by for by, _ in turns} == {"hypersphere", "info-nce-pytorch"}


def test_a_slow_cell_is_measured_once(turns: list[Any], tmp_path: Path) -> None:
    measure(plan(sizes=[64]), tmp_path, lambda job: {"seconds": 50.0, "bytes": 1})
    assert len(turns) == 3


def test_a_slow_cell_has_a_round_in_common_with_ours(turns: list[Any], tmp_path: Path) -> None:
    def one_slow(job: Job) -> dict[str, Any]:
        return {"seconds": 50.0, "bytes": 1} if job.by == "plain" else quick(job)

    cells = measure(plan(sizes=[64]), tmp_path, one_slow)
    ours, slow = (cells.get("infonce", by, 64) for by in ("hypersphere", "plain"))
    assert [by for by, _ in turns].count("plain") == 1
    assert ratio(ours, slow) == 0.1 / 50


def test_a_cell_beyond_a_limit_is_foreseen_and_reported(turns: list[Any], tmp_path: Path) -> None:
    def cubic(job: Job) -> dict[str, Any]:
        return {"seconds": 0.1, "bytes": job.size**3 // 4000 if job.by == "plain" else 0}

    cells = measure(plan(), tmp_path, cubic)
    cell = cells.get("infonce", "plain", 256)
    assert (cell.status, cell.limit, cell.note) == (OVER_MEMORY, 1000, "not tried")
    assert cell.expected_bytes == pytest.approx(256**3 / 4000, rel=0.05)
    assert ("plain", 256) not in turns
    assert cells.get("infonce", "hypersphere", 256).status == MEASURED


def test_a_cell_that_meets_a_limit_ends_the_larger_ones(turns: list[Any], tmp_path: Path) -> None:
    def late(job: Job) -> dict[str, Any]:
        return {"over": "time"} if job.by == "plain" else quick(job)

    cells = measure(plan(), tmp_path, late)
    plain = cells.of("infonce", "plain")
    assert [cell.status for cell in plain] == [OVER_TIME] * 3
    assert [cell.note for cell in plain] == ["tried", "not tried: see N = 64", "not tried: see N = 64"]
    assert [cell.expected_seconds for cell in plain] == [100.0, 400.0, 1600.0]  # at least: it was stopped at 100


def test_time_is_foreseen_as_a_square_and_the_limit_not_measured_without_ours(turns: list[Any], tmp_path: Path) -> None:
    def square(job: Job) -> dict[str, Any]:
        return {"seconds": (job.size / 1024) ** 2, "bytes": job.size}

    cells = measure(plan(sizes=[1024, 2048, 4096, 16384], max_seconds=10.0, max_bytes=10**6), tmp_path, square)
    assert ("hypersphere", 2048) in turns
    assert not {size for _, size in turns} & {4096, 16384}
    for by in ("hypersphere", "limit", "plain"):
        for size, seconds in ((4096, 16.0), (16384, 256.0)):
            cell = cells.get("infonce", by, size)
            assert (cell.status, cell.limit, cell.rounds) == (OVER_TIME, 10.0, {})
            assert cell.expected_seconds == pytest.approx(seconds)
    assert cells.get("infonce", "plain", 16384).expected_bytes == pytest.approx(16384)


def test_the_time_of_a_small_batch_foretells_nothing(turns: list[Any], tmp_path: Path) -> None:
    cells = measure(plan(sizes=[64, 512], max_seconds=10.0), tmp_path, lambda job: {"seconds": 1.0, "bytes": 1})
    assert {cell.status for cell in cells.all()} == {MEASURED}


def test_limits_are_skipped_where_ours_is_beyond_one(turns: list[Any], tmp_path: Path) -> None:
    def ours_is_slow(job: Job) -> dict[str, Any]:
        return {"seconds": 9.0 if job.by == "hypersphere" else 0.1, "bytes": 1}

    cells = measure(plan(sizes=[1024, 2048], max_seconds=10.0), tmp_path, ours_is_slow)
    assert cells.get("infonce", "limit", 2048).note == "not tried: ours is beyond a limit"
    assert cells.get("infonce", "plain", 2048).status == MEASURED


def test_rounds_are_fewer_the_slower_a_cell_is(turns: list[Any], tmp_path: Path) -> None:
    def by_size(job: Job) -> dict[str, Any]:
        return {"seconds": {64: 0.1, 128: 1.2, 256: 5.0}[job.size] * (0.5 if job.by == "limit" else 1), "bytes": 1}

    cells = measure(plan(repeats=3), tmp_path, by_size)
    assert [len(cell.rounds) for cell in cells.of("infonce", "plain")] == [3, 2, 1]
    # The limit needs another round where ours does not, and ours is beside it.
    shared = [cells.get("infonce", by, 128).rounds.keys() for by in ("limit", "hypersphere")]
    assert len(shared[0] & shared[1]) == len(shared[0])


def test_a_wider_limit_is_another_chance(turns: list[Any], tmp_path: Path) -> None:
    measure(plan(sizes=[64]), tmp_path, lambda job: {"over": "memory"} if job.by == "plain" else quick(job))
    measure(plan(sizes=[64]), tmp_path, quick)
    assert Cells(tmp_path, {}).get("infonce", "plain", 64).status == OVER_MEMORY  # the same limit: nothing new
    measure(plan(sizes=[64], max_bytes=2000), tmp_path, quick)
    assert Cells(tmp_path, {}).get("infonce", "plain", 64).status == MEASURED


def test_a_failure_is_kept_with_its_reason_and_hurts_nobody_else(turns: list[Any], tmp_path: Path) -> None:
    cells = measure(plan(), tmp_path, lambda job: {"failed": "boom"} if job.by == "plain" else quick(job))
    assert {(c.status, c.note) for c in cells.of("infonce", "plain")} == {(FAILED, "boom")}
    assert {c.status for c in cells.of("infonce", "hypersphere")} == {MEASURED}


def test_the_time_left_falls_to_that_of_the_last_cell(turns: list[Any], tmp_path: Path) -> None:
    moments: list[Moment] = []
    Scripted.answer = staticmethod(quick)  # type: ignore[assignment]
    Benchmark(plan(max_bytes=10**9), Cells(tmp_path, {})).run(moments.append)
    assert moments[0].done == 0
    assert moments[-1].done == moments[-1].cells - 1 == 8
    assert 0 < moments[-1].left < moments[0].left
