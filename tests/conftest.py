"""What tests share: a cache that is not the user's, threads, and a file of somebody's own objectives."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from hypersphere import processes
from hypersphere.objectives import files, registry

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background job has it, and then its children
    signal.signal(signal.SIGINT, signal.default_int_handler)
if "PYTEST_XDIST_WORKER" in os.environ:  # two test processes on two cores: one thread each, and for their children
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
# Whichever test is the first to start a process: groups joined by gloo and runs of studies are forked off the same one.
processes.preload("hypersphere.training.run", "hypersphere.training.images", "kornia.augmentation", "sklearn.datasets",
                  "torch._dynamo")  # fmt: skip
gc.disable()  # while everything is imported

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
LONGEST = (
    "tests/training/test_run_processes.py",
    "tests/studies/compare/test_compare.py",
    "tests/training/test_run.py",
)
MORE = '''

from hypersphere.engine import masked_max


class Plain(hs.PairwiseObjective):
    """Difference of the hardest negative and the positive, not registered."""

    def per_anchor(self, positive, negatives, mask):
        return masked_max(negatives, mask) - positive


def pull(z1, z2, weight=0.1):
    """Distance of the positives, and a push on all products."""
    return (z1 - z2).square().sum(1).mean() + weight * (z1 @ z2.T).exp().mean()


class Scaled(torch.nn.Module):
    """Cross-entropy with a learned scale."""

    def __init__(self, scale=2.0):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(scale))

    def forward(self, z1, z2):
        return torch.nn.functional.cross_entropy(self.scale * z1 @ z2.T, torch.arange(len(z1)))
'''


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says loudly that there was no browser: a line among many skipped tests would be overlooked."""
    skipped = [each for each in terminalreporter.stats.get("skipped", []) if "IN A BROWSER" in str(each.longrepr)]
    if skipped:
        reason = str(skipped[0].longrepr[2]).removeprefix("Skipped: ")
        terminalreporter.section("NO BROWSER", sep="!", red=True, bold=True)
        terminalreporter.line(f"{len(skipped)} tests were skipped. {reason}", red=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files come first, so that no process is left alone with one at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_collection_finish() -> None:
    """Libraries and tests stay to the end. Every run collects garbage, and need not go through them."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or fills the user's."""
    os.environ["HYPERSPHERE_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def own_threads() -> Iterator[None]:
    """A test that sets the number of threads sets it for itself alone."""
    threads = torch.get_num_threads()
    yield
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def own_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test finds the Python files of another."""
    path, modules = list(sys.path), list(sys.modules)
    yield
    sys.path[:] = path
    if list(sys.modules) == modules:  # as after most tests; sets of thousands of names take longer than some of them
        return
    base = str(tmp_path_factory.getbasetemp())
    for name in set(sys.modules) - set(modules):
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(base):
            del sys.modules[name]


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[None]:
    """What is loaded from the test's folder, and registered, is gone after the test."""
    kept: list[dict[Any, Any]] = [registry._REGISTRY, registry._FILES, files._LOADED, files._CONTENT]
    before, path = [dict(each) for each in kept], list(sys.path)
    yield
    for each, was in zip(kept, before, strict=True):
        each.clear()
        each.update(was)
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def mine(tmp_path: Path, forgetful: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """mine.py in the working directory: CONTRIBUTING's example, a class, a function and a torch module."""
    example = re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(encoding="utf-8"), re.DOTALL)[0]
    path = tmp_path / "mine.py"
    path.write_text(example + MORE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return path
