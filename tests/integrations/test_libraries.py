"""A library that is missing or too old: one sentence with what to do."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Any

import pytest

from hypersphere import integrations

MODULES = {"lightning": ["lightning", "pytorch_lightning"], "transformers": ["transformers"]}


def forget(name: str, patch: pytest.MonkeyPatch) -> None:
    """As if the module had not been loaded yet; asking the package for its attribute would load it."""
    patch.delattr(integrations, name)
    patch.delitem(sys.modules, f"hypersphere.integrations.{name}")


@pytest.mark.parametrize("name", MODULES)
def test_a_missing_library_is_named_with_the_line_that_installs_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(name, monkeypatch)
    for module in [*MODULES[name], "lightning.pytorch"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError) as raised:
        getattr(integrations, name)
    assert str(raised.value) == (
        f"hypersphere.integrations.{name} needs {name}: pip install '{integrations.LIBRARIES[name]}'"
    )


@pytest.mark.parametrize("name", MODULES)
def test_a_library_that_is_too_old_is_answered_with_the_version_it_takes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(name, monkeypatch)
    versions: dict[str, Any] = {"lightning": "1.9.5", "pytorch-lightning": "1.9.5", "transformers": "4.57.0rc1"}
    monkeypatch.setattr(metadata, "version", versions.__getitem__)
    with pytest.raises(ImportError) as raised:
        getattr(integrations, name)
    needed = integrations.LIBRARIES[name]
    assert str(raised.value) == (
        f"hypersphere.integrations.{name} needs {needed}, and {name} {versions[name]} is installed: "
        f"pip install -U '{needed}'"
    )


def test_the_package_lists_its_libraries_in_order() -> None:
    assert list(integrations.LIBRARIES) == sorted(integrations.LIBRARIES) == dir(integrations)
