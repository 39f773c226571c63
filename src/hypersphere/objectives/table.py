"""The table of objectives, from the registry: ``python -m hypersphere.objectives.table [docs/objectives.md]``."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from hypersphere.objectives.base import Objective
from hypersphere.objectives.registry import list_objectives, objective_class
from hypersphere.objectives.settings import REQUIRED

BEGIN, END = "<!-- objectives: begin -->", "<!-- objectives: end -->"


def summary(cls: type[Objective]) -> str:
    """First line of the docstring, without its full stop."""
    return (inspect.getdoc(cls) or "").split("\n")[0].rstrip(".")


def parameters(cls: type[Objective]) -> str:
    """The objective's own settings with their defaults."""
    common = Objective.settings()
    settings = []
    for name, setting in cls.settings().items():
        if name not in common:
            settings.append(name if setting.default is REQUIRED else f"{name}={_short(setting.default)}")
    return ", ".join(f"`{each}`" for each in settings)


def markdown() -> str:
    """One row for each registered objective."""
    rows = ["| name | what it does | parameters | source |", "|---|---|---|---|"]
    for name in list_objectives():
        cls = objective_class(name)
        rows.append(f"| `{name}` | {summary(cls)} | {parameters(cls)} | {cls.citation()} |")
    return "\n".join(rows)


def refresh(text: str) -> str:
    """The text with the table between its two marks made anew."""
    return between(text, BEGIN, END, markdown())


def between(text: str, begin: str, end: str, body: str) -> str:
    """The text with what stands between two marks replaced.

    >>> between("before <b>old<e> after", "<b>", "<e>", "new")
    'before <b>\\nnew\\n<e> after'
    """
    before, opened, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise ValueError(f"the file needs the marks {begin} and {end}")
    return f"{before}{begin}\n{body}\n{end}{after}"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main(arguments: list[str]) -> int:
    if not arguments:
        print(markdown())
        return 0
    path = Path(arguments[0])
    try:
        text = refresh(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
