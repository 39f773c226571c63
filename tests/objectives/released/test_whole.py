"""Authors' code on whole matrices: its directions, its reduction, what it cannot take."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engine import Statistics
from hypersphere.objectives.released.whole import WholeObjective, other_instances
from hypersphere.testing.example import views


@pytest.mark.parametrize("name", ["mixcse", "mmhe", "mmhs", "mbarlow", "mvicreg", "paradigm"])
def test_code_of_whole_matrices_takes_no_further_negatives(name: str) -> None:
    z1, z2 = views(5, 4)
    with pytest.raises(ValueError, match=f"released/{name} is its authors' code as it stands: it takes no negatives"):
        hs.create_objective(f"released/{name}")(z1, z2, negatives=views(3, 4)[0])
    with pytest.raises(ValueError, match=f"released/{name} is its authors' code as it stands: it takes no mixed"):
        hs.create_objective("mixup", base=f"released/{name}")


class Pull(WholeObjective):
    """The first view's length along one axis counts: its two directions differ."""

    name = "pull"

    def direction(self, x: Tensor, y: Tensor) -> Statistics:
        return {"loss": x[:, 0] - (x * y).sum(dim=1) * other_instances(x).sum(dim=1), "first": x[:, 0]}


class OneWay(Pull):
    both_views = False


def test_two_directions_add_and_each_is_reduced() -> None:
    """Rows (3, 4)/5 and (0, 1) against (1, 0) and (0, 1): cosines .6 and 1, one other instance each."""
    z1, z2 = torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([[7.0, 0.0], [0.0, 1.0]])
    losses, back = [0.6 - 0.6, 0 - 1.0], [1 - 0.6, 0 - 1.0]
    for cls, total in ((Pull, sum(losses) + sum(back)), (OneWay, sum(losses))):
        assert cls()(z1, z2).item() == pytest.approx(total / 2)
        assert cls(reduction="sum")(z1, z2).item() == pytest.approx(total)
    terms = Pull().terms(z1, z2)
    assert terms["first"].item() == pytest.approx((0.6 + 0) / 2 + (1 + 0) / 2)
    with pytest.raises(ValueError, match="reduction"):
        Pull(reduction="none")


def test_a_direction_that_is_missing_is_named() -> None:
    class Silent(WholeObjective):
        name = "silent"

    with pytest.raises(TypeError, match="Silent must define direction"):
        Silent()(torch.eye(3), torch.eye(3))
