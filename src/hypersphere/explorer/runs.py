"""Runs and studies as their folders hold them: learning curves, verdicts where they happened, tables of ``compare``."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from hypersphere.documents import read_document, read_json, read_yaml
from hypersphere.explorer.folders import NotHereError, find_folders, inside
from hypersphere.figures.training import LINES, curve_points, panels_with_data, verdict_events
from hypersphere.messages import one_line, reason
from hypersphere.training.journal import Record, read_journal
from hypersphere.training.verdicts import judge

RECIPE, METRICS, RESULTS, EMBEDDINGS = "recipe.yaml", "metrics.jsonl", "results.json", "embeddings.safetensors"
STUDY, REPORT, RANKING = "study.json", "report.html", "ranking.png"
RECENT = 300  # seconds after its last measurement in which an unfinished run counts as running
MOST_LISTED = 500
LARGEST_TEXT = 2**18  # bytes of a recipe that is shown
TROUBLE = (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError)  # of a folder that is being written


def list_runs(root: Path, objectives: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The runs in a folder, the latest first. ``objectives``: their objectives by name, where they are known; else the
    recipes are read."""
    rows = [_line(root, name, None if objectives is None else objectives.get(name, "")) for name, _ in
            find_folders(root, (RECIPE,))]  # fmt: skip
    return sorted(rows, key=lambda row: -row["changed"])[:MOST_LISTED]


def _line(root: Path, name: str, known: str | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name or root.resolve().name, "id": name, "objective": known or "", "outcome": ""}
    if known is None:
        with suppress(*TROUBLE):
            recipe = _file(root, name, RECIPE)
            row["objective"] = _objective(recipe, _stamp(recipe))
    changed = max((_changed(root, name, each) for each in (RECIPE, METRICS, RESULTS)), default=0.0)
    finished = _changed(root, name, RESULTS) > 0
    if finished:
        with suppress(*TROUBLE):
            row["outcome"] = str(read_json(_file(root, name, RESULTS), dict).get("outcome") or "")
    state = "finished" if finished else "running" if time.time() - changed < RECENT else "unfinished"
    return {**row, "state": state, "changed": changed, "embeddings": _changed(root, name, EMBEDDINGS) > 0}


@lru_cache(maxsize=2 * MOST_LISTED)
def _objective(recipe: Path, stamp: tuple[int, int]) -> str:
    """The objective in a recipe; ``stamp`` is another when the file has changed."""
    objective = read_yaml(recipe, dict).get("objective")
    return str(objective.get("name") if isinstance(objective, dict) else objective or "")


def read_run(root: Path, name: str) -> dict[str, Any]:
    """The curves of a run by panel, its verdicts with the step where each began, its scores and its recipe. A run that
    has no measurement yet has a sentence in place of the curves."""
    _file(root, name, RECIPE)
    run = _line(root, name)
    run |= {"panels": [], "events": [], "sentence": "", "recipe": "", "scores": {}, "steps": 0}
    with suppress(*TROUBLE):
        run["recipe"] = read_document(_file(root, name, RECIPE), LARGEST_TEXT)
    with suppress(*TROUBLE):
        run["scores"] = _numbers(read_json(_file(root, name, RESULTS), dict).get("scores") or {})
    try:
        records = read_journal(_file(root, name, METRICS))
        run |= {"panels": _panels(records), "events": _events(records), "steps": max(each["step"] for each in records)}
    except NotHereError:
        run["sentence"] = "The run has no measurement yet; the curves appear here when it has."
    except TROUBLE as error:
        words = one_line(reason(error)).replace(f"{root}", "").strip()
        run["sentence"] = f"The curves cannot be read now: {words}. They are read again when the file changes."
    return run


