"""Hubs, copies and near copies, by their number and text."""

import pytest
import torch

from hypersphere.diagnostics import diagnose
from tests.diagnostics.drawn import noise


def test_hubs_copies_and_near_copies_are_named_by_row_and_text():
    """Each against a plain loop over all pairs."""
    z = noise()[:200].clone()
    z[:120] += 6 * z[150]  # row 150 is where these lean to: a neighbour of most of them
    z[150] *= 30
    z[[20, 30, 40]] = z[10].clone()
    z[60] = z[50] * (1 + 1e-6 * torch.arange(z.shape[1]))
    texts = [f"text {row}" for row in range(199)]
    diagnosis = diagnose(z, texts=[*texts, "last"])
    (view,) = diagnosis.views
    named = {kind: [each for each in view.notable if each.kind == kind] for kind in ("hub", "copies", "near copies")}
    h = torch.nn.functional.normalize(z.double())
    counts = [0] * len(h)
    for row in range(len(h)):
        others = sorted((other for other in range(len(h)) if other != row), key=lambda other: -float(h[row] @ h[other]))
        for other in others[:10]:
            counts[other] += 1
    assert named["hub"][0].rows == [max(range(len(h)), key=counts.__getitem__)] == [150]
    assert named["hub"][0].words == f"among the 10 nearest of {counts[150]}" and named["hub"][0].texts == ["text 150"]
    assert [(each.rows, each.count) for each in named["copies"]] == [([10, 20, 30, 40], 4)]
    assert named["copies"][0].texts == ["text 10", "text 20", "text 30", "text 40"]
    assert [each.rows for each in named["near copies"]] == [[50, 60]]
    with pytest.raises(ValueError, match="one for each of the 200 rows, not 199"):
        diagnose(z, texts=texts)


def test_rows_of_a_sample_keep_their_numbers():
    z = noise()[:300].clone()
    z[100:] = z[torch.arange(100).repeat(2)] * (1 + 1e-7 * torch.randn(200, z.shape[1]))
    (view,) = diagnose(z, sample=250, seed=3).views
    pairs = [each.rows for each in view.notable if each.kind == "near copies"]
    assert len(pairs) == 5 and all(one % 100 == two % 100 for one, two in pairs)
