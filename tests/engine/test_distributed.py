"""On several real processes: the gradient of one process that holds the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.engine import Anchors, Statistics
from hypersphere.objectives import PairwiseObjective
from hypersphere.testing import workers
from hypersphere.testing.example import views
from tests import cases

LEARNED: list[cases.Case] = [("infonce", {"learnable": True, "symmetric": True}), ("dclw", {"learnable": True})]


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize(("name", "params"), **cases.named(cases.ALL + LEARNED))
def test_distributed_exact(name: str, params: dict[str, Any], world_size: int) -> None:
    hs.testing.assert_distributed_exact(hs.create_objective(name, **params), world_size=world_size)


class Covariance(PairwiseObjective):
    """Not a function of similarities: a quadratic form in the covariance of the whole batch, from its rows."""

    negatives = ()
    anchors = "both"
    reductions = ("mean",)

    def prepare(self, x: Tensor, y: Tensor) -> Tensor:
        return x.T @ x / len(x)

    def block(self, anchors: Anchors) -> Statistics:
        return {"spread": ((anchors.rows @ anchors.context) * anchors.rows).sum(dim=1)}

    def combine(self, statistics: Statistics) -> Statistics:
        return {"loss": statistics["spread"].mean()}


def test_distributed_exact_for_an_objective_that_needs_the_whole_batch() -> None:
    hs.testing.assert_distributed_exact(Covariance(), world_size=3)


def local_infonce(z1: Tensor, z2: Tensor) -> Tensor:
    """Never looks at the other processes."""
    logits = nn.functional.normalize(z1) @ nn.functional.normalize(z2).T / 0.05
    return nn.functional.cross_entropy(logits, torch.arange(len(z1)))


class GatherWithoutGradient(nn.Module):
    """The common mistake: gathered rows carry no gradient, own slice put back; too small by the world size."""

    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        whole = []
        for z in (z1, z2):
            if not dist.is_initialized():
                whole.append(z)
                continue
            sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
            dist.all_gather(sizes, torch.tensor([len(z)]))
            parts = [torch.zeros(8, z.shape[1], dtype=z.dtype) for _ in sizes]
            dist.all_gather(parts, nn.functional.pad(z.detach(), (0, 0, 0, 8 - len(z))))
            parts = [part[: int(size)] for part, size in zip(parts, sizes, strict=True)]
            parts[dist.get_rank()] = z
            whole.append(torch.cat(parts))
        return local_infonce(*whole)


def test_a_loss_that_does_not_gather_is_caught() -> None:
    hs.testing.assert_distributed_exact(local_infonce, world_size=1)
    with pytest.raises(AssertionError, match="direction is wrong"):
        hs.testing.assert_distributed_exact(local_infonce, world_size=2)


def test_a_gradient_too_small_by_the_world_size_is_named_so() -> None:
    with pytest.raises(AssertionError, match=r"0\.5 times the right one"):
        hs.testing.assert_distributed_exact(GatherWithoutGradient(), world_size=2)


def test_our_own_objective_without_gather_is_local_and_would_be_caught() -> None:
    one, other = views(4, 3)
    values = workers(2).run(_value_without_gather, one, other)
    assert values[0] != values[1]


def _value_without_gather(z1: Tensor, z2: Tensor) -> float:
    own = slice(0, 2) if dist.get_rank() == 0 else slice(2, 4)
    return hs.create_objective("infonce")(z1[own], z2[own]).item()


def test_a_process_without_rows_takes_part() -> None:
    z1, z2 = views(5, 3)
    z1.requires_grad_()
    for name in ("infonce", "ntxent", "align_uniform", "supcon"):
        objective = hs.create_objective(name)
        (expected,) = torch.autograd.grad(objective(z1, z2), [z1])
        by_rank = workers(3).run(_with_an_empty_share, name, z1.detach(), z2)
        for value, _ in by_rank:
            assert value == pytest.approx(objective(z1, z2).item(), rel=1e-12)
        torch.testing.assert_close(torch.cat([grad for _, grad in by_rank]) / 3, expected)


def _with_an_empty_share(name: str, z1: Tensor, z2: Tensor) -> tuple[float, Tensor]:
    own = [slice(0, 2), slice(2, 2), slice(2, 5)][dist.get_rank()]
    mine = z1[own].clone().requires_grad_()
    value = hs.create_objective(name, gather=True)(mine, z2[own])
    value.backward()
    return value.item(), mine.grad


def test_one_row_per_process_is_enough() -> None:
    z1, z2 = views(2, 3)
    values = workers(2).run(_one_row, z1, z2)
    assert values[0] == values[1] == pytest.approx(hs.create_objective("infonce")(z1, z2).item())


def _one_row(z1: Tensor, z2: Tensor) -> float:
    own = slice(dist.get_rank(), dist.get_rank() + 1)
    return hs.create_objective("infonce", gather=True)(z1[own], z2[own]).item()


def test_bad_input_on_one_process_is_an_error_on_all() -> None:
    messages = workers(2).run(_nan_on_rank_one)
    assert messages[0] == f"process 1 failed: {messages[1]}"
    assert "NaN" in messages[1]
    # and the group goes on working
    assert len(workers(2).run(_one_row, *views(2, 3))) == 2


def _nan_on_rank_one() -> str:
    z = torch.eye(3) * (float("nan") if dist.get_rank() == 1 else 1)
    return _said(lambda: hs.create_objective("infonce", gather=True)(z, torch.eye(3)))


@pytest.mark.parametrize("name", ["infonce", "supcon", "cloa", "barlow"])
def test_no_tensor_at_all_on_one_process_is_an_error_on_all(name: str) -> None:
    messages = workers(2).run(_no_tensor_on_rank_one, name)
    assert messages[0] == f"process 1 failed: {messages[1]}" and messages[1] == "z1 must be a tensor, not NoneType"


def _no_tensor_on_rank_one(name: str) -> str:
    settings = {"num_classes": 2, "dim": 3} if name == "cloa" else {}
    z: Any = torch.eye(3) if dist.get_rank() == 0 else None
    return _said(lambda: hs.create_objective(name, gather=True, **settings)(z, torch.eye(3), torch.arange(3) % 2))


def _said(call: Callable[[], Any]) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize("name", ["supcon", "cloa"])
def test_labels_on_some_processes_only_are_refused_on_all(name: str) -> None:
    for message in workers(2).run(_labels_on_rank_one, name):
        assert message == "processes differ in the presence of labels: [False, True]"


def _labels_on_rank_one(name: str) -> str:
    settings = {"num_classes": 2, "dim": 3} if name == "cloa" else {}
    labels = torch.arange(3) % 2 if dist.get_rank() else None
    return _said(lambda: hs.create_objective(name, gather=True, **settings)(torch.eye(3), torch.eye(3), labels))


class Failing(PairwiseObjective):
    """On the second process, and there not at once."""

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
        if dist.get_rank() == 1:
            raise KeyError("a mistake in somebody's formula")
        return positive


def test_a_formula_that_fails_on_one_process_is_an_error_on_all() -> None:
    messages = workers(2).run(_failing_on_rank_one)
    assert messages[0] == 'RuntimeError: process 1 failed: KeyError: "a mistake in somebody\'s formula"'
    assert messages[1].startswith("KeyError")
    assert len(workers(2).run(_one_row, *views(2, 3))) == 2  # the group goes on working


def _failing_on_rank_one() -> str:
    z = torch.eye(3, requires_grad=True)
    try:
        Failing(gather=True)(z, torch.eye(3)).backward()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def test_reduction_none_cannot_be_gathered() -> None:
    assert all("cannot be gathered" in message for message in workers(2).run(_gathered_none))


def _gathered_none() -> str:
    objective = hs.create_objective("infonce", gather=True, reduction="none")
    return _said(lambda: objective(torch.eye(3), torch.eye(3)))


def test_parts_are_global_and_differentiable_across_processes() -> None:
    z1, z2 = views(6, 4)
    a = z1.clone().requires_grad_()
    expected = hs.create_objective("align_uniform").terms(a, z2)
    grads = {name: torch.autograd.grad(v, [a], retain_graph=True)[0] for name, v in expected.items()}
    by_rank = workers(2).run(_parts, z1, z2)
    for name, value in expected.items():
        assert by_rank[0][0][name] == by_rank[1][0][name] == pytest.approx(value.item())
        torch.testing.assert_close(torch.cat([f[1][name] for f in by_rank]) / 2, grads[name])


def _parts(z1: Tensor, z2: Tensor) -> tuple[dict[str, float], dict[str, Tensor]]:
    own = slice(0, 2) if dist.get_rank() == 0 else slice(2, 6)
    mine = z1[own].clone().requires_grad_()
    parts = hs.create_objective("align_uniform", gather=True).terms(mine, z2[own])
    grads = {name: torch.autograd.grad(value, [mine], retain_graph=True)[0] for name, value in parts.items()}
    return {name: value.item() for name, value in parts.items()}, grads


def test_learned_settings_are_sharded_with_the_encoder() -> None:
    """FSDP2 takes a module that holds an encoder and a learnable objective, and has the gradient of one process."""
    z1, z2 = views(6, 3)
    step = EncoderAndObjective()
    step(z1, z2).backward()
    for value, gradients, shown in workers(2).run(_sharded_step, z1, z2):
        assert value == pytest.approx(step(z1, z2).item(), rel=1e-12)
        for gradient, parameter in zip(gradients, step.parameters(), strict=True):
            torch.testing.assert_close(gradient, parameter.grad)
        assert shown == "SigLIP(temperature='sharded', bias='sharded')"


class EncoderAndObjective(nn.Module):
    def __init__(self, **params: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Linear(3, 3).double()
        self.objective = hs.create_objective("siglip", **params).double()

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        value: Tensor = self.objective(self.encoder(a), self.encoder(b))
        return value


def _sharded_step(z1: Tensor, z2: Tensor) -> tuple[float, list[Tensor], str]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    step = EncoderAndObjective(gather=True)
    fully_shard(step, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    own = slice(0, 2) if dist.get_rank() == 0 else slice(2, 6)
    value = step(z1[own], z2[own])
    value.backward()
    gradients = [parameter.grad.full_tensor() for parameter in step.parameters()]
    step.objective.gather = False
    return value.item(), gradients, repr(step.objective)


def test_what_cannot_be_sent_to_other_processes_is_said() -> None:
    with pytest.raises(ValueError, match="picklable"):
        hs.testing.assert_distributed_exact(lambda a, b: (a * b).sum(), world_size=2)
