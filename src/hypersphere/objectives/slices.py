"""Random directions on which an objective looks at its rows, new in each step of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.engine import Inputs, Statistics
from hypersphere.objectives.base import Objective
from hypersphere.objectives.settings import number
from hypersphere.torch_internals import plain_operations


class SlicedObjective(Objective):
    """An objective that projects its rows on ``num_slices`` random directions.

    The buffer ``step`` counts the calls in training mode, so a resumed run goes on with the directions it would have
    had. Evaluation mode repeats the directions of step 0. Directions follow from seed and step alone: all processes,
    devices and types have the same ones. Calls inside torch.func leave the step as it is.
    """

    num_slices: int = number(default=1024, at_least=1, whole=True)
    seed: int = number(default=0, at_least=0, whole=True)

    def build(self) -> None:
        super().build()
        self.step: Tensor
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def directions(self, dim: int) -> Tensor:
        """The unit columns (D, K) of this step, in float64."""
        step = int(self.step) if self.training else 0
        # NumPy's, because torch.func allows no random operations of torch inside a function.
        gaussian = torch.from_numpy(np.random.default_rng([self.seed, step]).standard_normal((dim, self.num_slices)))
        unit_columns: Tensor = gaussian / torch.linalg.vector_norm(gaussian, dim=0)
        return unit_columns

    def columns(self, rows: Tensor) -> Tensor:
        """The directions (D, K) in the type of the rows (N, D); ``directions`` may have been replaced by a matrix."""
        given: Any = self.directions
        columns = given if isinstance(given, Tensor) else given(rows.shape[1])
        if not isinstance(columns, Tensor) or columns.ndim != 2 or len(columns) != rows.shape[1]:
            what = tuple(columns.shape) if isinstance(columns, Tensor) else type(columns).__name__
            raise ValueError(f"{self.name}'s directions must be a matrix ({rows.shape[1]}, K), not {what}")
        return columns.to(rows)

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        values = super().evaluate(inputs, terms)
        self.advance()
        return values

    def advance(self) -> None:
        """Counts a call that has succeeded."""
        if self.training and not plain_operations():
            with torch.no_grad():
                self.step += 1
