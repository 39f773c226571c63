"""Processes that are forked off one that has imported their libraries, so that they start at once."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from typing import Any

_MODULES: dict[str, None] = {}  # in the order in which they are imported


def preload(*modules: str) -> None:
    """The process that others are forked off imports these too. It starts with the first of them; after that, nothing
    more is preloaded, and the others import what they miss."""
    _MODULES.update(dict.fromkeys(modules))
    if _method() == "forkserver":
        multiprocessing.get_context("forkserver").set_forkserver_preload(list(_MODULES))


def prepare() -> None:
    """Starts the process that others are forked off. It imports for some seconds while this process goes on."""
    if _method() == "forkserver":
        forkserver.ensure_running()


def start(target: Callable[..., None], *args: Any, name: str | None = None, daemon: bool | None = None) -> BaseProcess:
    """Runs ``target(*args)`` in a process of its own, with the working directory and environment of this one: those of
    the process it is forked off may be older."""
    context: Any = multiprocessing.get_context(_method())
    place = os.getcwd(), dict(os.environ)
    process: BaseProcess = context.Process(target=_run, args=(*place, target, args), name=name, daemon=daemon)
    process.start()
    return process


def _method() -> str:
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


def _run(place: str, environment: dict[str, str], target: Callable[..., None], args: tuple[Any, ...]) -> None:
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    target(*args)
