"""The objectives as one would write them in an afternoon: dense, in plain PyTorch, one function each.

The engine is measured against them. h, h' are the unit rows of the two views (N, D).
"""

from __future__ import annotations

import math
from itertools import combinations

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


def infonce_as_formula(z1: Tensor, z2: Tensor, temperature: Number = 0.05) -> Tensor:
    """InfoNCE without torch's cross-entropy kernel."""
    logits = F.normalize(z1, dim=1) @ F.normalize(z2, dim=1).T / temperature
    return (logits.logsumexp(dim=1) - logits.diagonal()).mean()


def infonce_symmetric(z1: Tensor, z2: Tensor, temperature: Number = 0.05) -> Tensor:
    logits = F.normalize(z1, dim=1) @ F.normalize(z2, dim=1).T / temperature
    own = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


def ntxent(z1: Tensor, z2: Tensor, temperature: Number = 0.5) -> Tensor:
    z = _stacked(z1, z2)
    logits = (z @ z.T / temperature).masked_fill(_eye(len(z), z), -torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=z.device).roll(len(z1)))


def dcl_both(z1: Tensor, z2: Tensor, temperature: Number = 0.1) -> Tensor:
    z = _stacked(z1, z2)
    positive = (z[: len(z1)] * z[len(z1) :]).sum(dim=1).repeat(2)  # (2N,)
    own = _eye(len(z), z)
    logits = (z @ z.T / temperature).masked_fill(own | own.roll(len(z1), 0), -torch.inf)
    return (logits.logsumexp(dim=1) - positive / temperature).mean()


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
    """One view as anchors x; weights, keys and positives carry no gradient."""
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


def mvicreg(z1: Tensor, z2: Tensor, margin: float = 0.3, temperature: float = 0.05, ratio: float = 1.5) -> Tensor:
    x, y = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    return sum(  # type: ignore[return-value]
        _modified(a, b.detach(), a.detach() @ a.detach().T / temperature, 1.0, ratio, margin)
        for a, b in ((x, y), (y, x))
    )


def mmhs(z1: Tensor, z2: Tensor, margin: float = 0.3, ratio: float = 1.75) -> Tensor:
    def direction(x: Tensor, y: Tensor) -> Tensor:
        own = _eye(len(x), x)
        positive = (x * y).sum(dim=1)
        with torch.no_grad():
            gate = (positive - (x @ y.T).masked_fill(own, -torch.inf).amax(dim=1) < margin).to(x)
            cos, nearest = (x @ x.T).masked_fill(own, -torch.inf).max(dim=1)
            weight = gate / (2 - 2 * cos).clamp_min(1e-12).sqrt()
        return (weight * ((x * x.detach()[nearest]).sum(dim=1) - ratio * positive)).sum()

    x, y = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    return direction(x, y.detach()) + direction(y, x.detach())


def cloa(z1: Tensor, z2: Tensor, labels: Tensor, anchors: Tensor) -> Tensor:
    """InfoNCE and the pull of every row towards its class's anchor; all rows are labelled."""
    along = (_stacked(z1, z2) * anchors[labels].repeat(2, 1)).sum(dim=1)
    return infonce(z1, z2) + (1 - along).mean()


