"""The maps of gradient norms: every clause can fail."""

import numpy as np
import pytest

from hypersphere.studies.reproduce.nie2023 import maps


@pytest.mark.parametrize("loss, everywhere", [("align_uniform", False), ("dcl", False), ("met", True)])
def test_each_clause_of_the_maps_can_fail(loss, everywhere, monkeypatch):
    """A region without gradient where there should be none, and none where there should be one."""
    norms = maps.norms

    def changed(name, positive, negative, count):
        parts = norms(name, positive, negative, count)
        if name != loss:
            return parts
        return tuple(part + 1 if everywhere else np.where(positive < 0.5, 0, part) for part in parts)

    monkeypatch.setattr(maps, "_compared", lambda *_: {"InfoNCE, n = 64": 0.0})
    assert maps.fig2(quick=True).verdict == "agrees"
    monkeypatch.setattr(maps, "norms", changed)
    assert maps.fig2(quick=True).verdict == "partly"


def test_a_panel_whose_formula_is_not_its_gradient_is_found(monkeypatch):
    """The panel of L_uniform, of which a formula for all negatives together is n(n+1) times too long."""
    norms = maps.norms

    def together(name, positive, negative, count):
        alignment, one = norms(name, positive, negative, count)
        return alignment, one * (count * (count + 1) if name == "align_uniform" else 1)

    monkeypatch.setattr(maps, "norms", together)
    finding = maps.fig4(quick=True)
    assert list(finding.clauses.values()) == [False, True, True, True]
