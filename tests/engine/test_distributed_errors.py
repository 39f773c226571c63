"""On several real processes: what goes wrong on one is raised on all, in one sentence and at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from time import sleep
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.engine import Statistics, distributed
from hypersphere.objectives import FeatureObjective, Objective, PairwiseObjective
from hypersphere.objectives.functions import objective_of
from hypersphere.testing import Workers, workers

EYE = torch.eye(3)
SECONDS = 20.0  # until processes that wait for each other are given up


def _on_second() -> bool:
    return dist.get_rank() == 1


def _fail_on_second() -> None:
    if _on_second():
        raise KeyError("a mistake")


class FailingCombine(PairwiseObjective):
    """Coupled: the second process fails where the statistics of all come together."""

    reductions = ("mean",)

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Statistics:
        return {"gap": torch.where(mask, negatives, 0).sum(dim=1) - positive}

    def combine(self, statistics: Statistics) -> Statistics:
        _fail_on_second()
        return {"loss": statistics["gap"].mean()}


class FailingCombineOfAnchors(FailingCombine):
    one_sided = True


class FailingPreparation(FailingCombine):
    def prepare(self, x: Tensor, y: Tensor) -> None:
        _fail_on_second()


class FailingFeatures(FeatureObjective):
    def features(self, z1: Tensor, z2: Tensor) -> Statistics:
        _fail_on_second()
        return {"loss": (z1 * z2).sum()}


class FailingModule(nn.Module):
    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        _fail_on_second()
        return (z1 * z2).sum()


def failing_function(z1: Tensor, z2: Tensor) -> Tensor:
    _fail_on_second()
    return (z1 * z2).sum()


def around(base: Any) -> Objective:
    return hs.create_objective("cloa", base=base, num_classes=2, dim=3, gather=True)


def _said(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


FAILING: dict[str, Callable[[], Objective]] = {
    "combine": lambda: FailingCombine(gather=True),
    "combine, anchors alone move": lambda: FailingCombineOfAnchors(gather=True),
    "prepare": lambda: FailingPreparation(gather=True),
    "features": lambda: FailingFeatures(gather=True),
    "a function": lambda: objective_of(failing_function, "product")(gather=True),
    "a base that is no objective": lambda: around(FailingModule()),
}


@pytest.mark.parametrize("what", FAILING)
@pytest.mark.parametrize("grad", [True, False], ids=["with gradient", "without"])
def test_an_objective_that_fails_on_one_process_is_an_error_on_all(what: str, grad: bool) -> None:
    first, second = workers(2).run(_said_by_failing, what, grad, timeout=SECONDS)
    assert first == "RuntimeError: process 1 failed: KeyError: 'a mistake'"
    assert second == "KeyError: 'a mistake'"


def _said_by_failing(what: str, grad: bool) -> str:
    z = EYE.clone().requires_grad_(grad)
    return _said(lambda: FAILING[what]()(z, EYE, torch.arange(3) % 2))


INPUT: dict[str, Callable[[], Tensor]] = {
    "must be a dense tensor, not torch.sparse_coo": EYE.to_sparse,
    "must be a dense tensor, not nested": lambda: torch.nested.nested_tensor([EYE[0], EYE[1]]),
    "is of type torch.float8_e4m3fn, which is for storage alone; convert it: z1.float()": (
        lambda: EYE.to(torch.float8_e4m3fn)
    ),
    "is on the meta device, where tensors hold no numbers": lambda: EYE.to("meta"),
}


@pytest.mark.parametrize("sentence", INPUT)
@pytest.mark.parametrize("name", ["infonce", "supcon", "barlow", "cloa", "hyperbolic"])
def test_tensors_without_plain_numbers_on_one_process_are_refused_on_all(name: str, sentence: str) -> None:
    first, second = workers(2).run(_said_of_input, name, sentence, timeout=SECONDS)
    assert second == f"ValueError: z1 {sentence}"
    assert first == f"ValueError: process 1 failed: z1 {sentence}"


def _said_of_input(name: str, sentence: str) -> str:
    settings = {"num_classes": 2, "dim": 3} if name == "cloa" else {}
    z = INPUT[sentence]() if _on_second() else EYE
    return _said(lambda: hs.create_objective(name, gather=True, **settings)(z, EYE, torch.arange(3) % 2))


@pytest.mark.parametrize("name", ["infonce", "supcon", "cloa"])
def test_labels_without_plain_numbers_on_one_process_are_refused_on_all(name: str) -> None:
    first, second = workers(2).run(_said_of_labels, name, timeout=SECONDS)
    assert second == "ValueError: labels must be a dense tensor, not torch.sparse_coo"
    assert first == "ValueError: process 1 failed: labels must be a dense tensor, not torch.sparse_coo"


def _said_of_labels(name: str) -> str:
    settings = {"num_classes": 2, "dim": 3} if name == "cloa" else {}
    labels = torch.arange(3) % 2
    labels = labels.to_sparse() if _on_second() else labels
    return _said(lambda: hs.create_objective(name, gather=True, **settings)(EYE, EYE, labels))


@pytest.mark.parametrize("name", ["barlow", "vicreg"])
def test_negatives_for_features_on_one_process_are_refused_on_all(name: str) -> None:
    first, second = workers(2).run(_said_of_negatives, name, timeout=SECONDS)
    assert second == f"ValueError: {name} compares features, not pairs: it takes no negatives"
    assert first == second.replace("ValueError: ", "ValueError: process 1 failed: ")


def _said_of_negatives(name: str) -> str:
    more = EYE if _on_second() else None
    return _said(lambda: hs.create_objective(name, gather=True)(EYE, EYE, negatives=more))


def _changed() -> Objective:
    objective = hs.create_objective("infonce", gather=True)
    objective.temperature = 0.5 if _on_second() else 0.05
    return objective


def _by_process(*each: tuple[str, dict[str, Any]]) -> Objective:
    name, settings = each[dist.get_rank()]
    return hs.create_objective(name, gather=True, **settings)


DIFFERENT: dict[str, tuple[Callable[[], Objective], str, str]] = {
    "a setting": (
        lambda: _by_process(("infonce", {"temperature": 0.05}), ("infonce", {"temperature": 0.5})),
        "temperature=0.05",
        "temperature=0.5",
    ),
    "a setting changed later": (_changed, "temperature=0.05", "temperature=0.5"),
    "the start of what is learned": (
        lambda: _by_process(("siglip", {"bias": -10.0}), ("siglip", {"bias": -5.0})),
        "bias=-10.0",
        "bias=-5.0",
    ),
    "a reduction": (
        lambda: _by_process(("mpt", {"reduction": "mean"}), ("mpt", {"reduction": "sum"})),
        "reduction='mean'",
        "reduction='sum'",
    ),
    "another way of evaluation": (lambda: _by_process(("met", {}), ("spectral", {})), "MET", "Spectral"),
    "features and pairs": (lambda: _by_process(("infonce", {}), ("barlow", {})), "InfoNCE", "Barlow"),
    "labelled and not": (lambda: _by_process(("infonce", {}), ("supcon", {})), "InfoNCE", "SupCon"),
    "a component": (
        lambda: _by_process(("paradigm", {"ratio": "constant"}), ("paradigm", {"ratio": "angle"})),
        "ratio=constant(value=1.0)",
        "ratio=angle()",
    ),
    "a base": (
        lambda: around({"name": "mat", "margin": 0.1 + dist.get_rank()}),
        "base=MAT(margin=0.1",
        "base=MAT(margin=1.1",
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_settings_that_differ_between_processes_are_refused_on_all(what: str) -> None:
    first, second = workers(2).run(_said_of_settings, what, timeout=SECONDS)
    _, one, two = DIFFERENT[what]
    assert first == second
    assert first.startswith(f"ValueError: processes differ in the objective or its settings: process 0 has {one}")
    assert f", process 1 has {two}" in first


def _said_of_settings(what: str) -> str:
    return _said(lambda: DIFFERENT[what][0]()(EYE, EYE, torch.arange(3) % 2))


def test_equal_functions_and_components_are_not_taken_for_a_difference() -> None:
    for said in workers(2).run(_said_of_equals, timeout=SECONDS):
        assert said == ["no error"] * 4


def _said_of_equals() -> list[str]:
    equal = [
        hs.create_objective("triplet", distance=lambda cos: 1 - cos, margin=0.5, gather=True),
        hs.create_objective("paradigm", weight={"name": "power"}, gather=True),
        hs.create_objective("mixup", base={"name": "infonce", "learnable": True}, gather=True),
        around(Product()),
    ]
    return [_said(lambda each=objective: each(EYE, EYE.roll(1, 0))) for objective in equal]


class Product(nn.Module):
    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        return (z1 * z2).sum()


def test_the_time_processes_wait_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYPERSPHERE_TIMEOUT", raising=False)
    assert distributed.timeout() == timedelta(minutes=10)
    monkeypatch.setenv("HYPERSPHERE_TIMEOUT", "1.5")
    assert distributed.timeout() == timedelta(seconds=1.5)
    for wrong in ("soon", "0", "-1", "inf", "nan"):
        monkeypatch.setenv("HYPERSPHERE_TIMEOUT", wrong)
        with pytest.raises(ValueError, match=f"HYPERSPHERE_TIMEOUT must be a number of seconds above 0, not '{wrong}'"):
            distributed.timeout()


class SlowLine:
    """To a process that takes so many seconds to start, and then answers at once."""

    def __init__(self, start: float) -> None:
        self.start, self.answers = start, [(True, None), (True, "answer")]

    def poll(self, timeout: float) -> bool:
        ready, self.start = timeout >= self.start, max(0.0, self.start - timeout)
        return ready

    def recv(self) -> tuple[bool, str | None]:
        return self.answers.pop(0)

    def send_bytes(self, message: bytes) -> None:
        pass


def test_processes_that_start_slowly_answer_what_they_were_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hs.testing.Workers, "close", lambda group: None)
    module = import_module("hypersphere.testing.workers")  # whose name in the package is that of a function
    monkeypatch.setattr(module, "wait", lambda lines, timeout: [line for line in lines if line.poll(timeout)])
    group: Any = hs.testing.Workers.__new__(hs.testing.Workers)
    group.world_size, group._met, group._lines = 1, False, [SlowLine(30.0)]
    assert group.run(len, [], timeout=1.0) == ["answer"]
    group._met, group._lines = False, [SlowLine(3000.0)]
    with pytest.raises(TimeoutError, match=r"processes \[0\] of 1 did not start in time"):
        group.run(len, [], timeout=1.0)


def test_a_process_that_never_comes_is_given_up_in_one_sentence(tmp_path: Path) -> None:
    group = Workers(2)  # not the shared one: a function may have kept the group that is left here as a default
    (first, allowed), (second, _) = group.run(_alone, tmp_path, timeout=SECONDS)
    group.close()
    assert first.startswith("RuntimeError: a process of the group has ended, or did not answer within the time")
    assert "Timed out waiting 500ms" in first
    assert second == "not there"
    assert allowed == timedelta(minutes=10)  # of the workers' own group


def _alone(folder: Path) -> tuple[str, timedelta]:
    rank, allowed = dist.get_rank(), _allowed()
    _meet(folder / "hurried", rank, timedelta(seconds=0.5))
    said = "not there" if rank else _said(lambda: hs.create_objective("infonce", gather=True)(EYE, EYE))
    sleep(rank)  # until it was missed
    return said, allowed


def _meet(place: Path, rank: int, allowed: timedelta) -> None:
    dist.destroy_process_group()
    dist.init_process_group("gloo", f"file://{place}", allowed, rank=rank, world_size=2)


def _allowed() -> timedelta:
    timeout: timedelta = dist.group.WORLD._get_backend(torch.device("cpu")).options._timeout
    return timeout
