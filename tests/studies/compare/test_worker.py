"""A worker: how long a study still takes, and what it makes of a process that has ended."""

from types import SimpleNamespace

import pytest

from hypersphere.studies.compare import process
from hypersphere.studies.compare import worker as module
from hypersphere.studies.compare.queue import Attempt
from hypersphere.studies.compare.worker import Progress, Worker
from tests.studies.compare.plans import plan


def attempt(state, seconds=None, steps=6):
    return Attempt(1, state, "", None if seconds is None else {"seconds": seconds, "steps": steps})


def test_the_time_left_is_that_of_the_runs_left_at_the_mean_of_the_ended_ones():
    attempts = {"a": attempt("done", 2.0), "b": attempt("done", 6.0), "c": attempt("running"), "d": attempt("failed"),
                "e": attempt("done", 0.1, steps=0), "elsewhere": attempt("done", 1000.0)}  # fmt: skip
    progress = Progress(dict.fromkeys("abcdef"), attempts, {}, total=20, jobs=2)
    assert progress.ended == 4  # of the cells that are known
    assert progress.seconds_left == (20 - 4) * 4.0 / 2  # the untrained encoder takes no time
    assert Progress(dict.fromkeys("abcdef"), attempts, {}, total=20, jobs=1).seconds_left == 64.0
    assert Progress({"c": None}, attempts, {}, total=20, jobs=2).seconds_left is None


class Written:
    """A queue that keeps what a worker says."""

    def __init__(self):
        self.said = []

    def fail(self, trial, reason, result=None):
        self.said.append(("fail", reason))

    def finish(self, trial, score, result):
        self.said.append(("finish", score))


@pytest.mark.parametrize(
    "code, result, said",
    [
        (0, {"history": {"6": {"knn": 70.0}}, "best_step": 6}, ("finish", 70.0)),
        (0, {"history": {"6": {"knn": float("nan")}}, "best_step": 6}, ("fail", "its score is not a number")),
        (0, None, ("fail", "the process ended with exit code 0")),
        (1, {"history": {}, "best_step": None}, ("fail", "the process ended with exit code 1")),  # of an earlier start
    ],
)
def test_a_run_counts_if_its_process_ended_well_and_its_score_is_a_number(code, result, said, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "result_of", lambda folder: result)
    queue = Written()
    worker = Worker(plan(), queue, tmp_path, jobs=1, threads=1)
    worker._record(process.Running(1, "a", tmp_path / "a", SimpleNamespace(exitcode=code)))
    assert queue.said == [said]


def test_a_study_stops_only_if_the_untrained_encoder_failed_with_every_seed(tmp_path):
    made = plan()
    worker = Worker(made, Written(), tmp_path, jobs=1, threads=1)
    first, second = (cell.id for cell in made.untrained)
    worker._check_untrained({first: attempt("failed")})
    worker._check_untrained({first: attempt("failed"), second: attempt("done", 1.0)})
    with pytest.raises(ValueError, match="cannot be scored as it was given: no labels; --retry tries again"):
        worker._check_untrained({first: Attempt(1, "failed", "no labels", None), second: attempt("failed")})


class Elsewhere:
    """A queue whose cells all run elsewhere for 100 seconds of its own clock. To read it takes one of them."""

    def __init__(self):
        self.readings, self.now = 0, 0.0

    def wait(self, running, seconds):
        self.now += seconds

    def attempts(self):
        self.readings += 1
        self.now += 1.0
        state = "done" if self.now > 100 else "running"
        return {cell.id: Attempt(1, state, "", {"history": {}, "best_step": None}) for cell in plan().begin}

    claim = revive = lambda self, *given: None


def test_a_queue_that_is_slow_to_read_is_read_a_twentieth_of_the_time(tmp_path, monkeypatch):
    queue = Elsewhere()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: queue.now))
    monkeypatch.setattr(process, "wait_for_end", queue.wait)
    monkeypatch.setattr(module, "choose", lambda *given: [])
    monkeypatch.setattr(module, "tuned", lambda *given: [])
    Worker(plan(), queue, tmp_path, jobs=0, threads=1).run()
    assert queue.readings == 7  # at the start, after two seconds, then every 21 seconds


class Counted:
    """A queue of which nothing is taken."""

    def __init__(self):
        self.waiting = []

    def enqueue(self, cells, again=False):
        fresh = [cell for cell in cells if cell.id not in self.waiting]
        self.waiting += [cell.id for cell in fresh]
        return len(fresh)


def test_cells_reach_the_queue_a_few_at_a_time_and_those_of_another_worker_are_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "AHEAD", 2)
    queue, cells = Counted(), plan().begin
    queue.waiting = [cell.id for cell in cells[:3]]  # another worker's
    worker = Worker(plan(), queue, tmp_path, jobs=1, threads=1)
    worker._plan(cells)
    assert worker._enqueue(again=False) and queue.waiting == [cell.id for cell in cells[:4]]
    while worker._enqueue(again=False):
        pass
    assert sorted(queue.waiting) == sorted({cell.id for cell in cells})
