"""One comparison from a study to its report, on this machine or as one of several workers."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypersphere.documents import expand, json_safe, read_json
from hypersphere.objectives import Objective, register
from hypersphere.objectives.registry import is_registered, objective_class
from hypersphere.report import atomic_write
from hypersphere.studies.compare import process
from hypersphere.studies.compare.cells import Cell, Plan
from hypersphere.studies.compare.data import check_data
from hypersphere.studies.compare.files import write_files
from hypersphere.studies.compare.queue import Attempt, Queue, StorageError, changed
from hypersphere.studies.compare.results import Comparison, collect
from hypersphere.studies.compare.scores import test_score, validation_score
from hypersphere.studies.compare.study import Study, digest, parse_study, read_study
from hypersphere.studies.compare.worker import Progress, Worker, cores

STUDY_FILE = "study.json"


def compare(
    recipe: str | Study,
    objectives: Sequence[str | Mapping[str, Any] | type[Objective]] | None = None,
    changes: Iterable[str] = (),
    *,
    storage: str | None = None,
    jobs: int | None = None,
    retry: bool = False,
    known: Path | str | None = None,
    echo: Callable[[str], None] = print,
    show: Callable[[Progress], None] = lambda progress: None,
    **given: Any,
) -> Comparison:
    """Compares objectives fairly: each is tuned with the same number of trials on validation data, its best setting is
    run with fresh seeds, and each of these runs looks at the test set once.

    recipe: a recipe's name or file, a study's file, or a ``Study``.
    objectives: names, mappings with a name and settings that stay as they are, or classes of your own.
    changes: ``key=value`` words over the recipe, the same for all.
    storage: an address such as postgresql://user@host/database, shared by any number of workers; default: a SQLite
        file in the study's folder.
    jobs: runs side by side; default: one for each core.
    retry: run failed cells again.
    known: results.json of an earlier round of the study, here or elsewhere; its finished runs are not repeated.
    given: further fields of a study: trials, seeds, reference, ranges, tune, grid, metric, output.

    An interrupted study continues. With more seeds, trials or objectives, only the new runs are added.
    """
    named, classes = _by_name(objectives)
    if isinstance(recipe, Study):
        study = parse_study(recipe.model_dump() | given | ({} if named is None else {"objectives": named}))
    else:
        study = read_study(recipe, changes, objectives=named, **given)
    sources = {name: _source_of(cls) for name, cls in classes.items()}
    plan, folder = Plan(study, sources), expand(study.output)
    definition = definition_of(study)
    _check_folder(folder, definition)
    earlier = {} if known is None else finished_runs(Path(known))
    attempts = {cell: Attempt(-1, "done", "", result) for cell, result in earlier.items()}
    begun = storage is not None or (folder / STUDY_FILE).is_file()
    if not begun:
        _need_data(plan, attempts)
        _make_folder(folder, definition)
    if any(cell.id not in earlier for cell in plan.begin):
        process.prepare(plan.begin[0].recipe.task)
    url = storage or f"sqlite:///{folder / 'study.db'}"
    queue = Queue(url, name_of(study, definition), definition, echo)
    try:
        if begun:
            _need_data(plan, attempts | queue.attempts(), retry)
        _make_folder(folder, definition)
        jobs = jobs or cores()
        worker = Worker(
            plan, queue, folder, jobs=jobs, threads=max(1, cores() // jobs), classes=classes, show=show,
            known=earlier,
            on_end=lambda cell, attempt: echo(line_of(cell, attempt, plan.metric)),
        )  # fmt: skip
        with _report_at_the_end(plan, queue, folder):
            worker.run(again=retry)
        return collect(plan, queue.attempts())
    finally:
        queue.close()


def definition_of(study: Study) -> dict[str, Any]:
    """The parts of a study that must stay the same while it goes on, after a JSON round trip."""
    definition: dict[str, Any] = json.loads(json.dumps(json_safe(study.fingerprint())))
    return definition


def name_of(study: Study, definition: Mapping[str, Any]) -> str:
    """The study's name in its storage."""
    return f"{Path(study.recipe).stem}-{digest(definition)}"


def finished_runs(path: Path) -> dict[str, dict[str, Any]]:
    """The results of the runs in a results.json, by cell."""
    try:
        runs = read_json(path, dict)["runs"]
        return {str(run["cell"]): dict(run["result"]) for run in runs if run["state"] == "done"}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is not the results.json of a study: {error!r} is missing or wrong") from None


def line_of(cell: Cell, attempt: Attempt, metric: str) -> str:
    """The outcome of a cell, in a line."""
    if attempt.state == "failed" or attempt.result is None:
        return f"{cell}: failed: {attempt.reason}"
    validation, test = validation_score(attempt.result, metric), test_score(attempt.result, metric)
    scores = [
        f"{name} {value:.2f}" for name, value in (("validation", validation), ("test", test)) if value is not None
    ]
    troubles = [name for name, _ in attempt.result.get("verdicts", [])]
    return f"{cell}: {', '.join([*scores, *troubles])}"


def _need_data(plan: Plan, attempts: Mapping[str, Attempt], retry: bool = False) -> None:
    """Raises if a study has runs left and their data is missing."""
    known = collect(plan, attempts)
    if not known.complete or (retry and known.failures):
        check_data(plan.untrained[0].recipe)


@contextmanager
def _report_at_the_end(plan: Plan, queue: Queue, folder: Path) -> Any:
    """Writes the report of all finished runs, also when the study is interrupted."""
    try:
        yield
    except StorageError:
        raise
    except BaseException:
        write_files(collect(plan, queue.attempts()), folder)
        raise
    write_files(collect(plan, queue.attempts()), folder)


def _check_folder(folder: Path, definition: dict[str, Any]) -> None:
    """Raises if the folder holds something other than this study."""
    file = folder / STUDY_FILE
    if file.is_file():
        known = read_json(file, dict)
        if known != definition:
            raise ValueError(changed(known, definition, str(folder)))
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty and holds no study; --output names another folder")


def _make_folder(folder: Path, definition: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / STUDY_FILE).is_file():
        atomic_write(folder / STUDY_FILE, json.dumps(definition, indent=1))


def _named(cls: type) -> type[Objective]:
    """The user's own class, with a name."""
    if not issubclass(cls, Objective):
        raise ValueError(f"{cls.__name__} is not an objective: derive it from hypersphere.PairwiseObjective")
    if not is_registered(cls.name) or objective_class(cls.name) is not cls:
        register(cls.__name__)(cls)
    return cls


def _source_of(cls: type[Objective]) -> str:
    """The hash of a class's source, so that a changed class is a new objective; empty if there is no source."""
    try:
        return digest(inspect.getsource(cls))
    except (OSError, TypeError):
        return ""


def _by_name(
    objectives: Sequence[str | Mapping[str, Any] | type[Objective]] | None,
) -> tuple[list[str | dict[str, Any]] | None, dict[str, type[Objective]]]:
    """Names of all objectives, and the classes that exist only in this process."""
    if objectives is None:
        return None, {}
    named: list[str | dict[str, Any]] = []
    classes: dict[str, type[Objective]] = {}
    for each in objectives:
        if isinstance(each, type):
            cls = _named(each)
            classes[cls.name] = cls
            named.append(cls.name)
        else:
            named.append(each if isinstance(each, str) else dict(each))
    return named, classes
