"""The plain forms compute the same thing as the objectives they are measured beside."""

from __future__ import annotations

import pytest
import torch

from hypersphere.studies.benchmark import plain
from hypersphere.studies.benchmark.cases import NAMED, Case, as_loss, inputs

FORMULA = Case("infonce as formula", "infonce", plain=lambda o, a, b, y: plain.infonce_as_formula(a, b))


@pytest.mark.parametrize("case", [*(case for case in NAMED if case.plain), FORMULA], ids=lambda case: case.label)
def test_plain_form_has_the_value_and_the_gradient_of_the_objective(case: Case) -> None:
    objective = case.create(dim=5).double().eval()
    z1, z2, _ = (each.detach().double() for each in inputs(9, 5))
    labels = torch.arange(9) % 3
    results = []
    for loss in (as_loss(objective), lambda a, b, y: case.plain(objective, a, b, y)):  # type: ignore[misc]
        a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
        value = loss(a, b, labels)
        results.append([value.detach(), *torch.autograd.grad(value, [a, b, *objective.parameters()])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, check_dtype=False)
