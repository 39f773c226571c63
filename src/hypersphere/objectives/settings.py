"""Parameters of an objective, declared once: default, allowed values, whether they may be learned.

    class MET(PairwiseObjective):
        margin: float = number(default=0.45, at_least=0)

``number``, ``choice``, ``flag`` and ``anything`` make settings; a plain annotated default is turned into one.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hypersphere.engine.distributed import is_group

REQUIRED: Any = object()
TEMPERATURES = (0.02, 1.0)  # where a temperature is worth looking for
LOG_SCALE = 10.0  # a range whose ends differ by at least this factor is searched on a logarithmic scale


class Range(NamedTuple):
    """The range in which a comparison searches for a setting."""

    low: float
    high: float

    @property
    def log(self) -> bool:
        return self.low > 0 and self.high >= LOG_SCALE * self.low

    def at(self, share: float) -> float:
        """The value at a share of the range, 0 to 1.

        >>> Range(0.01, 1.0).at(0.5), Range(1.0, 3.0).at(0.5)
        (0.1, 2.0)
        """
        if self.log:
            return float(math.exp(math.log(self.low) + share * math.log(self.high / self.low)))
        return self.low + share * (self.high - self.low)

    def share(self, value: float) -> float:
        """Where in the range a value is; outside of it below 0 or above 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low) if value > 0 else -math.inf
        return (value - self.low) / (self.high - self.low)

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}{', logarithmic' if self.log else ''}"


def is_sharded(value: Any) -> bool:
    """Whether it is spread over processes (a DTensor), as FSDP2 leaves a parameter outside of forward."""
    return hasattr(value, "full_tensor")


class Setting:
    """A declared parameter: checks what it is given, and reads back as a plain value."""

    name = ""

    def __init__(self, default: Any) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        try:
            return instance.__dict__[self.name]
        except KeyError:
            raise AttributeError(self.name) from None

    def __set__(self, instance: Any, value: Any) -> None:
        clean = self.clean(value, f"{type(instance).name}'s {self.name}")
        before = instance.__dict__.get(self.name)
        instance.__dict__[self.name] = clean
        if instance.__dict__.get("_ready"):  # changed later: the whole must still make sense
            try:
                instance.recheck(self.name)
            except ValueError:
                instance.__dict__[self.name] = before
                raise

    def clean(self, value: Any, what: str) -> Any:
        """The value as it will be kept; raises with what is allowed if the value is not."""
        return value

    def allowed(self) -> str:
        return "anything"


class Number(Setting):
    """A finite number in an interval. A learnable one with a positive range is learned as its logarithm."""

    def __init__(
        self,
        default: Any,
        above: float | None = None,
        at_least: float | None = None,
        below: float | None = None,
        at_most: float | None = None,
        learnable: bool = False,
        whole: bool = False,
        tune: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(default)
        self.above, self.at_least, self.below, self.at_most = above, at_least, below, at_most
        self.learnable, self.whole = learnable, whole
        self.tune = None if tune is None else Range(*tune)

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        self.parameter = f"log_{name}" if self.above == 0 else name  # the nn.Parameter that holds it when it is learned

    def __get__(self, instance: Any, owner: type) -> Any:
        learned = None if instance is None else instance.__dict__.get("_parameters", {}).get(self.parameter)
        if learned is None:
            return super().__get__(instance, owner)
        if self.above != 0:
            return learned  # under its own name, where torch looks for it
        return learned.exp() if is_sharded(learned) else learned.exp().reshape(())

    def __set__(self, instance: Any, value: Any) -> None:
        learned = instance.__dict__.get("_parameters", {}).get(self.parameter)
        if learned is None:
            super().__set__(instance, value)
            return
        clean = self.clean(value, f"{type(instance).name}'s {self.name}")
        with torch.no_grad():
            learned.fill_(math.log(clean) if self.above == 0 else clean)
        self._begin_at(instance, clean)

    def learn(self, instance: Any) -> None:
        """Turns the value into an nn.Parameter: of one dimension, since FSDP2's fully_shard takes no scalars."""
        value = instance.__dict__.pop(self.name)
        self._begin_at(instance, value)
        start = torch.tensor([math.log(value) if self.above == 0 else float(value)])
        instance.register_parameter(self.parameter, nn.Parameter(start))

    def _begin_at(self, instance: Any, value: float) -> None:
        """Keeps the value that a learned number was set to."""
        instance.__dict__.setdefault("_starts", {})[self.name] = value

    def clean(self, value: Any, what: str) -> Any:
        if isinstance(value, Tensor) and value.numel() == 1:
            if value.requires_grad:
                raise ValueError(f"{what} must be a number; to learn it, set learnable=True")
            value = value.item()
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            raise ValueError(f"{what} must be {self.allowed()}, not {value!r}")
        fits = (
            (self.above is None or value > self.above)
            and (self.at_least is None or value >= self.at_least)
            and (self.below is None or value < self.below)
            and (self.at_most is None or value <= self.at_most)
            and (not self.whole or value == int(value))
        )
        if not fits:
            raise ValueError(f"{what} must be {self.allowed()}, not {value!r}")
        return int(value) if self.whole or isinstance(value, numbers.Integral) else float(value)

    def allowed(self) -> str:
        words = (
            ("above", self.above),
            ("at least", self.at_least),
            ("below", self.below),
            ("at most", self.at_most),
        )
        bounds = " and ".join(f"{word} {bound:g}" for word, bound in words if bound is not None)
        return ("a whole number" if self.whole else "a number") + (f" {bounds}" if bounds else "")


class Choice(Setting):
    """One of several words."""

    def __init__(self, words: tuple[str, ...], default: Any) -> None:
        super().__init__(default)
        self.words = words

    def clean(self, value: Any, what: str) -> str:
        if value not in self.words:
            raise ValueError(f"{what} must be {self.allowed()}, not {value!r}")
        return str(value)

    def allowed(self) -> str:
        return " or ".join(repr(word) for word in self.words)


class Flag(Setting):
    """Yes or no."""

    def clean(self, value: Any, what: str) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{what} must be {self.allowed()}, not {value!r}")
        return value

    def allowed(self) -> str:
        return "True or False"


class Gathering(Flag):
    """Yes or no, or the group of processes whose rows are gathered."""

    def clean(self, value: Any, what: str) -> Any:
        return value if is_group(value) else super().clean(value, what)

    def allowed(self) -> str:
        return "True, False or a group of torch.distributed that this process belongs to"


def number(
    *,
    default: Any = REQUIRED,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    learnable: bool = False,
    whole: bool = False,
    tune: tuple[float, float] | None = None,
) -> Any:
    """A number, optionally bounded, whole, or allowed to be learned; ``tune``: where a comparison searches for it."""
    return Number(default, above, at_least, below, at_most, learnable, whole, tune)


def choice(*words: str, default: str) -> Any:
    """One of the given words."""
    return Choice(words, default)


def flag(*, default: bool) -> Any:
    """True or False."""
    return Flag(default)


def gathering(*, default: bool = False) -> Any:
    """True, False, or a group of processes."""
    return Gathering(default)


def anything(*, default: Any = REQUIRED) -> Any:
    """A value the objective checks itself."""
    return Setting(default)


def as_setting(value: Any) -> Setting:
    """The setting that a plain annotated default stands for."""
    if isinstance(value, Setting):
        return value
    if isinstance(value, bool):
        return Flag(value)
    if isinstance(value, (int, float)):
        return Number(value)
    return Setting(value)
