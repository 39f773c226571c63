"""A plain function of two views, or a torch module of one's own, as an objective."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

from torch import Tensor

from hypersphere.engine import Inputs, Statistics, evaluate_features
from hypersphere.geometry import widened
from hypersphere.objectives.base import Objective
from hypersphere.objectives.settings import REQUIRED, Setting, as_setting


class FunctionObjective(Objective):
    """A function of two views that its author wrote without this package.

    It gets the raw rows (N, D) of both views, of all processes if it gathers, and returns one number. It is evaluated
    whole: nothing is streamed, and it takes neither labels nor extra negatives.
    """

    reductions: ClassVar[tuple[str, ...]] = ("mean",)
    nature: ClassVar[str] = "is a plain function of two views"
    raw_rows: ClassVar[Any] = True
    made_from: ClassVar[Any] = None  # the function, or the class of the module
    own: ClassVar[tuple[str, ...]] = ()  # settings that are arguments of it

    def build(self) -> None:
        if isinstance(self.made_from, type):
            self.module = self.made_from(**self._arguments())

    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.own}

    def rows(self, z: Tensor) -> Tensor:
        return widened(z)

    def features(self, *views: Tensor) -> Statistics:
        """The one number, as the engine takes it."""
        z1, z2 = views
        is_module = isinstance(self.made_from, type)
        value = self.module(z1, z2) if is_module else self.made_from(z1, z2, **self._arguments())
        if not isinstance(value, Tensor) or value.ndim:
            what = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"{self.name} must return one number, a tensor without dimensions; it returned {what}")
        return {"loss": value}

    def map_pairwise(self, change: Callable[..., Any]) -> Any:
        raise ValueError(f"{self.name} is a plain function: its negatives are not known")

    def evaluate(self, inputs: Inputs, terms: bool) -> Statistics:
        self.refuse_unused(inputs)
        return evaluate_features(self, inputs, terms)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _blank, (self.made_from, self.name), self.__dict__.copy()  # its class is made here, in no module


@cache
def objective_of(made_from: Callable[..., Any], name: str) -> type[FunctionObjective]:
    """The objective that a function of two views makes, or a class of torch modules called with two views.

    Arguments beyond the views (of a class: all its arguments) become settings, with their defaults.

    >>> def gap(z1, z2, margin=0.3):
    ...     return (z1 - z2).norm(dim=1).sub(margin).relu().mean()
    >>> objective_of(gap, "gap")(margin=0.5)
    gap(margin=0.5)
    """
    try:
        arguments = [each for each in inspect.signature(made_from).parameters.values() if each.kind not in _STARRED]
    except ValueError:
        raise ValueError(f"{name} hides its arguments, so it cannot be an objective") from None
    if not isinstance(made_from, type):
        views, arguments = arguments[:2], arguments[2:]
        if len(views) < 2 or any(each.kind is each.KEYWORD_ONLY for each in views):
            raise ValueError(f"{name} must take two views to be an objective, as in def {name}(z1, z2)")
    settings = {each.name: _setting(name, each) for each in arguments if each.name not in Objective.settings()}
    body = {"name": name, "made_from": staticmethod(made_from), "own": tuple(settings), "final": tuple(settings)}
    cls = type(name, (FunctionObjective,), {**body, "__doc__": inspect.getdoc(made_from) or f"{name}, a function"})
    for key, setting in settings.items():
        setting.__set_name__(cls, key)
        setattr(cls, key, setting)
    return cls


_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _setting(name: str, argument: inspect.Parameter) -> Setting:
    if argument.name == "labels":
        raise ValueError(f"{name} takes labels, which a plain function does not get: derive from hs.PairwiseObjective")
    if hasattr(FunctionObjective, argument.name):
        raise ValueError(f"{name}'s argument {argument.name!r} has a name that every objective uses; rename it")
    return as_setting(REQUIRED if argument.default is argument.empty else argument.default)


def _blank(made_from: Callable[..., Any], name: str) -> FunctionObjective:
    cls = objective_of(made_from, name)
    return cls.__new__(cls)
