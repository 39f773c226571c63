"""An objective's own parameters, as its closed form takes them."""

from __future__ import annotations

import inspect
from typing import Any

from hypersphere.anatomy.closed_forms.forms import closed_form
from hypersphere.objectives import Objective

# Settings that do not change an anchor's GD, W and R, or that follow from the angles given to a form.
_NEUTRAL = {"reduction", "gather", "learnable"}
_TOLD = {
    "dcl": {"negatives"},
    "align_uniform": {"pairs"},
    **{name: {"distance"} for name in ("mpt", "met", "mat")},
    **{name: {"views"} for name in ("mhe", "mmhe", "mmhs", "mbarlow", "mvicreg")},
}
_WANTED = {"barlow": {"normalization": "unit"}}


def form_settings(objective: Objective) -> dict[str, Any]:
    """Arguments with which ``closed_form(objective.name)`` describes this objective.

    Raises ValueError if the objective has no closed form, or none with its settings.

    >>> from hypersphere import create_objective
    >>> form_settings(create_objective("met", margin=0.4))
    {'margin': 0.4}
    """
    name = objective.name
    if name == "paradigm":
        return _baseline(objective)
    taken = set(inspect.signature(closed_form(name)).parameters)
    ignored = _NEUTRAL | _TOLD.get(name, set())
    for key, setting in objective.settings().items():
        value, usual = getattr(objective, key), _WANTED.get(name, {}).get(key, setting.default)
        if key not in taken and key not in ignored and value != usual:
            raise ValueError(f"there is no closed form for {name} with {key} = {value!r}, only with {usual!r}")
    return {key: _plain(getattr(objective, key)) for key in objective.settings() if key in taken}


def _baseline(objective: Any) -> dict[str, Any]:
    """Li's baseline with any numbers; any other combination of components is identified by its components."""
    gate, weight, ratio = objective.dissipation, objective.weight, objective.ratio
    kinds = tuple(getattr(each, "name", None) for each in (gate, weight, ratio))
    if kinds != ("margin", "softmax", "constant") or weight.scaled or objective.negatives != "cross":
        raise ValueError("there is no closed form for a paradigm other than Li's baseline (margin, softmax, constant)")
    return {"margin": gate.margin, "temperature": weight.temperature, "ratio": ratio.value}


def _plain(value: Any) -> Any:
    """The current value of a learned number."""
    return value.item() if hasattr(value, "item") else value
