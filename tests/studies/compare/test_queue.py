"""Cells in a storage: each is taken by one worker, and ends once, whatever happens to the workers."""

import gc
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from optuna.trial import TrialState

from hypersphere.studies.compare import queue as queues
from hypersphere.studies.compare.cells import Cell
from hypersphere.studies.compare.queue import Queue, StorageError

DEFINITION = {"recipe": {"batch": {"size": 64}}}


def cells(count):
    return [Cell(f"id{k}", "tuning", "ntxent", k, 0, {"optimizer.lr": 0.1 * (k + 1)}, None) for k in range(count)]


@pytest.fixture
def connect(storage):
    """Workers of one study."""
    queues = []

    def make(definition=DEFINITION):
        queues.append(Queue(storage, "study", definition, echo=lambda words: None))
        return queues[-1]

    yield make
    for queue in queues:
        queue.close()


def names(count):
    return {cell.id for cell in cells(count)}


def test_a_cell_is_enqueued_once_and_ends_with_its_result(connect):
    queue = connect()
    assert queue.enqueue(cells(2)) == 2
    assert queue.enqueue(cells(3)) == 1
    trial, cell = queue.claim(names(3))
    assert cell == "id0"
    queue.finish(trial, 91.5, {"scores": {"knn": 91.5}})
    attempts = connect().attempts()  # as another worker sees it
    assert attempts["id0"].state == "done" and attempts["id0"].result == {"scores": {"knn": 91.5}}
    assert attempts["id1"].state == "waiting"


def test_a_worker_takes_only_cells_it_knows(connect):
    queue = connect()
    queue.enqueue(cells(3))
    assert queue.claim({"id2"})[1] == "id2"
    assert queue.claim({"id2"}) is None


def test_many_workers_at_once_run_every_cell_exactly_once(connect):
    """Four workers enqueue the same cells at the same moment and take them."""
    taken, barrier = [], threading.Barrier(4)

    def work():
        queue = connect()
        barrier.wait()
        queue.enqueue(cells(6))
        while (claimed := queue.claim(names(6))) is not None:
            taken.append(claimed[1])
            queue.finish(claimed[0], 1.0, {"scores": {}})
        queue.storage.remove_session()  # of this thread

    connect()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(taken) == {f"id{k}": 1 for k in range(6)}
    assert {attempt.state for attempt in connect().attempts().values()} == {"done"}


def test_the_cell_of_a_process_that_is_gone_is_given_back_at_once(connect):
    queue = connect()
    queue.enqueue(cells(1))
    trial, _ = queue.claim(names(1))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    queue.storage.set_trial_user_attr(trial, "worker", f"{socket.gethostname()} {gone.pid}")
    other = connect()
    assert other.revive() == 1 and other.revive() == 0
    assert other.claim(names(1))[1] == "id0"


def test_a_cell_without_a_heartbeat_is_given_to_another_worker(connect, monkeypatch):
    monkeypatch.setattr(queues, "HEARTBEAT", 1)
    monkeypatch.setattr(queues, "GRACE", 2)
    queue = connect()
    queue.enqueue(cells(2))
    dead, alive = queue.claim(names(2))[0], queue.claim(names(2))[0]
    for trial in (dead, alive):
        queue.storage.set_trial_user_attr(trial, "worker", "another machine 1")
    until = time.monotonic() + 3.5
    while time.monotonic() < until:
        queue.beat(alive)
        time.sleep(0.5)
    other = connect()
    assert other.revive() == 1
    assert other.claim(names(2))[1] == "id0"
    assert other.attempts()["id1"].state == "running"


def test_the_result_of_a_worker_that_was_given_up_is_not_counted_twice(connect):
    queue = connect()
    queue.enqueue(cells(1))
    trial, _ = queue.claim(names(1))
    queue.give_back(trial, "worker lost")
    second, _ = connect().claim(names(1))
    queue.finish(trial, 1.0, {"scores": {}})  # comes back from the dead
    assert connect().attempts()["id0"].state == "running"
    connect().finish(second, 2.0, {"scores": {"knn": 2.0}})
    done = [each for each in queue.study.get_trials() if each.state == TrialState.COMPLETE]
    assert [each.value for each in done] == [2.0]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_many_workers_may_find_an_empty_database_at_the_same_moment(storage):
    opened, failures, barrier = [], [], threading.Barrier(6)

    def open_it():
        barrier.wait()
        try:
            opened.append(Queue(storage, "study", DEFINITION, echo=lambda words: None))
            opened[-1].storage.remove_session()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for queue in opened:
        queue.close()
    gc.collect()  # optuna leaves the connection open with which it failed to make the tables
    assert not failures and len(opened) == 6


