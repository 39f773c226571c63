"""Components beside their formulas: what is apart is found, and told from a misprint."""

import math

import pytest
import torch

from hypersphere.studies.reproduce.li2024.comparison import _apart, compare, conclude, random_views, without_own


def test_a_difference_is_in_proportion_to_the_largest_value():
    formula = torch.tensor([1.0, -4.0, math.nan])
    row = compare("MET", "R", "d/d", formula + torch.tensor([0.0, 0.2, 0.0]), formula)
    assert row["max relative difference"] == pytest.approx(0.05)
    assert (row["formula mean"], row["measured mean"]) == pytest.approx((-1.5, -1.4))
    assert _apart(torch.tensor([1.0, math.nan]), torch.tensor([1.0, 2.0])) == math.inf  # only one has a value


def test_vectors_are_told_by_their_lengths():
    assert compare("MET", "gradient", "", torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 5.0]]))["measured mean"] == 5
    assert without_own(torch.arange(9).reshape(3, 3)).tolist() == [[1, 2], [3, 5], [6, 7]]
    x, y = random_views(5, 4)
    torch.testing.assert_close((x.norm(dim=1), y.norm(dim=1)), (torch.ones(5).double(),) * 2)


@pytest.mark.parametrize(
    "apart, misprint, verdict, fault",
    [
        (1e-12, None, "agrees", ""),
        (1e-12, 1e-12, "agrees", ""),
        (1e-12, 0.3, "partly", "The claim, by misprints"),
        (0.3, None, "does not agree", "Not decided: R of MET differ"),
    ],
)
def test_a_misprint_is_no_fault_of_the_implementation(apart, misprint, verdict, fault):
    def row(difference):
        return {"loss": "MET", "component": "R", "formula": "", "measured mean": 1.0, "formula mean": 1.0,
                "max relative difference": difference}  # fmt: skip

    finding = conclude("t", "Table", "title", [row(apart)], "", [] if misprint is None else [row(misprint)])
    assert finding.verdict == verdict and finding.fault.startswith(fault) and bool(fault) == bool(finding.fault)
