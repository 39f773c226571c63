"""A library that is missing or too old: one sentence with what to do."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest

from hypersphere import integrations

MODULES = {
    "lightning": ["lightning", "pytorch_lightning"],
    "pytorch_metric_learning": ["pytorch_metric_learning"],
    "torchmetrics": ["torchmetrics"],
    "transformers": ["transformers"],
}
OLD = {
    "lightning": "1.9.5", "pytorch-lightning": "1.9.5", "pytorch-metric-learning": "1.6.3", "torchmetrics": "1.2.1",
    "transformers": "4.57.0rc1",
}  # fmt: skip


def forget(name: str, patch: pytest.MonkeyPatch) -> None:
    """As if the module had not been loaded yet; asking the package for its attribute would load it."""
    patch.delattr(integrations, name)
    patch.delitem(sys.modules, f"hypersphere.integrations.{name}")


@pytest.mark.parametrize("name", MODULES)
def test_a_missing_library_is_named_with_the_line_that_installs_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(name, monkeypatch)
    for module in [each for each in sys.modules if each.startswith("pytorch_metric_learning.")]:
        monkeypatch.delitem(sys.modules, module)
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
    monkeypatch.setattr(metadata, "version", OLD.__getitem__)
    with pytest.raises(ImportError) as raised:
        getattr(integrations, name)
    needed, distribution = integrations.LIBRARIES[name], name.replace("_", "-")
    assert str(raised.value) == (
        f"hypersphere.integrations.{name} needs {needed}, and {distribution} {OLD[distribution]} is installed: "
        f"pip install -U '{needed}'"
    )


def test_the_package_lists_its_libraries_in_order() -> None:
    assert list(integrations.LIBRARIES) == sorted(integrations.LIBRARIES) == dir(integrations)
