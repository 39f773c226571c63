"""The objectives as the page shows them."""

from __future__ import annotations

from typing import Any

import hypersphere
from hypersphere.anatomy import list_closed_forms
from hypersphere.objectives import list_objectives
from hypersphere.objectives.registry import objective_class
from hypersphere.objectives.table import summary


def catalogue() -> dict[str, Any]:
    """Every registered objective in words."""
    forms = list_closed_forms()
    return {
        "objectives": [
            {"name": name, "summary": summary(objective_class(name)), "formula": "", "use": "", "settings": [],
             "source": objective_class(name).citation(), "closed_form": name in forms}
            for name in list_objectives()
        ],
        "version": hypersphere.__version__,
    }  # fmt: skip
