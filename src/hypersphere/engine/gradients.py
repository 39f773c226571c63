"""From a batch to an objective's values and their gradients: as few matrix products as its anchors' coupling allows.

For each similarity matrix three products are needed if an anchor's gradient is known when it is visited, four if all
anchors must have been visited before; half as many or little more where it is symmetric (see ``symmetric``).
"""

from __future__ import annotations

import torch
from torch import Tensor

from hypersphere.engine.batch import Batch, turns
from hypersphere.engine.contract import Statistics
from hypersphere.engine.processes import exchange, sum_over_processes
from hypersphere.engine.reduce import uniform_weight
from hypersphere.engine.slopes import itself, slopes_of
from hypersphere.engine.sweep import Plan, together
from hypersphere.engine.symmetric import differentiate_symmetric, is_symmetric
from hypersphere.engine.target import Target, Weight, Weights

Found = tuple[Statistics, list[Target]]


def differentiate(plan: Plan, batch: Batch, needs: tuple[bool, ...]) -> Found:
    """The values by name, and for each its gradients; ``needs``: those of z1, z2 and negatives that are wanted."""
    objective = plan.objective
    if plan.sums is not None and not plan.parts and is_symmetric(objective, batch):
        return differentiate_symmetric(plan, plan.sums, batch, needs)
    if not objective.coupled and not plan.parts:
        return _uncoupled(plan, batch, needs)
    if objective.one_sided and not objective.positives_move and not plan.parameters:
        return _coupled_one_sided(plan, batch, needs)
    if objective.pooled is not None and not plan.parts and not plan.parameters:
        return _pooled(plan, batch, needs)
    return _coupled(plan, batch, needs)


def _uncoupled(plan: Plan, batch: Batch, needs: tuple[bool, ...]) -> Found:
    """One sweep: every anchor counts the same, so its gradient is known as soon as it is visited."""
    weight = uniform_weight(plan.objective, batch.size)
    target = plan.target(batch, [{"loss": weight}, {"loss": weight}], needs)
    statistics = plan.everybody(batch, plan.sweep(batch, [target]))
    sum_over_processes(target.parameters, batch.share)
    return plan.finish(statistics), [target]


def _coupled(plan: Plan, batch: Batch, needs: tuple[bool, ...]) -> Found:
    """Two sweeps: the first finds out how much each anchor counts, the second differentiates."""
    values, coupled = _couple(plan, batch, plan.sweep(batch, []))
    targets = [plan.target(batch, weights, needs) for weights, _ in coupled]
    plan.sweep(batch, targets)
    for target, (_, direct) in zip(targets, coupled, strict=True):
        sum_over_processes(target.parameters, batch.share)
        target.add_to_parameters(direct)
    return values, targets


def _coupled_one_sided(plan: Plan, batch: Batch, needs: tuple[bool, ...]) -> Found:
    """One sweep: where only anchors move, each row of a statistic's gradient can be weighed afterwards."""
    moving = list(plan.moving_statistics(batch))[::-1]  # the last one needs no memory of its own; here it has a matrix
    slopes = [plan.target(batch, [{name: 1.0}, {name: 1.0}], needs) for name in moving]
    statistics = plan.sweep(batch, slopes)
    values, coupled = together(batch, lambda: _couple(plan, batch, statistics))
    targets = [plan.target(batch, [], needs) for _ in coupled]
    for target, (weights, _) in zip(targets, coupled, strict=True):
        for name, slope in zip(moving, slopes, strict=True):
            for view, of_turn in enumerate(weights):  # the anchors of a turn are the rows of one view
                weight, part, whole = of_turn.get(name), slope.found(view), target.found(view)
                if not isinstance(weight, Tensor):
                    continue
                target.positives[view].addcmul_(slope.positives[view], weight)
                if part is None:
                    continue
                if whole is None and target is targets[-1]:  # nobody else needs it
                    batch.share.own(part).mul_(weight.unsqueeze(1))
                    target.put(view, part)
                elif (whole := target.gradient(view)) is not None:
                    batch.share.own(whole).addcmul_(batch.share.own(part), weight.unsqueeze(1))
    return values, targets


