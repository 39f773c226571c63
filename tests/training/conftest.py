"""A run on the digits that tests continue."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hypersphere.training.load import parse_recipe
from hypersphere.training.run import train
from tests.training import worlds
from tests.training.worlds import quiet


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
