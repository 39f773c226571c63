"""The parameters that users type, by their names and words."""

from __future__ import annotations

import pytest

import hypersphere as hs
from hypersphere.objectives.registry import objective_class
from hypersphere.objectives.settings import Choice

# Objectives, their parameters, and the words a parameter takes where it takes words.
PROMISED: dict[str, dict[str, tuple[str, ...]]] = {
    "infonce": {"temperature": (), "symmetric": ()},
    "ntxent dcl_plus geodesic": {"temperature": ()},
    "siglip": {"temperature": (), "bias": ()},
    "debiased": {"temperature": (), "prior": ()},
    "hyperbolic": {"temperature": (), "curvature": (), "weight": ()},
    "supcon": {"temperature": (), "form": ("out", "in")},
    "dcl": {"temperature": (), "negatives": ("cross", "both")},
    "dclw": {"temperature": (), "negatives": ("cross", "both"), "sigma": ()},
    "align_uniform": {"alpha": (), "t": (), "weight": (), "pairs": ("cross", "same")},
    "triplet": {"distance": (), "margin": ()},
    "mpt met mat": {"margin": ()},
    "arccon": {"temperature": (), "angle": ()},
    "paradigm": {"dissipation": (), "weight": (), "ratio": ()},
    "mhe mhs": {"weight": ()},
    "barlow": {"weight": (), "normalization": ("batch", "unit")},
    "vicreg": {"invariance": (), "variance": (), "covariance": (), "normalization": ("none", "unit")},
    "mmhe mmhs mbarlow mvicreg": {
        "margin": (),
        "temperature": (),
        "ratio": (),
        "weight": (),
        "stage": ("original", "+gd", "+w", "+r"),
        "views": ("both", "anchor"),
    },
    "dhel": {"temperature": (), "energy": ("anchor", "both", "symmetric")},
    "kcl": {
        "kernel": ("gaussian", "log", "imq", "riesz", "gaussian_riesz"),
        "t": (),
        "c": (),
        "s": (),
        "gamma": (),
        "views": ("anchor", "both"),
    },
    "cloa": {"base": (), "num_classes": (), "dim": (), "weight": (), "seed": ()},
    "mixup": {"base": (), "kind": ("negatives", "positive"), "mix": (), "normalize": ()},
    "spectral": {},
}


@pytest.mark.parametrize("names", PROMISED)
def test_every_parameter_has_the_name_and_the_words_it_is_known_by(names: str) -> None:
    for name in names.split():
        settings = objective_class(name).settings()
        for parameter, words in PROMISED[names].items():
            assert parameter in settings
            setting = settings[parameter]
            assert set(words) <= set(setting.words if isinstance(setting, Choice) else ())


def test_no_objective_is_left_out() -> None:
    assert sorted(name for names in PROMISED for name in names.split()) == hs.list_objectives()
