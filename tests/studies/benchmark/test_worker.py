"""A worker measures one cell in a process of its own, within its limit."""

from __future__ import annotations

import pytest
from torch import Tensor

from hypersphere.studies.benchmark import worker as in_the_process
from hypersphere.studies.benchmark.cases import OURS
from hypersphere.studies.benchmark.worker import Job, Worker, loss_of, out_of_memory, peak_bytes, prepared, seconds_of


def test_a_worker_measures_time_and_memory_within_its_limit() -> None:
    assert (peak_bytes("infonce", "plain", 512, 8, threads=1) or 0) > 4 * 512**2
    assert peak_bytes("infonce", "plain", 4096, 8, threads=1, max_bytes=2**20) is None


def test_a_worker_that_fails_says_why() -> None:
    with Worker(Job("infonce", "nobody", 16, 8, 1, 2**40)) as worker:
        assert worker.ready() == {"failed": "KeyError: 'nobody'"}
    with Worker(Job("infonce", "hypersphere", 16, 8, 1, 2**40), python="/bin/false") as worker:
        assert worker.ready() == {"failed": "its process ended with code 1"}


@pytest.mark.parametrize("surplus", [0.0, 0.5])
def test_a_contestant_that_computes_another_value_takes_no_part(
    surplus: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_version(z1: Tensor, z2: Tensor, labels: Tensor) -> Tensor:
        return loss_of("infonce", OURS, 4)(z1, z2, labels) + surplus

    monkeypatch.setattr(in_the_process, "peer_loss", lambda by, label: other_version)
    if surplus:
        with pytest.raises(ValueError, match=r"lightly finds [\d.]+ where hypersphere finds [\d.]+"):
            prepared("infonce", "lightly", 8, 4)
    else:
        (action,) = prepared("infonce", "lightly", 8, 4)
        action()


def test_a_short_step_is_repeated_and_its_fastest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now, steps = [0.0], iter([0.02, 0.01, 0.03, 9.0])
    monkeypatch.setattr(in_the_process.time, "perf_counter", lambda: now[0])

    def action() -> None:
        now[0] += next(steps)

    assert seconds_of(action) == pytest.approx(0.01)
    assert next(steps) == 9.0  # after 0.05 s


def test_an_error_of_memory_is_recognised_by_kind_or_by_words() -> None:
    assert out_of_memory(MemoryError())
    assert out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"))
    assert not out_of_memory(RuntimeError("sizes do not fit"))
