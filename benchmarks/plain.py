"""The objectives as one would write them in an afternoon: dense, in plain PyTorch, one function each.

What the engine is measured against. h, h' are the unit rows of the two views (N, D).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

Number = float | Tensor


def _eye(size: int, like: Tensor) -> Tensor:
    return torch.eye(size, dtype=torch.bool, device=like.device)


def _stacked(z1: Tensor, z2: Tensor) -> Tensor:
    return F.normalize(torch.cat([z1, z2]), dim=1)  # (2N, D)


def infonce(z1: Tensor, z2: Tensor, temperature: Number = 0.05) -> Tensor:
    logits = F.normalize(z1, dim=1) @ F.normalize(z2, dim=1).T / temperature
    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def infonce_symmetric(z1: Tensor, z2: Tensor, temperature: Number = 0.05) -> Tensor:
    logits = F.normalize(z1, dim=1) @ F.normalize(z2, dim=1).T / temperature
    own = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


def ntxent(z1: Tensor, z2: Tensor, temperature: Number = 0.5) -> Tensor:
    z = _stacked(z1, z2)
    logits = (z @ z.T / temperature).masked_fill(_eye(len(z), z), -torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=z.device).roll(len(z1)))


def dclw(z1: Tensor, z2: Tensor, temperature: Number = 0.1, sigma: float = 0.5) -> Tensor:
    z = _stacked(z1, z2)
    positive = (z[: len(z1)] * z[len(z1) :]).sum(dim=1).repeat(2)  # (2N,)
    own = _eye(len(z), z)
    logits = (z @ z.T / temperature).masked_fill(own | own.roll(len(z1), 0), -torch.inf)
    weight = 2 - len(positive) * torch.softmax(positive.detach() / sigma, dim=0)
    return (logits.logsumexp(dim=1) - weight * positive / temperature).mean()


def met(z1: Tensor, z2: Tensor, margin: float = 0.45) -> Tensor:
    distances = (2 - 2 * F.normalize(z1, dim=1) @ F.normalize(z2, dim=1).T).clamp_min(1e-12).sqrt()
    nearest = distances.masked_fill(_eye(len(z1), z1), torch.inf).min(dim=1).values
    return F.relu(distances.diagonal() - nearest + margin).mean()


def _uniformity(x: Tensor, y: Tensor, t: float) -> Tensor:
    squared = (2 - 2 * x @ y.T).masked_fill(_eye(len(x), x), torch.inf)
    return torch.logsumexp((-t * squared).flatten(), dim=0) - torch.tensor(len(x) * (len(x) - 1.0)).log()


def align_uniform_same(z1: Tensor, z2: Tensor, t: float = 2.0, weight: float = 0.5) -> Tensor:
    x, y = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    uniformity = (_uniformity(x, x, t) + _uniformity(y, y, t)) / 2
    return (1 - weight) * (x - y).square().sum(dim=1).mean() + weight * uniformity


def align_uniform_cross(z1: Tensor, z2: Tensor, t: float = 2.0, weight: float = 0.5) -> Tensor:
    x, y = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    return (1 - weight) * (x - y).square().sum(dim=1).mean() + weight * _uniformity(x, y, t)


def kcl_gaussian(z1: Tensor, z2: Tensor, t: float = 2.0, gamma: float = 16.0) -> Tensor:
    x, y = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    kernel = torch.exp(-t * (2 - 2 * x @ x.T)).masked_fill(_eye(len(x), x), 0)
    energy = kernel.sum() / (len(x) * (len(x) - 1))
    return gamma * energy - torch.exp(-t * (x - y).square().sum(dim=1)).mean()


def kcl_log(z1: Tensor, z2: Tensor, t: float = 2.0, gamma: float = 16.0) -> Tensor:
    x, y = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    kernel = (-0.5 * torch.log1p(t * (2 - 2 * x @ x.T))).masked_fill(_eye(len(x), x), 0)
    energy = kernel.sum() / (len(x) * (len(x) - 1))
    return gamma * energy + 0.5 * torch.log1p(t * (x - y).square().sum(dim=1)).mean()


def siglip(z1: Tensor, z2: Tensor, temperature: Number = 0.1, bias: Number = -10.0) -> Tensor:
    logits = F.normalize(z1, dim=1) @ F.normalize(z2, dim=1).T / temperature + bias
    sign = 2 * torch.eye(len(logits), dtype=logits.dtype, device=logits.device) - 1
    return -F.logsigmoid(sign * logits).sum() / len(logits)


def supcon(z1: Tensor, z2: Tensor, labels: Tensor, temperature: Number = 0.1) -> Tensor:
    z = _stacked(z1, z2)
    own = _eye(len(z), z)
    logits = (z @ z.T / temperature).masked_fill(own, -torch.inf)
    both = labels.repeat(2)
    positives = (both.unsqueeze(0) == both.unsqueeze(1)) & ~own
    log_share = logits - logits.logsumexp(dim=1, keepdim=True)
    return -(log_share.masked_fill(~positives, 0).sum(dim=1) / positives.sum(dim=1)).mean()


def paradigm(z1: Tensor, z2: Tensor, margin: float = 0.3, temperature: float = 0.05, ratio: float = 1.0) -> Tensor:
    """The baseline: margin dissipation, softmax weight, constant ratio."""
    cos = F.normalize(z1, dim=1) @ F.normalize(z2, dim=1).T
    positive, others = cos.diagonal(), cos.detach().masked_fill(_eye(len(cos), cos), -torch.inf)
    gate = (positive.detach() - others.amax(dim=1) < margin).to(cos)
    weight = torch.softmax(others / temperature, dim=1)
    return (gate * ((weight * cos).sum(dim=1) - ratio * positive)).mean()


def _modified(x: Tensor, y: Tensor, weigh_by: Tensor, factor: float, ratio: float, margin: float) -> Tensor:
    """One view's turn as anchors x; weights, keys and positives carry no gradient."""
    own = _eye(len(x), x)
    positive = (x * y).sum(dim=1)
    with torch.no_grad():
        hardest = (x @ y.T).masked_fill(own, -torch.inf).amax(dim=1)
        gate = (positive - hardest < margin).to(x)
        weight = factor * torch.softmax(weigh_by.masked_fill(own, -torch.inf).flatten(), dim=0).view_as(weigh_by)
    return (gate * ((weight * (x @ x.detach().T)).sum(dim=1) - ratio * weight.sum(dim=1) * positive)).sum()


def mmhe(z1: Tensor, z2: Tensor, margin: float = 0.3, temperature: float = 0.05, ratio: float = 1.75) -> Tensor:
    x, y = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    return sum(  # type: ignore[return-value]
        _modified(a, b.detach(), a.detach() @ a.detach().T / temperature, 2 / temperature, ratio, margin)
        for a, b in ((x, y), (y, x))
    )


def mbarlow(z1: Tensor, z2: Tensor, margin: float = 0.3, temperature: float = 0.05, ratio: float = 1.5) -> Tensor:
    x, y = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    return sum(  # type: ignore[return-value]
        _modified(a, b.detach(), a.detach() @ b.detach().T / temperature, 1.0, ratio, margin)
        for a, b in ((x, y), (y, x))
    )


def cloa(z1: Tensor, z2: Tensor, labels: Tensor, anchors: Tensor) -> Tensor:
    """InfoNCE and the pull of every row, all of them labelled, towards its class's anchor."""
    along = (_stacked(z1, z2) * anchors[labels].repeat(2, 1)).sum(dim=1)
    return infonce(z1, z2) + (1 - along).mean()
