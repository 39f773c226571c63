"""From what each anchor says to one number."""

from __future__ import annotations

import torch

from hypersphere.engine.contract import Evaluable, Statistics


def finish(objective: Evaluable, by_turn: list[Statistics]) -> Statistics:
    """Combines and reduces the statistics of all anchors, turn by turn, then joins the turns."""
    reduced = []
    for statistics in by_turn:
        losses = objective.combine(statistics) if objective.coupled else statistics
        if "loss" not in losses:
            raise ValueError(
                f"{type(objective).__name__}.combine names {', '.join(losses) or 'nothing'}, but no 'loss'"
            )
        reduced.append({name: _reduce(value, objective.reduction) for name, value in losses.items()})
    if len(reduced) == 1:
        return reduced[0]
    return {name: _join(objective, [each[name] for each in reduced]) for name in reduced[0]}


def uniform_weight(objective: Evaluable, anchors: int) -> float:
    """Weight of one anchor's loss in the total when anchors are not coupled."""
    turn_share = 0.5 if objective.anchors == "both" and not objective.turns_add else 1.0
    return 1.0 if objective.reduction == "sum" else turn_share / anchors


def _reduce(value: torch.Tensor, reduction: str) -> torch.Tensor:
    if value.ndim == 0 or reduction == "none":
        return value
    if not value.is_floating_point():  # a count, or whether something holds
        value = value.to(torch.get_default_dtype())
    return value.sum() if reduction == "sum" else value.mean()


def _join(objective: Evaluable, turns: list[torch.Tensor]) -> torch.Tensor:
    if objective.reduction == "none":
        return torch.cat(turns)
    together = torch.stack(turns).sum(dim=0)
    return together if objective.reduction == "sum" or objective.turns_add else together / len(turns)