def _panels(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The panels of figures/training.py with their points: step, value, both ends of the band."""
    return [
        {
            "title": panel.title,
            "logarithmic": panel.logarithmic,
            "limits": panel.limits,
            "curves": [
                {"label": curve.label.replace("$d_{ij}$, ", ""), "split": split, "colour": colour,
                 "band": bool(curve.spread or curve.band), "points": points}
                for colour, curve in enumerate(panel.curves)
                for split in LINES
                if (points := curve_points(records, curve, split))
            ],
        }
        for panel in panels_with_data(records)
    ]  # fmt: skip


def _events(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Where each verdict began: its sentence and advice come from the measurements up to that step."""
    events = []
    for step, name in verdict_events(records):
        known = {each.name: each for each in judge([each for each in records if each["step"] <= step])}
        verdict = known.get(name)
        words = {} if verdict is None else {"sentence": verdict.sentence, "advice": verdict.advice}
        events.append({"step": step, "name": name, "sentence": "", "advice": "", **words})
    return events


def list_studies(root: Path) -> list[dict[str, Any]]:
    """The studies of ``hypersphere compare`` in a folder, the latest first."""
    rows: list[dict[str, Any]] = []
    for name, _ in find_folders(root, (STUDY,)):
        changed = max(_changed(root, name, STUDY), _changed(root, name, RESULTS))
        state = "has results" if _changed(root, name, RESULTS) else "running or interrupted"
        rows.append({"id": name, "name": name or root.resolve().name, "changed": changed, "state": state})
    return sorted(rows, key=lambda row: -row["changed"])[:MOST_LISTED]


def read_study(root: Path, name: str) -> dict[str, Any]:
    """The verdict and the table of a study, its runs, and whether it has a report and a picture."""
    _file(root, name, STUDY)
    study: dict[str, Any] = {
        "id": name, "name": name or root.resolve().name, "verdict": [], "header": [], "rows": [], "sentence": "",
        "report": _changed(root, name, REPORT) > 0, "picture": _changed(root, name, RANKING) > 0, "complete": False,
        "runs": [],
    }  # fmt: skip
    objectives: dict[str, str] = {}
    try:
        tree = read_json(_file(root, name, RESULTS), dict)
        study |= {"verdict": [str(each) for each in tree["verdict"]], "complete": bool(tree["complete"])}
        study |= {"header": ["objective", f"test {tree['metric']}", "95 % interval", "difference", "p", "validation",
                             "seeds", "seconds"], "rows": _table(tree)}  # fmt: skip
        objectives = {str(run["cell"]): f"{run['contestant']}, {run['stage']}" for run in tree["runs"]}
    except NotHereError:
        study["sentence"] = "The table is written when the study ends or is interrupted."
    except TROUBLE as error:
        study["sentence"] = f"The table cannot be read now: {one_line(reason(error)).replace(str(root), '')}."
    folder = f"{name}/runs" if name else "runs"
    with suppress(*TROUBLE):
        study["runs"] = [{**row, "id": f"{folder}/{row['id']}"} for row in list_runs(inside(root, folder), objectives)]
    if not study["complete"]:
        ended, begun = sum(row["state"] == "finished" for row in study["runs"]), len(study["runs"])
        so_far = f"{ended} of the {begun} runs that have begun have finished." if begun else "No run has begun yet."
        study["sentence"] = f"{study['sentence']} {so_far}".lstrip()
    return study


def _table(tree: dict[str, Any]) -> list[list[str]]:
    """The ranking, with the differences from the reference."""
    against = {each["name"]: each for each in tree["differences"]}
    rows = []
    for row in tree["rows"]:
        summary, difference = row["summary"], against.get(row["name"])
        if summary is None:
            rows.append([str(row["name"]), "no score", "", "", "", "", "", _shown(row["seconds"], 1)])
            continue
        interval = f"{summary['low']:.2f} to {summary['high']:.2f}" if summary["count"] > 1 else ""
        reference = "reference" if row["objective"] == tree["reference"] and row["name"] != "untrained" else ""
        rows.append([
            str(row["name"]), _shown(summary["mean"], 2), interval,
            reference if difference is None else f"{difference['mean']:+.2f}",
            "" if difference is None else f"{difference['adjusted']:.3g}",
            _shown(row["validation"], 2), str(summary["count"]), _shown(row["seconds"], 1),
        ])  # fmt: skip
    return rows


def snapshot(root: Path) -> dict[str, tuple[int, int]]:
    """Time and size of the files that change while runs and studies go on, by the id of their run or study."""
    marks: dict[str, tuple[int, int]] = {}
    for name, folder in find_folders(root, (RECIPE, STUDY)):
        stamps = [_stamp(folder / each) for each in (METRICS, RESULTS)]
        if (folder / STUDY).is_file():
            for run, inner in find_folders(folder / "runs", (RECIPE,)):
                marks[f"{name}/runs/{run}".lstrip("/")] = max(_stamp(inner / each) for each in (METRICS, RESULTS))
        marks[name] = max(stamps)
    return marks


def _stamp(path: Path) -> tuple[int, int]:
    try:
        about = path.stat()
    except OSError:
        return 0, 0
    return about.st_mtime_ns, about.st_size


def _file(root: Path, name: str, file: str) -> Path:
    place = inside(root, f"{name}/{file}" if name else file)
    if not place.is_file():
        raise NotHereError("there is nothing of that name here")
    return place


def _changed(root: Path, name: str, file: str) -> float:
    """When a file of a folder was last written; 0 if there is none."""
    try:
        return _file(root, name, file).stat().st_mtime
    except OSError:
        return 0.0


def _numbers(scores: dict[str, Any]) -> dict[str, float]:
    return {str(key): float(value) for key, value in scores.items()
            if isinstance(value, (int, float)) and math.isfinite(value)}  # fmt: skip


def _shown(value: Any, digits: int) -> str:
    return f"{value:.{digits}f}" if isinstance(value, (int, float)) else ""
