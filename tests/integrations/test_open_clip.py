"""open_clip's call form: the scale and the bias belong to the model."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, logsigmoid, normalize

import hypersphere as hs
from hypersphere.testing import workers
from hypersphere.testing.example import views

Loss = hs.integrations.open_clip.Loss


def peer(name: str, image: Tensor, text: Tensor, scale: Tensor, bias: Tensor | None) -> Tensor:
    """ClipLoss and SigLipLoss by their formulas, on unit rows."""
    logits = scale * image @ text.T + (0 if bias is None else bias)
    if name == "infonce":
        own = torch.arange(len(image))
        return (cross_entropy(logits, own) + cross_entropy(logits.T, own)) / 2
    return -logsigmoid((2 * torch.eye(len(image)).to(logits) - 1) * logits).sum() / len(image)


@pytest.mark.parametrize("bias", [None, -7.0])
@pytest.mark.parametrize("name", ["infonce", "siglip"])
def test_value_and_all_gradients_are_the_peers(name: str, bias: float | None) -> None:
    def leaves() -> list[Tensor]:
        given = [*views(6, 4), torch.tensor(math.log(14.0), dtype=torch.float64)]
        given += [] if bias is None else [torch.tensor(bias, dtype=torch.float64)]
        return [each.clone().requires_grad_() for each in given]

    ours, theirs = leaves(), leaves()
    image, text = (normalize(each) for each in ours[:2])
    loss = Loss(name)(image, text, ours[2].exp(), *ours[3:])
    expected = peer(name, normalize(theirs[0]), normalize(theirs[1]), theirs[2].exp(), *(theirs[3:] or [None]))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    for a, b in zip(torch.autograd.grad(loss, ours), torch.autograd.grad(expected, theirs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_it_is_called_as_open_clips_training_loop_calls_it() -> None:
    image, text = (normalize(each) for each in views(6, 4))
    output = {"image_features": image, "text_features": text, "logit_scale": torch.tensor(10.0)}
    losses = Loss()(**output, output_dict=True)
    assert list(losses) == ["contrastive_loss"]
    assert losses["contrastive_loss"].item() == Loss()(**output).item()


class TwoTowers(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(8, 4), nn.Linear(6, 4)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(scale)))
        self.logit_bias = nn.Parameter(torch.tensor(-5.0))

    def forward(self, images: Tensor, texts: Tensor) -> dict[str, Any]:
        image, text = normalize(self.image(images)), normalize(self.text(texts))
        return {"image_features": image, "text_features": text, "logit_scale": self.logit_scale.exp()}


@pytest.mark.parametrize("name", ["infonce", "siglip", "met", "dcl"])
def test_two_towers_train_with_it(name: str) -> None:
    torch.manual_seed(0)
    loss, model = Loss(name), TwoTowers(10.0)
    both = torch.randn(32, 5)
    images, texts = both @ torch.randn(5, 8), both @ torch.randn(5, 6)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    values = []
    for _ in range(30):
        optimiser.zero_grad()
        value = loss(**model(images, texts), logit_bias=model.logit_bias)
        value.backward()
        assert all(each.grad is not None for each in model.parameters())  # DDP waits for every parameter
        optimiser.step()
        values.append(value.item())
    assert values[-1] < values[0]
    assert not any(each.requires_grad for each in loss.parameters())
    changed = model.logit_scale.item() != pytest.approx(math.log(10.0), abs=1e-6)
    assert changed == (name != "met")


def test_a_capped_scale_neither_runs_away_nor_gets_stuck() -> None:
    aligned = torch.eye(6)  # pushes the scale upwards for ever
    crossed = torch.eye(6).roll(1, 0)  # pulls it down
    loss, log_scale = Loss(max_scale=20.0), nn.Parameter(torch.tensor(math.log(18.0)))
    optimiser = torch.optim.SGD([log_scale], lr=1e6)
    for _ in range(20):
        optimiser.zero_grad()
        value = loss(aligned, aligned, log_scale.exp())
        assert value.item() == pytest.approx(loss(aligned, aligned, log_scale.exp().clamp(max=20)).item())
        value.backward()
        optimiser.step()
    first_beyond = log_scale.item()
    assert first_beyond >= math.log(20)
    assert log_scale.grad is not None and log_scale.grad.item() == 0
    loss(aligned, crossed, log_scale.exp()).backward()
    assert log_scale.grad.item() > 0


@pytest.mark.parametrize("name", ["infonce", "siglip"])
def test_two_processes_are_one_with_the_whole_batch(name: str) -> None:
    z1, z2 = views(7, 4)
    by_rank = workers(2).run(_part, name, z1, z2)
    scale, bias = (torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in (10.0, -3.0))
    rows = [each.clone().requires_grad_() for each in (z1, z2)]
    expected = Loss(name)(*rows, scale, bias)
    grads = torch.autograd.grad(expected, [*rows, scale, bias])
    for value, *_ in by_rank:
        assert value == pytest.approx(expected.item(), rel=1e-12)
    for place in (1, 2):
        whole = torch.cat([each[place] for each in by_rank]) / 2
        torch.testing.assert_close(whole, grads[place - 1], rtol=1e-9, atol=1e-11)
    for place in (3, 4):
        averaged = (by_rank[0][place] + by_rank[1][place]) / 2
        torch.testing.assert_close(averaged, grads[place - 1], rtol=1e-9, atol=1e-11)


def _part(name: str, z1: Tensor, z2: Tensor) -> list[Any]:
    own = (slice(0, 3), slice(3, 7))[torch.distributed.get_rank()]
    scale, bias = (torch.tensor(each, dtype=torch.float64, requires_grad=True) for each in (10.0, -3.0))
    rows = [each[own].clone().requires_grad_() for each in (z1, z2)]
    loss = Loss(name, gather=True)(*rows, scale, bias)
    return [loss.item(), *torch.autograd.grad(loss, [*rows, scale, bias])]


def test_half_precision_features_and_scale() -> None:
    z1, z2 = views(6, 4)
    half = Loss()(z1.half(), z2.half(), torch.tensor(10.0).half())
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(Loss()(z1, z2, torch.tensor(10.0)).item(), rel=1e-2)


@pytest.mark.parametrize(
    ("settings", "scale", "message"),
    [
        ({"temperature": 0.1}, 10.0, "temperature belongs to the model here"),
        ({"rank": 0, "local_loss": True}, 10.0, "local_loss is ClipLoss's: leave it out, and give gather=True"),
        ({}, None, "logit_scale must be one number, not NoneType"),
        ({"max_scale": 0.0}, 10.0, "max_scale must be above 0 or None, not 0.0"),
        ({}, -1.0, "logit_scale must be above 0, not -1"),
        ({}, [1.0, 2.0], r"logit_scale must be one number, not a tensor of shape \(2,\)"),
    ],
)
def test_bad_input_gets_one_sentence(settings: dict[str, Any], scale: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r"text_features must be the rows \(N, D\) of the positives, not NoneType"):
        Loss()(views(4, 3)[0], None, torch.tensor(10.0))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"image_features must be the rows \(N, D\) of the anchors, not NoneType"):
        Loss()(None, views(4, 3)[0], torch.tensor(10.0))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        Loss(**settings)(*views(4, 3), None if scale is None else torch.tensor(scale))
