"""Libraries of the extras: those that lack or are too old are named in a sentence."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from hypersphere.data.extras import FLOORS, need

PROJECT = (Path(__file__).parents[2] / "pyproject.toml").read_text()


def test_the_floors_are_those_of_the_project() -> None:
    for package, floor in FLOORS.items():
        assert f'"{package.replace("_", "-")}>={floor}"' in PROJECT


def installed(version: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An empty module in place of the library, which takes seconds to import."""
    monkeypatch.setattr(metadata, "version", lambda package: version)
    monkeypatch.setitem(sys.modules, "sentence_transformers", module := ModuleType("sentence_transformers"))
    return module


@pytest.mark.parametrize("version", ["5.4.1", "5.9", "2"])
def test_a_release_that_is_too_old_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(version, monkeypatch)
    with pytest.raises(ImportError, match=f"needs sentence-transformers 6.0 or newer, and {version} is installed"):
        need("sentence_transformers", "text", "a run on text")


@pytest.mark.parametrize("version", ["6.0", "6.0.0rc1", "6.2.0", "10.1"])
def test_a_release_that_is_new_enough_is_not(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = installed(version, monkeypatch)
    assert need("sentence_transformers", "text", "a run on text") is module


def test_an_absent_library_is_named_with_its_extra_but_not_what_it_lacks_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^a toy needs nowhere: pip install 'hypersphere-lab\[train\]'$"):
        need("nowhere.inside", "train", "a toy")
    (tmp_path / "lacking.py").write_text("import nowhere_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'nowhere_at_all'"):
        need("lacking", "train", "a toy")


def test_releases_with_known_holes_are_not_allowed() -> None:
    for bound in ('"torch>=2.6"', '"pillow>=12.3"', '"pyarrow>=23.0.1"'):
        assert bound in PROJECT
