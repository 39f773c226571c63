"""Libraries of the extras: those that lack or are too old are named in a sentence."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from hypersphere.data.extras import FLOORS, need

PROJECT = (Path(__file__).parents[2] / "pyproject.toml").read_text()


def test_the_floors_are_those_of_the_project() -> None:
    for package, floor in FLOORS.items():
        assert f'"{package.replace("_", "-")}>={floor}"' in PROJECT


@pytest.mark.parametrize("version", ["5.4.1", "5.9", "2"])
def test_a_release_that_is_too_old_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda package: version)
    with pytest.raises(ImportError, match=f"needs sentence-transformers 6.0 or newer, and {version} is installed"):
        need("sentence_transformers", "text", "a run on text")


@pytest.mark.parametrize("version", ["6.0", "6.0.0rc1", "6.2.0", "10.1"])
def test_a_release_that_is_new_enough_is_not(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda package: version)
    need("sentence_transformers", "text", "a run on text")


def test_releases_with_known_holes_are_not_allowed() -> None:
    for bound in ('"torch>=2.6"', '"pillow>=12.3"', '"pyarrow>=23.0.1"'):
        assert bound in PROJECT
