"""The objectives under test, each in every form that changes what it computes."""

from __future__ import annotations

from typing import Any

Case = tuple[str, dict[str, Any]]
STAGES = ("original", "+gd", "+w", "+r")

# Differentiable throughout: the gradient is that of the value.
SMOOTH: list[Case] = [
    ("infonce", {}),
    ("infonce", {"symmetric": True}),
    ("ntxent", {}),
    ("met", {}),
    ("align_uniform", {}),
    ("align_uniform", {"pairs": "cross", "alpha": 1.0, "t": 3.0, "weight": 0.3}),
    ("kcl", {}),
    ("kcl", {"kernel": "log", "views": "both"}),
    ("siglip", {}),
    ("supcon", {}),
    ("supcon", {"form": "in"}),
]

# With detached weights: the gradient is defined, the value only carries it.
DETACHED: list[Case] = [
    ("dclw", {}),
    ("dclw", {"negatives": "cross"}),
    ("paradigm", {}),
    *[(name, {"stage": stage}) for name in ("mmhe", "mbarlow") for stage in STAGES],
    ("mmhe", {"views": "anchor"}),
    ("mbarlow", {"views": "anchor"}),
]

WRAPPERS: list[Case] = [
    ("cloa", {"base": "infonce", "num_classes": 2, "dim": 4}),
    ("cloa", {"base": {"name": "mbarlow", "stage": "original"}, "num_classes": 2, "dim": 4, "weight": 0.5}),
]

ALL = SMOOTH + DETACHED + WRAPPERS


def named(cases: list[Case]) -> dict[str, Any]:
    """Arguments of pytest.mark.parametrize, with readable ids."""
    ids = ["-".join([name, *(f"{k}={v}" for k, v in params.items())]) for name, params in cases]
    return {"argvalues": cases, "ids": [i.replace("{", "").replace("}", "").replace("'", "") for i in ids]}
