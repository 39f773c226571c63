"""Times are taken in turns, and the peak of an action is its own."""

from __future__ import annotations

import sys
import time

import pytest
import torch

from hypersphere.studies.benchmark.measures import fastest, free_memory, in_turns, machine, peak_above, typical


def test_actions_take_turns_after_a_round_that_is_not_timed() -> None:
    called = []
    times = in_turns({"a": lambda: called.append("a"), "b": lambda: called.append("b")}, repeats=3)
    assert "".join(called) == "abababab"
    assert [len(each) for each in times.values()] == [3, 3]


def test_a_second_of_work_needs_no_round_to_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def action() -> None:
        clock[0] += 2.0

    assert in_turns({"slow": action}, repeats=2) == {"slow": [2.0, 2.0]}


def test_the_fastest_and_the_typical_round() -> None:
    times = {"a": [3.0, 1.0, 2.0, 9.0], "b": [5.0]}
    assert fastest(times) == {"a": 1.0, "b": 5.0}
    assert typical(times) == {"a": 2.5, "b": 5.0}


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's account of a process")
def test_the_peak_counts_what_was_freed_again_and_not_what_was_there_before() -> None:
    before = torch.ones(30_000_000)  # 120 MB
    peak = peak_above(lambda: float(torch.ones(20_000_000).sum()))  # 80 MB
    assert len(before) and 75e6 < peak < 115e6
    memory = free_memory()
    assert memory is not None and memory > 1e6


def test_the_machine_names_what_timings_depend_on() -> None:
    about = machine(threads=3)
    assert about["threads"] == 3 and about["torch"] == torch.__version__ and about["processor"]
