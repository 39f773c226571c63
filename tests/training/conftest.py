"""A run on the digits that tests continue, and runs without figures."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypersphere.figures.training import save_run
from hypersphere.training import finish
from hypersphere.training.load import parse_recipe
from hypersphere.training.run import train
from tests.training import worlds
from tests.training.worlds import quiet


@pytest.fixture(autouse=True, scope="module")
def without_curves() -> Iterator[None]:
    """A run of a few steps would spend most of its time on the figure of its curves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finish, "save_run", lambda records, folder, title: None)
        yield


@pytest.fixture
def with_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs draw their curves, as they do outside the tests."""
    monkeypatch.setattr(finish, "save_run", save_run)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the digits that has written everything but the file that says it is over."""
    folder = tmp_path_factory.mktemp("trained")
    train(parse_recipe(worlds.digits_recipe(folder)), echo=quiet)
    (folder / "run" / "results.json").unlink()
    return folder / "run"


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"