def test_a_failed_cell_keeps_its_reason_and_runs_again_only_when_asked(connect):
    queue = connect()
    queue.enqueue(cells(1))
    queue.fail(queue.claim(names(1))[0], "the loss is not finite")
    assert queue.attempts()["id0"].reason == "the loss is not finite"
    assert queue.enqueue(cells(1)) == 0
    assert queue.enqueue(cells(1), again=True) == 1
    assert queue.attempts()["id0"].state == "waiting"


def test_another_study_under_the_same_name_is_refused_with_what_differs(connect):
    connect()
    with pytest.raises(StorageError, match=r"batch.size was 64 and is now 128"):
        connect({"recipe": {"batch": {"size": 128}}})


def test_a_storage_that_cannot_be_reached_is_one_sentence_without_the_password():
    with pytest.raises(StorageError, match="cannot be reached") as caught:
        Queue("postgresql://me:secret@127.0.0.1:9/none", "study", DEFINITION)
    assert "secret" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_password_among_the_options_is_not_shown_either():
    with pytest.raises(StorageError, match="cannot be reached") as caught:
        Queue("postgresql://127.0.0.1:9/none?user=me&password=secret&sslmode=disable", "study", DEFINITION)
    assert "secret" not in str(caught.value) and "sslmode" in str(caught.value)


@pytest.fixture(scope="module")
def ended_study(tmp_path_factory):
    """The file of a study of two cells: one has a result, one failed."""
    file = tmp_path_factory.mktemp("ended") / "study.db"
    queue = Queue(f"sqlite:///{file}", "study", DEFINITION)
    queue.enqueue(cells(2))
    queue.finish(queue.claim(names(2))[0], 91.5, {"scores": {"knn": 91.5}})
    queue.fail(queue.claim(names(2))[0], "the loss is not finite")
    queue.close()
    return file


@pytest.mark.parametrize(
    "change",
    [
        "update trial_user_attributes set value_json = replace(value_json, '91.5', '97.5') where key = 'result'",
        *(
            f"update trial_user_attributes set value_json = '{value}' where key = '{key}'"
            for key in ("result", "cell")
            for value in ("[]", "3", "{", "[" * 10_000)
        ),
        "update trials set state = 'NONSENSE'",
        "update study_user_attributes set value_json = '{'",
        "delete from studies",
    ],
)
def test_a_study_file_that_was_damaged_is_noticed(change, ended_study, tmp_path):
    file = shutil.copy(ended_study, tmp_path)
    with sqlite3.connect(file) as database:
        database.execute(change)
    database.close()
    with pytest.raises(StorageError, match=r"study\.db is damaged: .* from their folders$"):
        Queue(f"sqlite:///{file}", "study", DEFINITION).attempts()


def test_a_file_that_takes_no_more_is_not_waited_for(tmp_path):
    """A server comes back; a full disk says the same an hour later."""
    said = []
    queue = Queue(f"sqlite:///{tmp_path / 'study.db'}", "study", DEFINITION, echo=said.append)
    with queue.storage.engine.connect() as connection:
        (pages,) = connection.exec_driver_sql("pragma page_count").fetchone()
        connection.exec_driver_sql(f"pragma max_page_count = {pages}")
    with pytest.raises(StorageError, match="disk is full; the same command continues the study"):
        queue.enqueue(cells(1000))
    queue.close()
    assert said == []


def test_a_storage_that_goes_away_for_a_while_costs_a_sentence_and_a_wait(postgres, fresh_database, monkeypatch):
    monkeypatch.setattr(queues, "PAUSE", 0.1)
    said = []
    queue = Queue(fresh_database(), "study", DEFINITION, echo=said.append)
    queue.enqueue(cells(1))
    _restart_later(postgres, seconds=1.0)
    assert queue.claim(names(1))[1] == "id0"
    queue.close()
    assert len(said) == 2 and "waiting for it" in said[0] and "back" in said[1]


def _restart_later(server, seconds):
    """Stops a PostgreSQL server now, and starts it again on another thread."""
    server.stop()

    def start():
        time.sleep(seconds)
        server.ensure_postgres_running()

    threading.Thread(target=start, daemon=True).start()
