"""The description of an objective: its docstring in parts, its settings, its presets."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from hypersphere.anatomy.closed_forms import closed_form
from hypersphere.objectives import Objective
from hypersphere.objectives.components import DISSIPATIONS, RATIOS, WEIGHTS, Component
from hypersphere.objectives.presets import PRESETS
from hypersphere.objectives.registry import objective_class
from hypersphere.objectives.settings import REQUIRED, Number, Setting
from hypersphere.objectives.table import summary

FOLDED = 95  # characters: a docstring line longer than this may continue on the next
# Settings that take a component by name.
COMPONENTS: dict[tuple[str, str], Mapping[str, type[Component]]] = {
    ("paradigm", "dissipation"): DISSIPATIONS,
    ("paradigm", "weight"): WEIGHTS,
    ("paradigm", "ratio"): RATIOS,
}


@dataclass(frozen=True)
class Parameter:
    """A setting: its default (None and ``required`` if there is none) and its allowed values."""

    name: str
    default: Any
    required: bool
    allowed: str
    learnable: bool
    common: bool  # every objective has it
    tuned: str | None  # the range that ``hypersphere compare`` searches


@dataclass(frozen=True)
class Description:
    """An objective in words."""

    name: str
    summary: str
    formula: str
    source: str
    paper: str
    use: str
    relations: str
    parameters: tuple[Parameter, ...]
    gradient: str  # dissipation, weight and ratio
    components: dict[str, dict[str, dict[str, Any]]]  # setting, component, {"does", parameters}
    presets: dict[str, dict[str, Any]]


def describe(name: str) -> Description:
    cls = objective_class(name)
    parts = sections(inspect.getdoc(cls) or "")
    return Description(
        name=name,
        summary=summary(cls),
        formula=parts["formula"],
        source=cls.citation(),
        paper=parts["source"] or cls.citation(),
        use=parts["use"],
        relations=parts["relations"],
        parameters=_parameters(cls),
        gradient=_gradient(name),
        components={
            setting: {label: _component(kind) for label, kind in known.items()}
            for (objective, setting), known in COMPONENTS.items()
            if objective == name
        },
        presets={preset: dict(of[name]) for preset, of in PRESETS.items() if name in of},
    )


def _gradient(name: str) -> str:
    """The components of an anchor's gradient in closed form, or why there is none."""
    try:
        return inspect.getdoc(closed_form(name)) or ""
    except ValueError as error:
        reason = str(error).partition(" (there are")[0]
        return f"{reason[:1].upper()}{reason[1:]}. On a batch they are measured: hypersphere dissect {name}."


def sections(doc: str) -> dict[str, str]:
    """The parts of a docstring: the formula between the first line and "Source:", then the text after each heading.

    >>> sections("Name.\\n\\nL = x.\\n\\nSource: Euler.\\nUse it often,\\nor never.\\n\\n>>> 1")["use"]
    'Use it often, or never.'
    """
    parts: dict[str, list[str]] = {"formula": [], "source": [], "use": [], "relations": []}
    place = "formula"
    for line in doc.partition(">>>")[0].splitlines()[1:]:
        heading = re.match(r"(Source: |Use it|Relations: )", line)
        if heading:
            place = heading[1].split()[0].strip(":").lower()
            line = line if place == "use" else line[heading.end() :]
        parts[place].append(line.replace("``", ""))
    prose = {place: " ".join(" ".join(lines).split()) for place, lines in parts.items() if place != "formula"}
    return {"formula": _unfolded(parts["formula"]), **prose}


def _unfolded(lines: Iterable[str]) -> str:
    """Rejoins lines that were folded to the width of the source."""
    text = ""
    for line in lines:
        last = text.rpartition("\n")[2]
        text += (" " if len(last) > FOLDED and not last.endswith((".", ";", ":")) else "\n") + line
    return text.strip()


def _parameters(cls: type[Objective]) -> tuple[Parameter, ...]:
    parameters = [_parameter(cls, each) for each in cls.settings().values()]
    can_learn = any(each.learnable for each in parameters)
    return tuple(each for each in parameters if can_learn or each.name != "learnable")


def _parameter(cls: type[Objective], setting: Setting) -> Parameter:
    common = setting.name in Objective.settings()
    allowed = setting.allowed()
    known = COMPONENTS.get((cls.name, setting.name))
    if setting.name == "reduction":
        allowed = " or ".join(map(repr, cls.reductions))
    elif known is not None:
        allowed = f"{', '.join(known)}, or a callable"
    elif allowed == "anything":
        allowed = "see the formula"
    required = setting.default is REQUIRED
    learnable = isinstance(setting, Number) and setting.learnable
    tuned = setting.tune if isinstance(setting, Number) else None
    default = None if required else setting.default
    return Parameter(setting.name, default, required, allowed, learnable, common, None if tuned is None else str(tuned))


def _component(kind: type[Component]) -> dict[str, Any]:
    return {
        "does": (inspect.getdoc(kind) or "").replace("``", ""),
        "parameters": {each.name: each.default for each in fields(kind)},
    }
