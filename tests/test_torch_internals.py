"""Where torch lacks a private name that is probed, results are the same."""

from __future__ import annotations

import pytest
import torch

import hypersphere as hs
from hypersphere.testing.example import views
from hypersphere.torch_internals import graph_is_freed, is_batch_norm, plain_operations, uncompiled, version_of


def missing(_: object) -> None:
    raise AttributeError


@pytest.mark.parametrize("name", ["infonce", "met", "siglip", "supcon"])
def test_without_knowing_whether_a_graph_is_freed_gradients_are_copied(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    z1, z2 = (z.requires_grad_() for z in views(9, 4))
    objective = hs.create_objective(name).double()
    for context in (hs.dense, lambda: hs.streaming(4)):
        with context():
            expected = torch.autograd.grad(objective(z1, z2), [z1, z2])
            with monkeypatch.context() as patch:
                patch.delattr(torch._C._autograd, "_get_current_graph_task_keep_graph")
                assert not graph_is_freed()
                loss = objective(z1, z2)
                torch.testing.assert_close(torch.autograd.grad(loss, [z1, z2]), expected, rtol=1e-12, atol=1e-14)


def test_a_backward_can_tell_whether_its_graph_is_freed() -> None:
    seen: list[bool] = []
    x = torch.ones(1, requires_grad=True)
    value = 2 * x
    value.grad_fn.register_hook(lambda *_: seen.append(graph_is_freed()))
    torch.autograd.grad(value, x, retain_graph=True)
    torch.autograd.grad(value, x)
    assert seen == [False, True]


def test_a_version_counts_writes_and_is_unknown_in_inference_mode() -> None:
    x = torch.zeros(2)
    before = version_of(x)
    x.add_(1)
    assert before is not None and version_of(x) == before + 1
    with torch.inference_mode():
        assert version_of(torch.zeros(2)) is None


@pytest.mark.parametrize("name", ["infonce", "met", "supcon", "geodesic"])
def test_without_versions_values_and_gradients_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    z1, z2 = (z.requires_grad_() for z in views(9, 4))
    labels, objective = torch.arange(9) % 4, hs.create_objective(name).double()

    def run() -> tuple[torch.Tensor, ...]:
        loss = objective(z1, z2, labels) if name == "supcon" else objective(z1, z2)
        return loss, *torch.autograd.grad(loss, [z1, z2])

    for context in (hs.dense, lambda: hs.streaming(4)):
        with context():
            expected = run()
            with monkeypatch.context() as patch:
                patch.setattr(torch.Tensor, "_version", property(missing), raising=False)
                assert version_of(z1) is None
                torch.testing.assert_close(run(), expected, rtol=1e-12, atol=1e-14)


def test_batch_normalisation_is_recognised_without_its_private_class(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in (True, False):
        if not known:
            monkeypatch.delattr(torch.nn.modules.batchnorm, "_BatchNorm")
        assert is_batch_norm(torch.nn.BatchNorm1d(2)) and is_batch_norm(torch.nn.SyncBatchNorm(2))
        assert not is_batch_norm(torch.nn.LayerNorm(2))


def test_without_the_name_of_transforms_forward_mode_is_still_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_are_functorch_transforms_active")
    assert not plain_operations()
    with torch.autograd.forward_ad.dual_level():
        assert plain_operations()


def test_without_the_level_of_forward_mode_transforms_are_still_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.autograd.forward_ad, "_current_level")
    assert not plain_operations()
    seen: list[bool] = []
    torch.func.grad(lambda x: seen.append(plain_operations()) or x.sum())(torch.ones(2))
    assert seen == [True]


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # the compiler looks at it, and hides the warning itself
def test_a_function_without_the_compilers_mark_gives_the_same_when_compiled() -> None:
    import torch._dynamo

    call = uncompiled(lambda x: 3 * x)
    torch._dynamo.reset()
    for marked in (True, False):
        if not marked:
            del call._torchdynamo_disable  # type: ignore[attr-defined]
        step = torch.compile(lambda x: call(x + 1) - 1, backend="eager")
        assert step(torch.ones(2)).tolist() == [5, 5]
