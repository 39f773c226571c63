"""The queue of a study's cells in an optuna storage: each is enqueued once, taken by one worker, and ends once.

Every attempt at a cell is an optuna trial whose user attribute ``cell`` is the cell's id. A worker takes the waiting
trial with the lowest number; the storage changes its state for one worker only. Two workers can enqueue the same cell
at the same moment: the trial with the higher number is then dropped when it is taken. A worker that dies stops its
heartbeat, and another worker gets its trial.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import threading
import time
import warnings
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import optuna
from optuna.distributions import FloatDistribution
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError, ProgrammingError, SQLAlchemyError

from hypersphere.studies.compare.cells import Cell
from hypersphere.studies.compare.study import digest

HEARTBEAT = 10  # seconds between two heartbeats of a worker
GRACE = 45  # seconds without a heartbeat after which another worker gets the cell
PATIENCE = 3600.0  # seconds for which a storage may be unreachable after it was reached once
PAUSE = 5.0  # seconds between two tries to reach it
TRIES = 5  # to open a storage while another worker creates its tables
DROPPED = ("duplicate", "interrupted", "worker lost")  # attempts without information about their cell

Score = Callable[[Mapping[str, Any]], float | None]
Answer = TypeVar("Answer")
_AWAY = (SQLAlchemyError, optuna.exceptions.StorageInternalError, OSError)
_DAMAGED = (ValueError, LookupError, TypeError, RecursionError)  # optuna's errors for rows that it has not written


class StorageError(ValueError):
    """A storage that cannot be reached, or holds another study."""


@dataclass(frozen=True)
class Attempt:
    """The state of a cell: the one of its trials that counts."""

    trial: int  # optuna's id
    state: str  # waiting, running, done, failed
    reason: str  # why it failed
    result: dict[str, Any] | None


class Queue:
    """One study in a storage, seen by one worker.

    echo: receives a sentence when the storage becomes unreachable and when it is back.
    """

    def __init__(
        self, url: str, name: str, definition: dict[str, Any], echo: Callable[[str], None] = print,
        patience: float = PATIENCE,
    ) -> None:  # fmt: skip
        self.url, self.echo, self.patience = url, echo, patience
        self._whole: set[int] = set()  # trials whose result was compared with its seal
        self.worker = f"{socket.gethostname()} {os.getpid()}"
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.storage = connect(url)
        try:
            self.study = optuna.create_study(
                storage=self.storage, study_name=name, load_if_exists=True, direction="maximize"
            )
            known = self.study.user_attrs.get("definition")
            if known is None:
                self.study.set_user_attr("definition", definition)
        except _AWAY as error:
            raise StorageError(unusable(url, error)) from None
        except _DAMAGED as error:
            raise StorageError(damaged(url, _first_line(error))) from None
        if known is not None and known != definition:
            self.close()
            raise StorageError(changed(known, definition, f"the study {name} in {_masked(url)}"))

    def close(self) -> None:
        """Closes the storage's connections."""
        self.storage.remove_session()
        self.storage.engine.dispose()

    # --- waiting cells

    def enqueue(self, cells: Iterable[Cell], again: bool = False) -> int:
        """Adds the missing cells, with ``again`` also the failed ones. Returns how many were added."""
        known = self.attempts()
        missing = [cell for cell in cells if cell.id not in known or (again and known[cell.id].state == "failed")]
        for cell in missing:
            self._patiently(lambda cell=cell: self.study.add_trial(_waiting(cell)))  # type: ignore[misc]
        return len(missing)

    def adopt(self, results: Mapping[str, dict[str, Any]], cells: Iterable[Cell], score: Score) -> int:
        """Adds finished runs of an earlier round for cells that have not ended here. Returns how many were added."""
        known = self.attempts()
        chosen = [
            (cell, value)
            for cell in cells
            if cell.id in results and (cell.id not in known or known[cell.id].state == "waiting")
            if (value := score(results[cell.id])) is not None
        ]
        for cell, value in chosen:
            ended = _ended(cell, results[cell.id], value)
            self._patiently(lambda ended=ended: self.study.add_trial(ended))  # type: ignore[misc]
        return len(chosen)

    def attempts(self) -> dict[str, Attempt]:
        """The state of every cell, by id."""
        best: dict[str, tuple[int, Attempt]] = {}
        for trial in self._trials():
            cell, state = trial.user_attrs.get("cell"), trial.state
            reason = str(trial.user_attrs.get("reason", ""))
            if cell is None or (state == TrialState.FAIL and reason in DROPPED):
                continue
            word = {TrialState.COMPLETE: "done", TrialState.RUNNING: "running", TrialState.WAITING: "waiting"}
            attempt = Attempt(trial._trial_id, word.get(state, "failed"), reason, self._result(trial))
            rank = ("failed", "waiting", "running", "done").index(attempt.state)
            if cell not in best or rank >= best[cell][0]:
                best[cell] = (rank, attempt)
        return {cell: attempt for cell, (_, attempt) in best.items()}

    def _result(self, trial: FrozenTrial) -> dict[str, Any] | None:
        """The result of a trial. The result of an ended trial is compared with its seal, once."""
        cell, result, sealed = (trial.user_attrs.get(key) for key in ("cell", "result", "seal"))
        if trial._trial_id not in self._whole:
            other = trial.state.is_finished() and sealed is not None and sealed != seal(result)
            if other or not (isinstance(cell, str) and isinstance(result, dict | None)):
                raise StorageError(damaged(self.url, f"the row of trial {trial.number} is not what was written"))
            if trial.state.is_finished():
                self._whole.add(trial._trial_id)
        return result

    def claim(self, known: Container[str]) -> tuple[int, str] | None:
        """Takes the next waiting cell among ``known``: (trial id, cell id); None if none waits."""
        while True:
            waiting = [
                trial
                for trial in self._trials()
                if trial.state == TrialState.WAITING and trial.user_attrs.get("cell") in known
            ]
            if not waiting:
                return None
            first = min(waiting, key=lambda trial: trial.number)
            if not self._take(first._trial_id):
                continue  # another worker was quicker
            if self._earlier(first):
                self.drop(first._trial_id, "duplicate")
                continue
            return first._trial_id, str(first.user_attrs["cell"])

    def _take(self, trial: int) -> bool:
        def take() -> bool:
            try:
                return self.storage.set_trial_state_values(trial, TrialState.RUNNING)
            except (RuntimeError, optuna.exceptions.UpdateFinishedTrialError):
                return False  # finished meanwhile

        if not self._patiently(take):
            return False
        self._patiently(lambda: self.storage.set_trial_user_attr(trial, "worker", self.worker))
        self._patiently(lambda: self.storage.record_heartbeat(trial))
        return True

    def _earlier(self, taken: FrozenTrial) -> bool:
        """Whether the same cell has another trial that is finished, or an earlier one that is still running."""
        for trial in self._trials():
            if trial.number == taken.number or trial.user_attrs.get("cell") != taken.user_attrs["cell"]:
                continue
            going = trial.state in (TrialState.WAITING, TrialState.RUNNING) and trial.number < taken.number
            if trial.state == TrialState.COMPLETE or going:
                return True
        return False

    # --- ended cells

    def finish(self, trial: int, score: float, result: dict[str, Any]) -> None:
        self._end(trial, TrialState.COMPLETE, {"result": result, "seal": seal(result)}, [score])

    def fail(self, trial: int, reason: str, result: dict[str, Any] | None = None) -> None:
        """Ends a trial without a score, with its reason."""
        self._end(trial, TrialState.FAIL, {"reason": reason, "result": result, "seal": seal(result)})

    def drop(self, trial: int, reason: str) -> None:
        self._end(trial, TrialState.FAIL, {"reason": reason})

    def give_back(self, trial: int, reason: str = "interrupted") -> None:
        """Returns the cell to the queue, for another worker or the next start."""
        self._again(self._patiently(lambda: self.storage.get_trial(trial)), reason)

    def _end(self, trial: int, state: TrialState, words: dict[str, Any], values: list[float] | None = None) -> None:
        def end() -> None:
            try:
                for key, value in words.items():
                    self.storage.set_trial_user_attr(trial, key, value)
                self.storage.set_trial_state_values(trial, state, values)
            except (RuntimeError, optuna.exceptions.UpdateFinishedTrialError):
                pass  # another worker got it while the storage was unreachable; that worker's result counts

        self._patiently(end)

    def revive(self) -> int:
        """Puts the cells of dead workers back into the queue: workers without a heartbeat, and workers of this machine
        whose process is gone. Returns how many."""
        lost = 0
        stale = set(self._patiently(lambda: self.storage._get_stale_trial_ids(self.study._study_id)))
        for trial in self._trials():
            if trial.state == TrialState.RUNNING and (
                trial._trial_id in stale or _gone(str(trial.user_attrs.get("worker", "")))
            ):
                lost += self._again(trial, "worker lost")
        return lost

    def _again(self, trial: FrozenTrial, reason: str) -> bool:
        """Ends an attempt and adds a new one; False if another worker has done so."""

        def end() -> bool:
            try:
                return self.storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
            except (RuntimeError, optuna.exceptions.UpdateFinishedTrialError):
                return False

        self._patiently(lambda: self._set_reason(trial._trial_id, reason))
        if not self._patiently(end):
            return False
        template = optuna.create_trial(
            state=TrialState.WAITING, params=trial.params, distributions=trial.distributions,
            user_attrs={key: value for key, value in trial.user_attrs.items() if key not in ("worker", "reason")},
        )  # fmt: skip
        self._patiently(lambda: self.study.add_trial(template))
        return True

    def _set_reason(self, trial: int, reason: str) -> None:
        with suppress(RuntimeError, optuna.exceptions.UpdateFinishedTrialError):
            self.storage.set_trial_user_attr(trial, "reason", reason)

    # --- the storage

    def beat(self, trial: int) -> None:
        """Records a heartbeat, without waiting for an unreachable storage."""
        with suppress(*_AWAY):
            self.storage.record_heartbeat(trial)

    def _trials(self) -> list[FrozenTrial]:
        try:
            return self._patiently(lambda: self.study.get_trials(deepcopy=False))
        except StorageError:
            raise
        except _DAMAGED as error:
            raise StorageError(damaged(self.url, _first_line(error))) from None

    def _patiently(self, call: Callable[[], Answer]) -> Answer:
        """Calls the storage and, if it is unreachable, tries again until ``patience`` ends. A file is always reachable:
        its errors (a full disk, a missing table) would come again, except for another worker's lock."""
        since: float | None = None
        while True:
            try:
                answer = call()
            except optuna.exceptions.UpdateFinishedTrialError:
                raise
            except _AWAY as error:
                if self.url.startswith("sqlite") and "locked" not in _first_line(error):
                    raise StorageError(unusable(self.url, error, "; the same command continues the study")) from None
                now = time.monotonic()
                if since is None:
                    since = now
                    self.echo(f"The storage does not answer ({_first_line(error)}); waiting for it.")
                if now - since > self.patience:
                    raise StorageError(
                        f"the storage has not answered for {timedelta(seconds=round(now - since))}: "
                        f"{_first_line(error)}; the same command continues the study once it is back"
                    ) from None
                time.sleep(min(PAUSE, self.patience))
            else:
                if since is not None:
                    self.echo("The storage is back.")
                return answer


