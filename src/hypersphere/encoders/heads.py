"""Heads between the encoder and the objective."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from hypersphere.limits import need_memory
from hypersphere.messages import quoted
from hypersphere.names import did_you_mean

HEADS = ("none", "linear-tanh", "simclr", "mlp")


class Head(nn.Sequential):
    """Layers in sequence; ``dimension`` is that of the output."""

    def __init__(self, layers: Sequence[nn.Module], dimension: int) -> None:
        super().__init__(*layers)
        self.dimension = dimension


def projection_head(
    kind: str,
    dimension: int,
    output: int | None = None,
    hidden: Sequence[int] | None = None,
    normalised: bool = False,
) -> Head:
    """A head for vectors of ``dimension``, with ``output`` dimensions or the default of its kind.

    | kind | layers | source |
    |---|---|---|
    | none | | |
    | linear-tanh | Linear(dimension), tanh | SimCSE |
    | simclr | Linear, BN, ReLU, Linear(128), BN; no bias, the last BN without a shift | SimCLR |
    | mlp | the given ``hidden`` widths, ReLU between; with ``normalised`` BN before each ReLU | |

    Without ``output`` the last hidden width of mlp is the output dimension; with it one more layer follows.

    >>> projection_head("mlp", 512, hidden=[64]).dimension, projection_head("mlp", 512, 10, hidden=[64]).dimension
    (64, 10)
    """
    if kind not in HEADS:
        raise ValueError(f"there is no head {kind!r}{did_you_mean(kind, HEADS)} (there are {', '.join(HEADS)})")
    if hidden and kind != "mlp":
        raise ValueError(f"the head {kind!r} has its own widths; hidden= is for 'mlp'")
    if normalised and kind != "mlp":
        raise ValueError(f"the head {kind!r} is as published; normalised= is for 'mlp'")
    if any(width < 1 for width in (dimension, *(hidden or ()), *([output] if output is not None else []))):
        raise ValueError(f"widths of a head must be at least 1, not {dimension}, {hidden}, {output}")
    if kind == "none":
        if output not in (None, dimension):
            raise ValueError(f"the head 'none' keeps the {dimension} dimensions it is given and cannot give {output}")
        return Head([], dimension)
    if kind == "linear-tanh":
        output = output or dimension
        need_memory(4 * dimension * output, f"a head of {quoted(output)} dimensions")
        return Head([nn.Linear(dimension, output), nn.Tanh()], output)
    if kind == "simclr":
        return _simclr(dimension, output or 128)
    widths = hidden or ()
    if not widths and output is None:
        raise ValueError("the head 'mlp' needs widths: hidden=[256, 64], output=128, or both")
    return dense([dimension, *widths, *([] if output is None else [output])], normalised)


def _simclr(dimension: int, output: int) -> Head:
    need_memory(4 * dimension * (dimension + output), f"a head of {quoted(output)} dimensions")
    last = nn.BatchNorm1d(output)
    last.bias.requires_grad_(False)  # stays 0: a common shift of all rows would only waste space on the sphere
    first = nn.Linear(dimension, dimension, bias=False)
    second = nn.Linear(dimension, output, bias=False)
    return Head([first, nn.BatchNorm1d(dimension), nn.ReLU(), second, last], output)


def dense(widths: Sequence[int], normalised: bool) -> Head:
    """Linear layers of the given widths with ReLU between them; ``normalised``: batch norm before each ReLU."""
    need_memory(4 * sum(before * after for before, after in pairwise(widths)), f"layers of widths {quoted([*widths])}")
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        if layers:
            layers += [nn.BatchNorm1d(before)] * normalised + [nn.ReLU()]
        layers.append(nn.Linear(before, after))
    return Head(layers, widths[-1])
