"""The largest and the smallest entry of each row of a block of similarities, in which some columns do not count."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from hypersphere.engine.listed import (
    Few,
    current_promise,
    is_similarities,
    may_list,
    remember_promise,
)
from hypersphere.engine.mask import filled, known_not_to_hold
from hypersphere.engine.near import closest_of
from hypersphere.geometry.modes import plain_operations
from hypersphere.geometry.near import with_vectors

CHUNK = 256


def masked_max(x: Tensor, mask: Tensor) -> Tensor:
    """Largest value of each row, -inf if nothing counts; of several, one receives the gradient: (B, M) -> (B,).

    Of similarities it is that of the nearest vector, also where several are so near that their cosines are alike.
    """
    with _with_others(x, mask, -math.inf) as known:
        place = _argmax(known) if x.requires_grad or plain_operations() else None
        largest = known.amax(dim=1) if place is None else known.gather(1, place).squeeze(1)
    closest = closest_of(x, mask, largest)
    if closest is not None and place is not None:
        place[closest.lines] = closest.columns
    found = largest if place is None else _gather(x, place, mask, -math.inf)
    return found if closest is None else with_vectors(found, closest)


def masked_argmax(x: Tensor, mask: Tensor) -> Tensor:
    """Where the value of ``masked_max`` stands: (B, M) -> (B, 1)."""
    place = _argmax(known := filled(x, mask, -math.inf))
    closest = closest_of(x, mask, known.gather(1, place).squeeze(1))
    if closest is not None:
        place[closest.lines] = closest.columns
    return place


def masked_min(x: Tensor, mask: Tensor) -> Tensor:
    """Smallest value of each row, inf if nothing counts; of several, one receives the gradient: (B, M) -> (B,)."""
    known = filled(x, mask, math.inf)
    if not (x.requires_grad or plain_operations()):
        return known.amin(dim=1)
    return _gather(x, _argmax(known.neg_()), mask, math.inf)


@contextmanager
def _with_others(x: Tensor, mask: Tensor, value: float) -> Iterator[Tensor]:
    """x without its gradient, with ``value`` where the mask does not hold; x itself, for as long as it takes, if it is
    nobody else's and these places are few."""
    places = known_not_to_hold(mask)
    if places is None or x.shape != mask.shape or not is_similarities(x):
        yield filled(x, mask, value)
        return
    whole = x.data  # whose changes are not noticed by autograd, as there are none in the end
    kept = whole[places]
    whole[places] = value
    try:
        yield whole
    finally:
        whole[places] = kept


def _argmax(x: Tensor) -> Tensor:
    """Where the largest entry of each row stands, (B, M) -> (B, 1): the best chunk first, then the place in it, which
    is several times as fast as torch's own on a processor."""
    columns, whole = x.shape[1], x.shape[1] - x.shape[1] % CHUNK
    if columns < 2 * CHUNK:
        return x.argmax(dim=1, keepdim=True)
    best = x[:, :whole].unflatten(1, (-1, CHUNK)).amax(dim=2)
    if whole < columns:
        best = torch.cat([best, x[:, whole:].amax(dim=1, keepdim=True)], dim=1)
    places = best.argmax(dim=1, keepdim=True) * CHUNK + torch.arange(CHUNK, device=x.device)
    places = places.clamp_max(columns - 1)
    found: Tensor = places.gather(1, x.gather(1, places).argmax(dim=1, keepdim=True))
    return found


def _gather(x: Tensor, place: Tensor, mask: Tensor, otherwise: float) -> Tensor:
    promise = current_promise()
    listed = promise is not None and promise.of(x) is not None
    found: Tensor = _Gather.apply(x, place) if listed else x.gather(1, place)  # type: ignore[no-untyped-call]
    return torch.where(mask.gather(1, place), found, otherwise).squeeze(1)


class _Gather(torch.autograd.Function):
    """One entry of each row, and few of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, place: Tensor) -> Tensor:
        remember_promise(ctx, x)
        ctx.shape = x.shape
        ctx.save_for_backward(place)
        return x.gather(1, place)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, None]:
        (place,) = ctx.saved_tensors
        listed = may_list(ctx)
        if listed is None:
            return upstream.new_zeros(ctx.shape).scatter(1, place, upstream), None
        rows = torch.arange(len(place), device=place.device).unsqueeze(1)
        listed.few.append(Few(rows, place, upstream))
        return None, None
