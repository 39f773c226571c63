"""The objectives under test, each in every form that changes what it computes."""

from __future__ import annotations

from typing import Any

import hypersphere as hs
from hypersphere.objectives.registry import objective_class

Case = tuple[str, dict[str, Any]]
STAGES = ("original", "+gd", "+w", "+r")

# Differentiable throughout: the gradient is that of the value.
SMOOTH: list[Case] = [
    ("infonce", {}),
    ("infonce", {"symmetric": True}),
    ("ntxent", {}),
    ("dcl", {}),
    ("dcl", {"negatives": "both", "temperature": 0.5}),
    ("dcl_plus", {}),
    ("align_uniform", {}),
    ("align_uniform", {"pairs": "cross", "alpha": 1.0, "t": 3.0, "weight": 0.3}),
    ("triplet", {"distance": "dot", "margin": 0.7}),
    ("mpt", {}),
    ("met", {}),
    ("mat", {}),
    ("arccon", {}),
    ("mhe", {}),
    ("mhe", {"views": "both"}),
    ("mhs", {}),
    ("dhel", {}),
    ("dhel", {"energy": "both"}),
    ("dhel", {"energy": "symmetric"}),
    ("kcl", {}),
    ("kcl", {"kernel": "log", "views": "both"}),
    ("kcl", {"kernel": "imq"}),
    ("kcl", {"kernel": "riesz", "s": -1.0}),
    ("kcl", {"kernel": "gaussian_riesz"}),
    ("siglip", {}),
    ("spectral", {}),
    ("debiased", {}),
    ("geodesic", {}),
    ("supcon", {}),
    ("supcon", {"form": "in"}),
    ("supcon", {"anchors": "first"}),
    ("infonce", {"pool": "same"}),
    ("infonce", {"pool": "other"}),
    ("infonce", {"pool": "back"}),
    ("infonce", {"pool": "all"}),
    ("infonce", {"pool": "gte"}),
    ("mv_infonce", {}),
    ("mv_infonce", {"denominator": "other"}),
    ("mv_dhel", {"temperature": 0.3}),
]

# Lengths of raw rows matter, or features rather than pairs are compared.
RAW: list[Case] = [
    ("hyperbolic", {}),
    ("hyperbolic", {"curvature": 0.5, "weight": 1.0, "temperature": 0.5}),
]
FEATURES: list[Case] = [
    ("barlow", {}),
    ("barlow", {"normalization": "unit", "weight": 30.0}),
    ("vicreg", {}),
    ("vicreg", {"normalization": "unit", "gamma": 0.5}),
    ("sigreg", {"num_slices": 3}),
    ("sigreg", {"num_slices": 2, "weight": 1.0, "knots": 9, "t_max": 5.0, "num_global": 1}),
    ("wasserstein", {}),
    ("mmcr", {}),
    ("mmcr", {"weight": 0.5}),
    ("frossl", {}),
    ("frossl", {"weight": 2.0}),
    ("visreg", {"num_slices": 2, "shape": 0.0, "scale": 0.5, "center": 2.0, "num_global": 1}),
]
DETACHED_FEATURES: list[Case] = [
    ("visreg", {"num_slices": 3}),
]
# Tests of a whole sample: pairs, but no negatives of one's own.
SAMPLES: list[Case] = [
    ("sphere_jepa", {}),
    ("sphere_jepa", {"weight": 1.0, "test": "ksd", "kernel": "bandlimited", "cutoff": 3}),
    ("sphere_jepa", {"weight": 0.5, "test": "kl", "time": 2.0, "num_global": 1}),
    ("sphere_jepa", {"weight": 0.3, "kernel": "induced"}),
    ("sphere_jepa", {"weight": 0.3, "test": "sliced", "num_slices": 3}),
]

# With detached weights: the gradient is defined, the value only carries it.
MODIFIED: list[Case] = [
    *[(name, {"stage": stage}) for name in ("mmhe", "mbarlow", "mvicreg") for stage in STAGES],
    *[("mmhs", {"stage": stage}) for stage in STAGES if stage != "+w"],
    *[(name, {"views": "anchor"}) for name in ("mmhe", "mmhs", "mbarlow", "mvicreg")],
]
RELEASED: list[Case] = [
    (f"released/{name}", {"stage": stage})
    for name in ("mmhe", "mmhs", "mbarlow", "mvicreg")
    for stage in ("original", "+gd", "+r")
]
# What an author's code computes, or what a paper prints, where that is something else.
VARIANTS: list[Case] = [
    *[(f"released/{name}", {}) for name in ("mpt", "met", "mat", "align_uniform", "paradigm")],
    ("printed/triplet", {"margin": 1.0}),
    ("released/kcl", {"kernel": "log"}),
    ("printed/mmhe", {}),
    ("printed/mmhs", {}),
    ("printed/mbarlow", {"stage": "+gd"}),
    ("released/cloa", {"num_classes": 2, "dim": 4, "reduction": "sum"}),
    ("released/mixcse", {}),
    ("released/mixcse", {"symmetric": True}),
]
DETACHED: list[Case] = [
    ("dclw", {}),
    ("dclw", {"negatives": "cross"}),
    ("paradigm", {}),
    ("infonce", {"hardness": 4.0}),
    *MODIFIED,
]