def _cosines(z1: Tensor, z2: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines (N, N) of the views, and the mask of the positive pairs."""
    return F.normalize(z1, dim=1) @ F.normalize(z2, dim=1).T, _eye(len(z1), z1)


def dcl(z1: Tensor, z2: Tensor, temperature: Number = 0.05) -> Tensor:
    cos, own = _cosines(z1, z2)
    logits = cos / temperature
    return (logits.masked_fill(own, -torch.inf).logsumexp(dim=1) - logits.diagonal()).mean()


def dcl_plus(z1: Tensor, z2: Tensor, temperature: Number = 0.15) -> Tensor:
    cos, own = _cosines(z1, z2)
    logits = cos / temperature
    return F.relu(logits.masked_fill(own, -torch.inf).logsumexp(dim=1) - logits.diagonal()).mean()


def arccon(z1: Tensor, z2: Tensor, temperature: Number = 0.05, angle: float = math.pi / 18) -> Tensor:
    cos, own = _cosines(z1, z2)
    enlarged = torch.cos(_angle(cos.diagonal()) + angle)
    logits = torch.where(own, enlarged.unsqueeze(1), cos) / temperature
    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def _angle(cos: Tensor) -> Tensor:
    return torch.arccos(cos.clamp(-1 + 1e-7, 1 - 1e-7))


def debiased(z1: Tensor, z2: Tensor, temperature: float = 0.5, prior: float = 0.1) -> Tensor:
    z = _stacked(z1, z2)
    own = _eye(len(z), z)
    powers = torch.exp(z @ z.T / temperature).masked_fill(own | own.roll(len(z1), 0), 0)
    positive = torch.exp((z[: len(z1)] * z[len(z1) :]).sum(dim=1) / temperature).repeat(2)  # (2N,)
    count = len(z) - 2
    others = (powers.sum(dim=1) - prior * count * positive) / (1 - prior)
    others = others.clamp_min(count * math.exp(-1 / temperature))
    return -torch.log(positive / (positive + others)).mean()


def geodesic(z1: Tensor, z2: Tensor, temperature: Number = 0.1) -> Tensor:
    z = _stacked(z1, z2)
    logits = (-_angle(z @ z.T) / temperature).masked_fill(_eye(len(z), z), -torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z), device=z.device).roll(len(z1)))


def hyperbolic(
    z1: Tensor, z2: Tensor, temperature: Number = 0.1, curvature: float = 1.0, weight: float = 0.1, longest: float = 2.3
) -> Tensor:
    root = math.sqrt(curvature)

    def in_ball(z: Tensor) -> Tensor:
        norm: Tensor = z.norm(dim=1, keepdim=True)
        return torch.tanh(root * norm.clamp_max(longest)) * z / (root * norm)

    x, y = in_ball(z1), in_ball(z2)
    squares = x.square().sum(dim=1), y.square().sum(dim=1)
    apart = squares[0].unsqueeze(1) + squares[1] - 2 * x @ y.T
    room = (1 - curvature * squares[0]).unsqueeze(1) * (1 - curvature * squares[1])
    logits = -torch.acosh(1 + (2 * curvature * apart / room).clamp_min(1e-6)) / root / temperature
    return infonce(z1, z2, temperature) + weight * F.cross_entropy(logits, torch.arange(len(z1), device=z1.device))


def mixup(z1: Tensor, z2: Tensor, temperature: Number = 0.05, mix: float = 0.2) -> Tensor:
    """InfoNCE with one more negative, mixed from the two hardest."""
    x, y = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    cos = x @ y.T
    hardest = cos.detach().masked_fill(_eye(len(x), x), -torch.inf).topk(2, dim=1).indices  # (N, 2)
    mixed = mix * y[hardest[:, 0]].detach() + (1 - mix) * y[hardest[:, 1]].detach()
    logits = torch.cat([cos, (x * mixed).sum(dim=1, keepdim=True)], dim=1) / temperature
    return F.cross_entropy(logits, torch.arange(len(x), device=x.device))


def mpt(z1: Tensor, z2: Tensor, margin: float = 0.23) -> Tensor:
    cos, own = _cosines(z1, z2)
    return F.relu(margin - cos.diagonal() + cos.masked_fill(own, -torch.inf).amax(dim=1)).mean()


def mat(z1: Tensor, z2: Tensor, margin: float = 0.15 * math.pi) -> Tensor:
    cos, own = _cosines(z1, z2)
    angles = _angle(cos)
    return F.relu(angles.diagonal() - angles.masked_fill(own, torch.inf).amin(dim=1) + margin).mean()


def mhe(z1: Tensor, z2: Tensor, weight: float = 10.0) -> Tensor:
    x, y = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    return (x - y).square().sum(dim=1).mean() + weight * _uniformity(x, x, 1.0)


def mhs(z1: Tensor, z2: Tensor, weight: float = 1.0) -> Tensor:
    x, y = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    distances = (2 - 2 * x @ x.T).clamp_min(1e-12).sqrt()
    nearest = distances.masked_fill(_eye(len(x), x), torch.inf).min(dim=1).values
    return ((x - y).square().sum(dim=1) - weight * nearest).mean()


def koleo(z1: Tensor, z2: Tensor, eps: float = 1e-8) -> Tensor:
    loss = z1.new_zeros(())
    for z in (z1, z2):
        x = F.normalize(z, dim=1)
        distances = (2 - 2 * x @ x.T).clamp_min(1e-12).sqrt()
        nearest = distances.masked_fill(_eye(len(x), x), torch.inf).min(dim=1).values
        loss = loss - (nearest + eps).log().mean() / 2
    return loss


def gor(z1: Tensor, z2: Tensor) -> Tensor:
    loss = z1.new_zeros(())
    for z in (z1, z2):
        x = F.normalize(z, dim=1)
        cos = _off_diagonal(x @ x.T)
        pairs = len(x) * (len(x) - 1)
        loss = loss + ((cos.sum() / pairs) ** 2 + F.relu(cos.square().sum() / pairs - 1 / x.shape[1])) / 2
    return loss


def plus(z1: Tensor, z2: Tensor) -> Tensor:
    return infonce(z1, z2) + koleo(z1, z2)


def macl(z1: Tensor, z2: Tensor, temperature: float = 0.1, alpha: float = 0.5) -> Tensor:
    z = _stacked(z1, z2)
    aligned = (z[: len(z1)] * z[len(z1) :]).sum(dim=1).mean().detach()
    logits = (z @ z.T / (temperature * (1 + alpha * aligned))).masked_fill(_eye(len(z), z), -torch.inf)
    losses = F.cross_entropy(logits, torch.arange(len(z), device=z.device).roll(len(z1)), reduction="none")
    return (losses / (1 - torch.exp(-losses)).detach()).mean()


def guided(z1: Tensor, z2: Tensor, guide: Tensor, temperature: Number = 0.05) -> Tensor:
    """InfoNCE without the columns that the guide finds more similar to an anchor than its positive, seen as the same
    row of the guide."""
    logits = F.normalize(z1, dim=1) @ F.normalize(z2, dim=1).T / temperature
    rows = F.normalize(guide, dim=1)
    cosines = rows @ rows.T
    logits = logits.masked_fill(cosines > cosines.diagonal().unsqueeze(1) + 1e-6, -torch.inf)
    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def mv_infonce(*views: Tensor, temperature: Number = 0.5) -> Tensor:
    number, size = len(views), len(views[0])
    z = F.normalize(torch.cat(views), dim=1)  # (VN, D)
    logits = (z @ z.T / temperature).masked_fill(_eye(len(z), z), -torch.inf)
    positives = logits.view(number, size, number, size).diagonal(dim1=1, dim2=3)  # (V, V, N)
    everything = logits.logsumexp(dim=1).view(number, size).logsumexp(dim=0)
    return (everything - positives.logsumexp(dim=(0, 1))).mean()


def mv_dhel(*views: Tensor, temperature: Number = 0.5) -> Tensor:
    z = [F.normalize(view, dim=1) for view in views]
    own = _eye(len(z[0]), z[0])
    energies = [(x @ x.T / temperature).masked_fill(own, -torch.inf).logsumexp(dim=1) for x in z]
    positives = torch.stack([(x * y).sum(dim=1) / temperature for x, y in combinations(z, 2)])
    return (torch.stack(energies).sum(dim=0) - positives.logsumexp(dim=0)).mean()


def artanh_infonce(z1: Tensor, z2: Tensor, scale: float = 2.0) -> Tensor:
    logits = scale * (F.normalize(z1, dim=1) @ F.normalize(z2, dim=1).T).clamp(1e-6 - 1, 1 - 1e-6).atanh()
    return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def prototypes(z1: Tensor, z2: Tensor, labels: Tensor, weights: Tensor, temperature: float, own_class: bool) -> Tensor:
    loss = z1.new_zeros(())
    for z in (z1, z2):
        logits = F.normalize(weights, dim=1)[labels] @ F.normalize(z, dim=1).T / temperature  # (N, N)
        others = logits if own_class else logits.masked_fill(labels.unsqueeze(1) == labels, -torch.inf)
        loss = loss + (others.logsumexp(dim=1) - logits.diagonal()).mean() / 2
    return loss


def xclr(z1: Tensor, z2: Tensor, guide: Tensor, temperature: float = 0.1, graph_temperature: float = 0.1) -> Tensor:
    z, graph = _stacked(z1, z2), _stacked(guide, guide)
    own = _eye(len(z), z)
    target = (graph @ graph.T / graph_temperature).masked_fill(own, -torch.inf).softmax(dim=1)
    logits = (z @ z.T / temperature).masked_fill(own, torch.finfo(z.dtype).min)  # finite, as 0 · inf is not a number
    return F.cross_entropy(logits, target)


def dhel(z1: Tensor, z2: Tensor, temperature: Number = 0.3) -> Tensor:
    x, y = F.normalize(z1, dim=1), F.normalize(z2, dim=1)
    energy = (x @ x.T / temperature).masked_fill(_eye(len(x), x), -torch.inf).logsumexp(dim=1)
    return (energy - (x * y).sum(dim=1) / temperature).mean()


def spectral(z1: Tensor, z2: Tensor) -> Tensor:
    cos, own = _cosines(z1, z2)
    return cos.masked_fill(own, 0).square().sum() / (len(cos) * (len(cos) - 1)) - 2 * cos.diagonal().mean()


def cosent(z1: Tensor, z2: Tensor, scores: Tensor, scale: float = 20.0) -> Tensor:
    similarities = scale * F.cosine_similarity(z1, z2)
    differences = (similarities.unsqueeze(1) - similarities)[scores.unsqueeze(1) < scores]
    return torch.cat([differences.new_zeros(1), differences]).logsumexp(dim=0)


def _off_diagonal(matrix: Tensor) -> Tensor:
    return matrix.masked_fill(_eye(len(matrix), matrix), 0)


def barlow(z1: Tensor, z2: Tensor, weight: float = 0.0051) -> Tensor:
    x, y = (F.batch_norm(z, None, None, training=True) for z in (z1, z2))
    correlation = x.T @ y / len(z1)
    return (correlation.diagonal() - 1).square().sum() + weight * _off_diagonal(correlation).square().sum()


def vicreg(z1: Tensor, z2: Tensor, invariance: float = 25.0, variance: float = 25.0, covariance: float = 1.0) -> Tensor:
    loss = invariance * F.mse_loss(z1, z2)
    for z in (z1, z2):
        loss = loss + variance * F.relu(1 - (z.var(dim=0) + 1e-4).sqrt()).mean() / 2
        loss = loss + covariance * _off_diagonal(z.T.cov()).square().sum() / z.shape[1]
    return loss


def sigreg(z1: Tensor, z2: Tensor, directions: Tensor, weight: float = 0.05) -> Tensor:
    t = torch.linspace(0, 3, 17, dtype=z1.dtype, device=z1.device)
    law = (-t.square() / 2).exp()
    weights = torch.full_like(t, 2 * 3 / 16)
    weights[[0, -1]] = 3 / 16
    statistics = []
    for z in (z1, z2):
        angles = (z @ directions.to(z)).unsqueeze(-1) * t  # (N, K, T)
        gaps = (angles.cos().mean(dim=0) - law).square() + angles.sin().mean(dim=0).square()
        statistics.append(len(z) * (gaps @ (weights * law)).mean())
    centre = (z1 + z2) / 2
    prediction = (F.mse_loss(z1, centre) + F.mse_loss(z2, centre)) / 2
    return (1 - weight) * prediction + weight * (statistics[0] + statistics[1]) / 2


def visreg(z1: Tensor, z2: Tensor, directions: Tensor, weight: float = 0.9) -> Tensor:
    places = torch.arange(1, len(z1) + 1, dtype=z1.dtype, device=z1.device)
    quantiles = torch.special.ndtri(places / (len(z1) + 1))
    regulariser = z1.new_zeros(())
    for z in (z1, z2):
        mean, deviation = z.mean(dim=0), z.std(dim=0, correction=0)
        rows = (z - mean) / deviation.detach().clamp_min(1e-6)
        projections = (rows @ directions.to(z)).sort(dim=0).values  # (N, K)
        shape = (projections - quantiles.unsqueeze(1)).square().mean()
        regulariser = regulariser + mean.square().mean() + (1 - deviation).square().mean() + shape
    centre = (z1 + z2) / 2
    prediction = (F.mse_loss(z1, centre) + F.mse_loss(z2, centre)) / 2
    return (1 - weight) * prediction + weight * regulariser / 2


def wasserstein(z1: Tensor, z2: Tensor) -> Tensor:
    rows = _stacked(z1, z2)
    centred = rows - rows.mean(dim=0)
    nuclear: Tensor = torch.linalg.matrix_norm(centred, ord="nuc")
    return (2 - 2 / math.sqrt(rows.numel()) * nuclear).sqrt()


def mmcr(z1: Tensor, z2: Tensor) -> Tensor:
    nuclear: Tensor = torch.linalg.matrix_norm((F.normalize(z1, dim=1) + F.normalize(z2, dim=1)) / 2, ord="nuc")
    return -nuclear


def frossl(z1: Tensor, z2: Tensor) -> Tensor:
    x, y = F.normalize(z1, dim=0), F.normalize(z2, dim=0)
    dim, centre, loss = x.shape[1], (x + y) / 2, x.new_zeros(())
    for z in (x, y):
        gram = (z.T @ z if len(z) > dim else z @ z.T) / dim
        loss = loss + gram.square().sum().log() + 2 * dim * F.mse_loss(z, centre)
    return loss


def sphere_jepa(z1: Tensor, z2: Tensor, weight: float = 0.05, time: float = 5.0, degrees: int = 20) -> Tensor:
    views, dim = [F.normalize(z, dim=1) for z in (z1, z2)], z1.shape[1]
    weights = [
        math.exp(-time / dim * k * (k + dim - 2)) * (2 * k + dim - 2) / (dim - 2) * math.comb(k + dim - 3, k)
        for k in range(1, degrees)
    ]
    regulariser = z1.new_zeros(())
    for h in views:
        cos = h @ h.T
        before, now, total = torch.ones_like(cos), cos, weights[0] * cos
        for k in range(1, degrees - 1):
            before, now = now, ((2 * k + dim - 2) * cos * now - k * before) / (k + dim - 2)
            total = total + weights[k] * now
        regulariser = regulariser + total.mean() / sum(weights)
    return (1 - weight) * (1 - (views[0] * views[1]).sum(dim=1)).mean() / 2 + weight * regulariser / 2