class Heartbeats:
    """A thread that sends a worker's heartbeats while its cells run."""

    def __init__(self, queue: Queue) -> None:
        self.queue, self.trials = queue, set[int]()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(HEARTBEAT):
            for trial in list(self.trials):
                self.queue.beat(trial)

    def stop(self) -> None:
        self._over.set()
        self._thread.join(timeout=HEARTBEAT)


def connect(url: str) -> RDBStorage:
    """An optuna storage with heartbeats; an error of one sentence if it cannot be reached."""
    options: dict[str, Any] = {"pool_pre_ping": True}
    if url.startswith("sqlite"):
        options["connect_args"] = {"timeout": 60}  # another worker may be writing
    elif url.startswith("postgresql://"):
        url = url.replace("postgresql://", "postgresql+psycopg://", 1)
        options["connect_args"] = {"connect_timeout": 10}
    for left in reversed(range(TRIES)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # heartbeats, for six years now
                storage = RDBStorage(url, engine_kwargs=options, heartbeat_interval=HEARTBEAT, grace_period=GRACE)
            if url.startswith("sqlite"):
                _write_from_the_start(storage.engine)
            return storage
        except (*_AWAY, ImportError, ValueError) as error:
            if not left or not _tables_being_made(error):
                raise StorageError(unusable(url, error)) from None
            time.sleep(random.uniform(0.2, 1.0))
    raise AssertionError  # the last try returns or raises


def seal(result: dict[str, Any] | None) -> str:
    """The hash of a result after a JSON round trip, stored beside it: a database has no checksum of its rows."""
    return digest(json.loads(json.dumps(result)))


def damaged(url: str, what: str) -> str:
    """One sentence on a storage whose rows cannot be those of a study."""
    file = url.startswith("sqlite")
    way = "; without that file the same command takes finished runs from their folders" if file else ""
    return f"the storage {_masked(url)} is damaged: {what}{way}"


def unusable(url: str, error: BaseException, way: str = "") -> str:
    """One sentence on a storage that fails, with the way out if it is not damaged."""
    words = _first_line(error)
    if any(mark in words for mark in ("malformed", "not a database", "no such table", "no such column")):
        return damaged(url, words)
    verb = "used" if url.startswith("sqlite") else "reached"
    return f"the storage {_masked(url)} cannot be {verb}: {words}{way}"


def _tables_being_made(error: BaseException) -> bool:
    """Whether another worker is creating the tables of an empty database at the same moment."""
    return isinstance(error, (IntegrityError, ProgrammingError)) or "already exists" in str(error)


def _write_from_the_start(engine: Any) -> None:
    """Makes every transaction lock the file when it begins. SQLite locks no rows, so two workers could otherwise read
    a cell as waiting and both take it."""

    def manual(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # sqlite3 begins no transaction of its own

    event.listen(engine, "connect", manual)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    engine.dispose()  # connections made before


def changed(before: dict[str, Any], now: dict[str, Any], where: str) -> str:
    """One sentence on the first difference between two definitions."""

    def first(was: Any, given: Any, place: str) -> str:
        if isinstance(was, dict) and isinstance(given, dict):
            for key in (*was, *(key for key in given if key not in was)):
                if was.get(key) != given.get(key):
                    return first(was.get(key), given.get(key), f"{place}.{key}" if place else str(key))
        return f"{place.removeprefix('recipe.')} was {was} and is now {given}"

    return f"{where} is another study: {first(before, now, '')}; output=… or another name starts a new one"


def _waiting(cell: Cell) -> FrozenTrial:
    return optuna.create_trial(state=TrialState.WAITING, **_described(cell))


def _ended(cell: Cell, result: dict[str, Any], score: float) -> FrozenTrial:
    described = _described(cell)
    described["user_attrs"] |= {"result": result, "seal": seal(result)}
    return optuna.create_trial(state=TrialState.COMPLETE, value=score, **described)


def _described(cell: Cell) -> dict[str, Any]:
    numbers = {
        f"{cell.objective}.{key}": float(value)
        for key, value in cell.settings.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    return {
        "params": numbers,
        "distributions": {key: FloatDistribution(value, value) for key, value in numbers.items()},
        "user_attrs": {
            "cell": cell.id, "stage": cell.stage, "objective": cell.objective, "number": cell.trial,
            "seed": cell.seed, "settings": cell.settings,
        },
    }  # fmt: skip


def _gone(worker: str) -> bool:
    """Whether a worker was a process of this machine that has ended."""
    host, _, number = worker.rpartition(" ")
    if host != socket.gethostname() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _masked(url: str) -> str:
    """A storage's address without its password, which may also be among its options."""
    url = re.sub(r"(?<=[?&]password=)[^&]*", "…", url)
    scheme, separator, rest = url.partition("://")
    if "@" not in rest:
        return url
    who, _, where = rest.rpartition("@")
    return f"{scheme}{separator}{who.partition(':')[0]}@{where}"


def _first_line(error: BaseException) -> str:
    cause = error if getattr(error, "orig", None) else error.__cause__ or error
    cause = getattr(cause, "orig", None) or cause  # the database's own message
    return next(iter(str(cause).strip().splitlines()), type(error).__name__)[:200]