WRAPPERS: list[Case] = [
    ("cloa", {"base": "infonce", "num_classes": 2, "dim": 4}),
    ("cloa", {"base": {"name": "mbarlow", "stage": "original"}, "num_classes": 2, "dim": 4, "weight": 0.5}),
    ("cloa", {"base": "vicreg", "num_classes": 2, "dim": 4}),
    ("mixup", {}),
    ("mixup", {"base": "ntxent", "kind": "positive", "normalize": True}),
    ("mixup", {"base": "align_uniform", "normalize": True}),
    ("mixup", {"base": {"name": "supcon", "form": "in"}, "mix": 0.4}),
    ("mixup", {"base": "supcon", "kind": "positive"}),
    ("mixup", {"base": "released/met"}),
    ("mixup", {"base": {"name": "dhel", "energy": "both"}, "kind": "positive"}),
    ("mixup", {"base": {"name": "mbarlow", "stage": "original"}, "normalize": True}),
    ("mixup", {"base": "mmhe"}),
    ("mixup", {"base": "printed/mmhs"}),
    ("mixup", {"base": "hyperbolic", "normalize": True}),
    ("mixup", {"base": {"name": "cloa", "num_classes": 2, "dim": 4}, "kind": "positive"}),
    ("guided", {"source": "self", "margin": -0.1, "base": "ntxent"}),
    ("guided", {"source": "self", "base": {"name": "infonce", "pool": "all"}}),
    ("guided", {"source": "self", "margin": 0.1, "strategy": "relative", "base": "met"}),
    ("pairwise", {"base": "dhel"}),
]

# Of batches of two rows or more.
SINCE_2024: list[Case] = [
    ("koleo", {}),
    ("gor", {}),
    ("gor", {"mean_weight": 0.0, "aggregation": "sum", "hinge": False}),
    ("plus", {}),
    ("plus", {"base": "vicreg", "extra": {"name": "gor", "mean_weight": 2.0}, "weight": 0.3}),
    ("macl", {}),
    ("artanh_infonce", {}),
    ("artanh_infonce", {"symmetric": True, "scale": 3.0}),
    ("ntce", {"num_classes": 2, "dim": 4}),
    ("nonl", {"num_classes": 2, "dim": 4}),
    ("cloa", {"base": "dcl", "num_classes": 2, "dim": 4, "distance": "euclidean"}),
    ("cloa", {"base": "dcl", "num_classes": 2, "dim": 4, "distance": "manhattan"}),
]

PAIRWISE = SMOOTH + DETACHED  # functions of similarities only, with a plain-loop reference
ALL = PAIRWISE + RELEASED + VARIANTS + RAW + FEATURES + DETACHED_FEATURES + SAMPLES + WRAPPERS + SINCE_2024


def needs_only_two_views(name: str) -> bool:
    """Whether an objective with its defaults can be called on two views alone, without labels, a guide or scores."""
    try:
        return not hs.create_objective(name).needs
    except ValueError:  # it has settings without a default
        return False


TWO_VIEWS = [name for name in hs.list_objectives() if needs_only_two_views(name)]

MIXABLE = [name for name in TWO_VIEWS if name != "mixup" and "negatives" in hs.create_objective(name).takes]


def takes_one_row(case: Case) -> bool:
    return bool(hs.create_objective(case[0], **case[1]).fewest == 1)


def settings_of(name: str, num_classes: int, dim: int) -> dict[str, Any]:
    """The settings that an objective has no default for."""
    needed = {"num_classes": num_classes, "dim": dim}
    return {key: value for key, value in needed.items() if key in objective_class(name).settings()}


def named(cases: list[Case]) -> dict[str, Any]:
    """Arguments of pytest.mark.parametrize, with readable ids."""
    ids = ["-".join([name, *(f"{k}={v}" for k, v in params.items())]) for name, params in cases]
    return {"argvalues": cases, "ids": [i.replace("{", "").replace("}", "").replace("'", "") for i in ids]}
