"""Names of objectives and of their parameters, and one sentence for names that do not exist."""

from __future__ import annotations

import pytest

import hypersphere as hs
from hypersphere.objectives import table
from hypersphere.objectives.registry import is_registered, objective_class
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
    "sigreg": {"knots": (), "t_max": (), "weight": (), "num_slices": (), "seed": (), "num_global": ()},
    "visreg": {"scale": (), "shape": (), "center": (), "eps": (), "num_global": (), "weight": (), "num_slices": ()},
    "wasserstein": {},
    "mmcr frossl": {"weight": ()},
    "sphere_jepa": {
        "test": ("mmd", "ksd", "kl", "sliced"),
        "kernel": ("heat", "bandlimited", "induced"),
        **dict.fromkeys(("time", "cutoff", "knots", "t_max", "num_slices", "seed", "weight", "num_global"), ()),
    },
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
    "cloa": {
        "base": (),
        "num_classes": (),
        "dim": (),
        "weight": (),
        "seed": (),
        "distance": ("cosine", "euclidean", "manhattan"),
    },
    "koleo": {"eps": ()},
    "gor": {"mean_weight": (), "second_weight": (), "aggregation": ("mean", "sum"), "hinge": ()},
    "plus": {"base": (), "extra": (), "weight": ()},
    "macl": {"temperature": (), "alpha": (), "a0": ()},
    "artanh_infonce": {"scale": (), "symmetric": ()},
    "ntce nonl": {"temperature": (), "num_classes": (), "dim": ()},
    "xclr": {"temperature": (), "graph_temperature": ()},
    "mixup": {"base": (), "kind": ("negatives", "positive"), "mix": (), "normalize": ()},
    "spectral": {},
    "guided": {
        "base": (),
        "margin": (),
        "strategy": ("absolute", "relative"),
        "source": ("given", "self"),
        "reads": (),
    },
    "mv_infonce": {"temperature": (), "denominator": ("all", "other")},
    "mv_dhel": {"temperature": (), "pairs": ("unordered", "ordered")},
    "pairwise": {"base": ()},
    "cosent": {"scale": (), "similarity": ("cosine", "angle")},
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


def test_names_cannot_be_taken_twice() -> None:
    with pytest.raises(ValueError, match="'infonce' is registered already"):

        @hs.register("infonce")
        class Other(hs.PairwiseObjective):
            pass


def test_an_objective_is_asked_for_by_name() -> None:
    with pytest.raises(ValueError, match=r"by its name, not by \['infonce'\]"):
        hs.create_objective(["infonce"])  # type: ignore[arg-type]


RELEASED_AND_PRINTED = hs.list_objectives("released/*") + hs.list_objectives("printed/*")


def test_they_are_listed_for_a_pattern_with_a_slash_alone() -> None:
    assert not [name for name in hs.list_objectives() if "/" in name]
    for pattern in ("mpt", "*mpt", "m*", "*", "?at"):
        assert not [name for name in hs.list_objectives(pattern) if "/" in name]
    assert len(RELEASED_AND_PRINTED) == 17 and hs.list_objectives("*/*") == sorted(
        RELEASED_AND_PRINTED
    ) == hs.list_objectives("/")
    assert hs.list_objectives("released/m?t") == ["released/mat", "released/met", "released/mpt"]
    assert hs.list_objectives("*/mmhs") == ["printed/mmhs", "released/mmhs"]
    assert hs.list_objectives("released/nothing*") == []


@pytest.mark.parametrize("name", RELEASED_AND_PRINTED)
def test_each_is_named_after_the_objective_that_is_right(name: str) -> None:
    right = name.partition("/")[2]
    assert is_registered(name) and objective_class(name).name == name
    assert right in hs.list_objectives() or name == "released/mixcse"
    assert table.summary(objective_class(name)) and objective_class(name).source


@pytest.mark.parametrize("name", hs.list_objectives())
def test_no_objective_has_a_setting_for_what_is_wrong(name: str) -> None:
    assert "variant" not in objective_class(name).settings()


def test_a_mistyped_name_gets_the_nearest_of_its_kind() -> None:
    with pytest.raises(ValueError, match=r"no objective 'released/mtp'; did you mean 'released/m.t'"):
        hs.create_objective("released/mtp")
    with pytest.raises(ValueError, match="no objective 'mmhee'; did you mean 'mmhe'"):
        hs.create_objective("mmhee")
    with pytest.raises(ValueError, match=r"call create_objective\('released/mixcse', preset='mixcse'\)"):
        hs.create_objective("mixcse")
