"""A worker measures one cell in a process of its own, within its limit."""

from __future__ import annotations

from hypersphere.studies.benchmark.worker import Job, Worker, peak_bytes


def test_a_worker_measures_time_and_memory_within_its_limit() -> None:
    assert (peak_bytes("infonce", "plain", 512, 8, threads=1) or 0) > 4 * 512**2
    assert peak_bytes("infonce", "plain", 4096, 8, threads=1, max_bytes=2**20) is None


def test_a_worker_that_fails_says_why() -> None:
    with Worker(Job("infonce", "nobody", 16, 8, 1, 2**40)) as worker:
        assert worker.ready() == {"failed": "KeyError: 'nobody'"}
    with Worker(Job("infonce", "hypersphere", 16, 8, 1, 2**40), python="/bin/false") as worker:
        assert worker.ready() == {"failed": "its process ended with code 1"}
