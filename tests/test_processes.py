"""Processes of ours: forked off one that has imported, and yet with the folder and environment of their caller."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from pathlib import Path

import pytest

from hypersphere import processes


def write_surroundings(path: Path, *modules: str) -> None:
    there = [module in sys.modules for module in modules]
    path.write_text(json.dumps([os.getcwd(), os.environ.get("SURROUNDINGS"), os.getpid(), there]))


def test_a_process_has_the_folder_and_environment_of_the_moment_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURROUNDINGS", "old")
    processes.prepare()  # the process they are forked off is older than what follows
    monkeypatch.setenv("SURROUNDINGS", "new")
    monkeypatch.chdir(tmp_path)
    process = processes.start(write_surroundings, Path("told.json"), "hypersphere", name="a test's")
    process.join()
    folder, value, number, there = json.loads((tmp_path / "told.json").read_text())
    assert (folder, value, number) == (str(tmp_path), "new", process.pid) and there == [True]
    assert process.pid != os.getpid() and process.name == "a test's" and process.exitcode == 0


def test_what_is_preloaded_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    context = multiprocessing.get_context("forkserver")
    monkeypatch.setattr(type(context), "set_forkserver_preload", lambda self, names: asked.append(names))
    monkeypatch.setattr(processes, "_MODULES", {})
    processes.preload("json", "math")
    processes.preload("math", "csv")
    assert asked == [["json", "math"], ["json", "math", "csv"]]


def test_where_no_process_can_be_forked_off_another_they_are_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    monkeypatch.setattr(processes, "_MODULES", {})
    processes.preload("json")  # and nothing is asked of a method that does not exist
    processes.prepare()
    assert processes._method() == "spawn"
