"""The registry of closed forms, and the parts that they share, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from hypersphere.anatomy import closed_form, list_closed_forms
from hypersphere.anatomy.closed_forms import forms
from tests.anatomy.closed_forms import test_contrastive, test_energies, test_features, test_modified


def test_every_closed_form_is_compared_with_gradients() -> None:
    families = (test_contrastive, test_energies, test_features, test_modified)
    compared = {row.name for each in families for row in each.ROWS}
    assert compared | {"vicreg_surrogate"} == set(list_closed_forms())


@pytest.mark.parametrize(
    ("name", "reason"), [("vicreg", "surrogate"), ("cloa", "anchors"), ("hyperbolic", "lengths"), ("mixup", "mixed")]
)
def test_angles_that_one_cannot_be_made_of_are_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"no closed form for '{name}' in angles alone: .*{reason}"):
        closed_form(name)


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no closed form for 'infonc' \(there are align_uniform, arccon, "):
        closed_form("infonc")


def test_angles_slightly_outside_are_those_of_the_same_vectors() -> None:
    outside = torch.tensor([-0.1, math.pi + 0.2, 0.3], dtype=torch.float64)
    assert forms.folded(outside).tolist() == pytest.approx([0.1, math.pi - 0.2, 0.3])
    torch.testing.assert_close(forms.folded(outside).cos(), outside.cos())
    assert forms.chord(torch.tensor([math.pi / 3, math.pi, -math.pi / 2])).tolist() == pytest.approx(
        [1, 2, math.sqrt(2)]
    )
    angle, place = forms.nearest(torch.tensor([[0.3, -0.1, 0.2], [3.2, 3.0, 3.1]], dtype=torch.float64))
    assert angle.tolist() == pytest.approx([0.1, 3.0]) and place.tolist() == [[0, 1, 0], [0, 1, 0]]


def test_the_pull_is_the_ratio_times_all_weights() -> None:
    gate, weight, ratio = forms.without_dissipation(torch.tensor([[1.0, 3.0], [0.5, 0.0]]), 2.0)
    assert gate.tolist() == [1, 1] and weight.sum(dim=1).tolist() == [4, 0.5] and ratio.tolist() == [0.5, 4]


def test_shares_of_all_pairs_are_of_the_whole_batch_or_of_a_sample() -> None:
    """Three rows with two negatives each share 1; of one sampled row they share a third."""
    logits = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=torch.float64).log()
    assert forms.share_of_all_pairs(logits).flatten().tolist() == pytest.approx([n / 21 for n in range(1, 7)])
    assert forms.share_of_all_pairs(logits[:1]).flatten().tolist() == pytest.approx([1 / 9, 2 / 9])
