"""Held-out data in the trainer of another library: numbers for its logger, and each verdict in a sentence, once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from hypersphere.objectives import create_objective
from hypersphere.training.journal import Record
from hypersphere.training.measurements import measure
from hypersphere.training.seeding import preserve_state
from hypersphere.training.verdicts import judge, suspect

Embed = Callable[[], tuple[Tensor, Tensor]]

# Those of ``Measurements`` that a logger gets; verdicts read all of them.
SHOWN = (
    "objective", "infonce", "alignment", "uniformity", "positive_cosine", "negative_cosine", "gap", "hardest_gap",
    "dissipation", "effective_rank", "participation", "embedding_norm",
)  # fmt: skip


class HeldOut:
    """Measures two views of the same held-out rows again and again while a model trains.

    embed: returns the views (N, D), raw rows, each time of the same data. It chooses the mode: evaluation, or training
        if dropout makes the views.
    objective: a name, or the objective of the run, whose dissipation is measured too.
    rows: the most rows that are measured, from the first on.

    Measuring changes nothing: random states, and the modes and buffers of ``modules``, are restored. Every process may
    measure, and then all get the same numbers.

    >>> import torch
    >>> held_out = HeldOut(lambda: (torch.eye(8), torch.eye(8)))
    >>> numbers, sentences = held_out.measure(step=10)
    >>> numbers["alignment"], round(numbers["effective_rank"], 2), sentences
    (0.0, 8.0, [])
    """

    def __init__(self, embed: Embed, objective: Callable[..., Any] | str = "infonce", rows: int = 256) -> None:
        self.embed, self.rows = embed, rows
        self.objective = create_objective(objective) if isinstance(objective, str) else objective
        self.records: list[Record] = []
        self._known: set[str] = set()  # the names of the verdicts that hold

    def measure(self, step: int, modules: Sequence[nn.Module] = ()) -> tuple[dict[str, float], list[str]]:
        """The numbers ``SHOWN`` that are finite, and a sentence for each verdict that is new or no longer holds."""
        with preserve_state(modules):
            views = self.embed()
        if not isinstance(views, (tuple, list)) or len(views) != 2 or not all(isinstance(z, Tensor) for z in views):
            raise ValueError(f"embed must return the two views of the held-out rows, not {_kind(views)}")
        numbers = measure(self.objective, *views, rows=self.rows).to_dict()
        self.records.append({"step": step, "split": "held_out", **numbers})
        verdicts = judge(self.records)
        sentences = [str(verdict) for verdict in verdicts if verdict.name not in self._known]
        names = {verdict.name for verdict in verdicts}
        sentences += [f"{name}: no longer at step {step}." for name in sorted(self._known - names)]
        self._known = names
        return {name: numbers[name] for name in SHOWN if math.isfinite(numbers[name])}, sentences

    def finish(self) -> list[str]:
        """At the end of a training: what the last measurement shows, but too few before it for a verdict."""
        return suspect(self.records)


def require_embed(embed: Any) -> None:
    """Raises unless a callback is given a function."""
    if not callable(embed):
        raise ValueError(f"embed must be a function of the model that returns two views, not {_kind(embed)}")


def _kind(value: object) -> str:
    kind = type(value).__name__
    return f"a {kind} of {len(value)}" if isinstance(value, (tuple, list)) else f"a {kind}"
