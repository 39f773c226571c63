"""An objective beside torch's own tools: compiled, in bfloat16, accumulated, checkpointed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import hypersphere as hs
from tests.integrations import small

CONTEXTS = {"dense": hs.dense, "streamed": lambda: hs.streaming(4)}


def encoder() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 4))


def pairs(rows: int = 12) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(rows, 6, generator=generator) + 0.3 * torch.randn(2, rows, 6, generator=generator)


def gradient(model: nn.Module, loss: Tensor) -> Tensor:
    return torch.cat([grad.flatten() for grad in torch.autograd.grad(loss, list(model.parameters()))])


def plain_infonce(z1: Tensor, z2: Tensor, temperature: float) -> Tensor:
    h1, h2 = (nn.functional.normalize(z.float(), dim=1) for z in (z1, z2))
    return nn.functional.cross_entropy(h1 @ h2.T / temperature, torch.arange(len(h1)))


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # the compiler looks at it, and hides the warning itself
def test_a_compiled_encoder_is_one_graph_and_an_objective_breaks_it_once() -> None:
    import torch._dynamo

    graphs: list[Any] = []

    def count(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    model, (x1, x2) = encoder().eval(), pairs()
    objective = hs.create_objective("infonce", temperature=0.2)

    def step(a: Tensor, b: Tensor) -> Tensor:
        return 2 * objective(model(a), model(b))

    with hs.streaming(4):
        expected = gradient(model, step(x1, x2))
        torch._dynamo.reset()
        alone: Any = torch.compile(model, backend=count, fullgraph=True)  # which raises if there is a break
        torch.testing.assert_close(gradient(model, 2 * objective(alone(x1), alone(x2))), expected)
        assert len(graphs) == 1
        torch._dynamo.reset()
        explained: Any = torch._dynamo.explain(step)(x1, x2)  # type: ignore[no-untyped-call]
        assert (explained.graph_break_count, explained.graph_count) == (1, 2)
        torch._dynamo.reset()
        graphs.clear()
        compiled = torch.compile(step, backend=count)
        for _ in range(2):  # the second step compiles nothing
            torch.testing.assert_close(gradient(model, compiled(x1, x2)), expected)
            assert len(graphs) == 2


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_under_autocast_rows_of_bfloat16_are_compared_in_float32(context: Any) -> None:
    model, (x1, x2) = encoder().eval(), pairs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z1, z2 = model(x1), model(x2)
        with context():
            loss = hs.create_objective("infonce", temperature=0.2)(z1, z2)
    assert (z1.dtype, loss.dtype) == (torch.bfloat16, torch.float32)
    reference = plain_infonce(z1, z2, 0.2)  # of the same rows, outside of autocast
    torch.testing.assert_close(loss, reference, rtol=1e-6, atol=1e-6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = plain_infonce(z1, z2, 0.2)  # whose products are bfloat16
    assert abs(rough.item() - reference.item()) > 1e-4
    actual, expected = (torch.autograd.grad(value, [z1, z2], retain_graph=True) for value in (loss, reference))
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=2**-7, atol=1e-6)  # one rounding to bfloat16
    for parameter in torch.autograd.grad(loss, list(model.parameters())):
        assert parameter.dtype == torch.float32 and bool(parameter.isfinite().all())


def test_accumulation_adds_no_negatives_and_a_gradient_cache_does() -> None:
    model, x = encoder().eval(), pairs()
    objective = hs.create_objective("infonce", temperature=0.2)
    halves = [x[:, :6], x[:, 6:]]
    whole = gradient(model, plain_infonce(model(x[0]), model(x[1]), 0.2))
    separate = [gradient(model, plain_infonce(model(one), model(other), 0.2)) for one, other in halves]
    for one, other in halves:
        (objective(model(one), model(other)) / 2).backward()
    accumulated = torch.cat(
        [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
    )
    torch.testing.assert_close(accumulated, torch.stack(separate).mean(dim=0), rtol=1e-5, atol=1e-6)
    assert (accumulated - whole).norm().item() > 0.1 * whole.norm().item()
    cached = hs.GradientCache(model, chunk_size=6)
    torch.testing.assert_close(gradient(model, objective(cached(x[0]), cached(x[1]))), whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_a_checkpointed_encoder_has_the_same_gradient(context: Any) -> None:
    model, (x1, x2) = encoder().train(), pairs()
    objective = hs.create_objective("ntxent", temperature=0.2)

    def embedded(x: Tensor) -> Any:
        return checkpoint(model, x, use_reentrant=False)

    with context():
        torch.manual_seed(3)
        expected = gradient(model, objective(model(x1), model(x2)))
        torch.manual_seed(3)  # the same dropout, which the checkpoint draws again in backward
        actual = gradient(model, objective(embedded(x1), embedded(x2)))
    torch.testing.assert_close(actual, expected)
    torch.manual_seed(4)
    assert not torch.allclose(gradient(model, objective(model(x1), model(x2))), expected)


def test_the_lines_of_the_page_run_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(small.section("torch.compile, FSDP, bf16, accumulation, checkpointing"), names)
    assert names["loss"].dtype == torch.float32 and names["encoder"][0].weight.grad is not None
