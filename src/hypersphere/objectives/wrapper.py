"""Objectives around another one, which they evaluate in a way of their own."""

from __future__ import annotations

from typing import Any, ClassVar

from hypersphere.objectives.base import Objective
from hypersphere.objectives.registry import as_objective
from hypersphere.objectives.settings import Setting, anything


class Wrapper(Objective):
    """An objective around ``base``: a name, a mapping {"name": …, parameters…}, or an objective.

    Learned parameters belong to the base; its reduction and its gathering are the wrapper's.
    """

    final: ClassVar[tuple[str, ...]] = ("base",)
    base: Any = anything(default="infonce")

    def build(self) -> None:
        base: Any = as_objective(self.base, f"{self.name}'s base", gather=self.gather, **self.passed_on())
        self.check_base(base)
        if base.gather != self.gather:
            raise ValueError(f"{self.name} has gather={self.gather} but its base {base!r} has not")
        if "reduction" not in self._given:
            self.reduction = base.reduction
        elif self.reduction != base.reduction:
            if base is self.base:
                raise ValueError(
                    f"{self.name} has reduction={self.reduction!r} but its base {base!r} has {base.reduction!r}"
                )
            base.reduction = self.reduction
        self.base = base

    def check_base(self, base: Any) -> None:
        """Raises if the wrapper cannot work around this base."""
        if not isinstance(base, Objective) or isinstance(base, type(self)):
            raise ValueError(f"{self.name} needs one of hypersphere's other objectives as its base, not {base!r}")

    def _learn(self, settings: dict[str, Setting]) -> None:
        """Learns nothing here: all learned parameters belong to the base."""

    def follow(self) -> None:
        self.base.gather, self.base.reduction = self.gather, self.reduction

    @property
    def takes(self) -> Any:
        return self.base.takes

    @property
    def needs(self) -> Any:
        return self.base.needs

    @property
    def raw_rows(self) -> bool:
        return bool(self.base.raw_rows)

    @property
    def dim(self) -> int:
        """The width that a ``cloa`` inside is made for; other bases have none."""
        return int(self.base.dim)
