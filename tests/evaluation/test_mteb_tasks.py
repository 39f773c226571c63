"""Tasks of mteb, with a library of the two forms it has had in place of the real one."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hypersphere.evaluation.mteb_tasks import run_mteb
from tests.evaluation.tiny_model import Pooled


def library(since_2: bool, ran: list[Any]) -> ModuleType:
    def get_tasks(tasks: list[str]) -> list[str]:
        if "STS99" in tasks:
            raise KeyError("STS99 not found\nDid you mean: STS12?")
        return tasks

    def results(model: Any, tasks: list[str]) -> list[Any]:
        ran.append(model)
        return [SimpleNamespace(task_name=task, get_score=lambda n=n: 0.5 + n / 8) for n, task in enumerate(tasks)]

    class MTEB:
        def __init__(self, tasks: list[str]) -> None:
            self.tasks = tasks

        def run(self, model: Any, output_folder: None) -> list[Any]:
            return results(model, self.tasks)

    module: Any = ModuleType("mteb")
    module.get_tasks, module.MTEB = get_tasks, MTEB
    if since_2:
        module.evaluate = lambda model, tasks: SimpleNamespace(task_results=results(model, tasks))
        del module.MTEB
    return module  # type: ignore[no-any-return]


@pytest.mark.parametrize("since_2", [True, False])
def test_main_scores_are_percentages_of_the_model_itself(since_2: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []
    monkeypatch.setitem(sys.modules, "mteb", library(since_2, ran))
    model = Pooled("mean")
    assert run_mteb(model, ["STS12", "STS13"]) == {"STS12": 50.0, "STS13": 62.5}
    assert ran == [model]


def test_an_unknown_task_and_an_absent_library_get_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mteb", library(True, []))
    with pytest.raises(ValueError, match=r"^mteb does not have all of STS12, STS99: 'STS99 not found") as refusal:
        run_mteb(Pooled("mean"), ["STS12", "STS99"])
    assert "\n" not in str(refusal.value)
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(ImportError, match="need mteb, which is not installed: pip install mteb"):
        run_mteb(Pooled("mean"), ["STS12"])