class _Exponential:
    """Weights in proportion to the exponential of a statistic, scaled by the first ones seen."""

    def __init__(self) -> None:
        self.reference: Tensor | None = None

    def __call__(self, statistic: Tensor) -> Tensor:
        finite = statistic[statistic.isfinite()]
        if self.reference is None and len(finite):
            self.reference = finite.mean()
        return torch.exp(statistic if self.reference is None else statistic - self.reference)


def _pooled(plan: Plan, batch: Batch, needs: tuple[bool, ...]) -> Found:
    """One sweep: but for a factor common to a turn's anchors, known when all have been seen, each counts as much as
    the exponential of its pooled statistic. All else must depend on positives alone and is weighed afterwards."""
    pooled, views = plan.objective.pooled, range(len(turns(plan.objective, batch)))
    assert pooled is not None
    moving = plan.moving_statistics(batch)
    others = [name for name in moving if name != pooled]
    if not _all_say(batch, not any(moving[name] for name in others)):
        return _coupled(plan, batch, needs)
    guesses = [_Exponential() for _ in views]
    of_others = [plan.target(batch, [{name: 1.0} for _ in views], (False, False, False)) for name in others]
    of_pooled = [
        plan.target(batch, [{pooled: guesses[view]} if view == turn else {} for turn in views], needs) for view in views
    ]
    statistics = plan.sweep(batch, [*of_others, *of_pooled], once=True)
    values, ((weights, _),) = _couple(plan, batch, statistics)
    factors = [_factor(weights[view].get(pooled), guesses[view](statistics[view][pooled])) for view in views]
    if not _all_say(batch, None not in factors):  # it does not pool as it says, or numbers were too far apart
        return _coupled(plan, batch, needs)
    total = of_pooled[0]
    for view, (target, factor) in enumerate(zip(of_pooled, factors, strict=True)):
        assert factor is not None
        for index in range(len(batch.rows)):
            found, whole = target.found(index), total.found(index)
            if found is None:
                continue
            found.mul_(factor)
            if whole is None:
                total.put(index, found)
            elif whole is not found:
                whole.add_(found)
        of_positives = target.positives[view].mul_(factor)
        for name, other in zip(others, of_others, strict=True):
            weight = weights[view].get(name)
            if isinstance(weight, Tensor):
                of_positives.addcmul_(other.positives[view], weight)
        total.positives[view] = of_positives
    return values, [total]


def _factor(exact: Weight | None, guess: Tensor) -> Tensor | None:
    """How many times the guessed weights the exact ones are; None: there is no such number."""
    if not isinstance(exact, Tensor):
        return guess.new_zeros(())
    factor = exact.sum() / guess.sum().clamp_min(torch.finfo(guess.dtype).tiny)
    return factor if (exact - factor * guess).abs().sum() <= 1e-3 * exact.abs().sum() else None


def _all_say(batch: Batch, yes: bool) -> bool:
    if len(batch.share.sizes) == 1:
        return yes
    return all(flag for (flag,) in exchange([int(yes)]))


def _couple(
    plan: Plan, batch: Batch, statistics: list[Statistics]
) -> tuple[Statistics, list[tuple[list[Weights], list[Tensor | None]]]]:
    """The values that ``combine`` makes of everybody's statistics, and for each how much this process's statistics
    count in it, by turn, and its slopes in the parameters directly: known alike to every process."""
    leaves = plan.everybody(batch, statistics)
    with torch.enable_grad():
        for turn in leaves:
            for leaf in turn.values():
                leaf.requires_grad_(leaf.is_floating_point())
        values = plan.finish(leaves)
    flat = [leaf for turn in leaves for leaf in turn.values()]
    found = []
    for value in values.values():
        slopes = slopes_of(itself(value), [*flat, *plan.parameters], retain=True)
        each = iter(slopes[: len(flat)])
        by_turn = [{name: next(each) for name in turn} for turn in leaves]
        weights: list[Weights] = [
            {name: batch.share.own(slope) for name, slope in turn.items() if slope is not None} for turn in by_turn
        ]
        found.append((weights, slopes[len(flat) :]))
    return values, found
