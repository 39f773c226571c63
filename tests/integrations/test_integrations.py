"""What the package lists, and a library that is missing or too old: one sentence with what to do."""

from __future__ import annotations

import importlib
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
    with pytest.raises(AttributeError, match=r"hypersphere\.integrations has no 'lightning2'; it has "):
        _ = integrations.lightning2


def test_sentence_transformers_missing_or_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "hypersphere.integrations.sentence_transformers"
    module = importlib.import_module(name)
    monkeypatch.setattr(metadata, "version", lambda _: "5.4.1")
    with pytest.raises(ImportError, match=r"needs sentence-transformers 6\.0 or newer, not 5\.4\.1: pip install -U"):
        importlib.reload(module)

    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    monkeypatch.delitem(sys.modules, name)
    with pytest.raises(
        ModuleNotFoundError, match=r"needs sentence-transformers: pip install 'hypersphere-lab\[text\]'"
    ):
        integrations.__getattr__("sentence_transformers")
    monkeypatch.undo()
    importlib.reload(module)
    assert integrations.LIBRARIES["sentence_transformers"] == "hypersphere-lab[text]"
