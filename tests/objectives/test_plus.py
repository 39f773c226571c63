"""Two objectives at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hypersphere as hs
from hypersphere.testing.example import views


def test_it_is_the_base_at_weight_0_and_linear_in_the_weight() -> None:
    z1, z2 = views(7, 4)
    base, extra = hs.create_objective("ntxent")(z1, z2), hs.create_objective("koleo")(z1, z2)
    for weight in (0.0, 0.3, 2.0):
        objective = hs.create_objective("plus", base="ntxent", extra="koleo", weight=weight)
        torch.testing.assert_close(objective(z1, z2), base + weight * extra)
        parts = objective.terms(z1, z2)
        assert parts.keys() == {"loss", "base", "extra"}
        torch.testing.assert_close(parts["base"], base)
        torch.testing.assert_close(parts["extra"], weight * extra)


def test_each_part_gets_what_it_can_use() -> None:
    z1, z2 = views(7, 4)
    labels, ids, more = torch.arange(7) % 2, torch.tensor([0, 0, 1, 1, 2, 3, 4]), z1[:2].flip(1)
    given: dict[str, Any] = {"ids": ids, "guide": z2, "negatives": more, "guide_negatives": more.flip(0)}
    infonce, koleo, vicreg, supcon = (hs.create_objective(name) for name in ("infonce", "koleo", "vicreg", "supcon"))
    both = hs.create_objective("plus", base="infonce", extra="koleo")(z1, z2, labels, **given)
    torch.testing.assert_close(both, infonce(z1, z2, **given) + koleo(z1, z2, **given))
    one = hs.create_objective("plus", base="infonce", extra="vicreg")(z1, z2, labels, **given)
    torch.testing.assert_close(one, infonce(z1, z2, **given) + vicreg(z1, z2))
    other = hs.create_objective("plus", base="vicreg", extra="supcon")(z1, z2, labels, ids=ids)
    torch.testing.assert_close(other, vicreg(z1, z2) + supcon(z1, z2, labels, ids=ids))


def test_a_part_without_negatives_is_evaluated_on_the_batch() -> None:
    z1, z2 = views(6, 4)
    queue: dict[str, Any] = {"negatives": z1.flip(1), "in_batch": False}
    both = hs.create_objective("plus", base="infonce", extra="sphere_jepa")(z1, z2, **queue)
    alone = hs.create_objective("infonce")(z1, z2, **queue) + hs.create_objective("sphere_jepa")(z1, z2)
    torch.testing.assert_close(both, alone)


def test_what_neither_part_can_use_is_refused() -> None:
    z1, z2 = views(5, 4)
    with pytest.raises(ValueError, match="plus is a sum of two objectives that cannot use it: it takes no ids"):
        hs.create_objective("plus", base="vicreg", extra="barlow")(z1, z2, ids=torch.arange(5))
    with pytest.raises(ValueError, match="plus compares two views; for more take the objective 'pairwise'"):
        hs.create_objective("plus", base="infonce", extra="koleo")(z1, z2, views=(z1,))
    views_of_both = hs.create_objective("plus", base="mv_dhel", extra="koleo")(z1, z2, views=(z1 + z2,))
    alone = (hs.create_objective(name)(z1, z2, views=(z1 + z2,)) for name in ("mv_dhel", "koleo"))
    torch.testing.assert_close(views_of_both, sum(alone))


def test_parts_are_names_mappings_or_objectives_that_fit_together() -> None:
    z1, z2 = views(6, 4)
    base: Any = {"name": "dcl", "temperature": 0.2}
    by_mapping = hs.create_objective("plus", base=base, extra={"name": "koleo", "eps": 0.1})(z1, z2)
    parts = {"base": hs.create_objective(**base), "extra": hs.create_objective("koleo", eps=0.1)}
    torch.testing.assert_close(hs.create_objective("plus", **parts)(z1, z2), by_mapping)
    nested = hs.create_objective("plus", base=hs.create_objective("plus", **parts), extra="gor")
    torch.testing.assert_close(nested(z1, z2), by_mapping + hs.create_objective("gor")(z1, z2))
    with pytest.raises(ValueError, match="has gather=False but its extra"):
        hs.create_objective("plus", extra=hs.create_objective("koleo", gather=True))
    with pytest.raises(ValueError, match="has gather=False but its base"):
        hs.create_objective("plus", base=hs.create_objective("dcl", gather=True))
    with pytest.raises(ValueError, match="adds one of hypersphere's objectives to its base"):
        hs.create_objective("plus", extra=torch.nn.Linear(2, 2))
    for name in ("base", "extra"):
        with pytest.raises(ValueError, match=r"one for each anchor|no reduction 'none'"):
            hs.create_objective("plus", **{name: hs.create_objective("koleo", reduction="none")})
    with pytest.raises(ValueError, match="fixed when it is created"):
        nested.extra = "koleo"


def test_a_sum_is_that_of_both_parts_where_they_have_anchors() -> None:
    z1, z2 = views(6, 4)
    summed = hs.create_objective("plus", base="dcl", extra="koleo", reduction="sum")
    parts = [hs.create_objective(name, reduction="sum")(z1, z2) for name in ("dcl", "koleo")]
    torch.testing.assert_close(summed(z1, z2), parts[0] + parts[1])
    features = hs.create_objective("plus", base="dcl", extra="gor", reduction="sum")
    torch.testing.assert_close(features(z1, z2), parts[0] + hs.create_objective("gor")(z1, z2))
    objective = hs.create_objective("plus", base="dcl", extra="koleo")
    objective.reduction, objective.gather = "sum", True
    assert objective.base.gather and objective.extra.gather and objective.extra.reduction == "sum"
    torch.testing.assert_close(objective(z1, z2), summed(z1, z2))
