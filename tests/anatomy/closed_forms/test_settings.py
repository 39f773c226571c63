"""An objective's parameters, as its closed form takes them."""

from __future__ import annotations

from typing import Any

import pytest

import hypersphere as hs
from hypersphere.anatomy import form_settings


@pytest.mark.parametrize(
    "name, settings, reason",
    [
        ("infonce", {"symmetric": True}, "symmetric = True, only with False"),
        ("dhel", {"energy": "both"}, "energy = 'both'"),
        ("mhs", {"views": "both"}, "views = 'both'"),
        ("mhe", {"s": 1.0}, "s = 1.0"),
        ("released/mmhe", {}, "no closed form for 'released/mmhe'"),
        ("barlow", {}, "normalization = 'batch', only with 'unit'"),
        ("paradigm", {"weight": "hardest"}, "other than Li's baseline"),
        ("released/paradigm", {}, "no closed form for 'released/paradigm'"),
        ("released/kcl", {"kernel": "log"}, "no closed form for 'released/kcl'"),
        ("siglip", {}, "no closed form for 'siglip'"),
    ],
)
def test_settings_without_a_closed_form_are_refused(name: str, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        form_settings(hs.create_objective(name, **settings))


def test_a_learned_temperature_is_read_as_it_stands() -> None:
    settings = form_settings(hs.create_objective("infonce", temperature=0.2, learnable=True))
    assert settings == {"temperature": pytest.approx(0.2, rel=1e-6)}
