"""The terms of a loss in the form that the trainer logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor


class Terms(dict[str, Tensor]):
    """A loss with its named terms.

    The trainer logs the items of a dictionary and adds up its values. Here the items are the terms, detached, and the
    values are the loss alone, so that logging changes nothing. It can be added and multiplied as MatryoshkaLoss and
    AdaptiveLayerLoss do with a loss.
    """

    def __init__(self, loss: Tensor, terms: Mapping[str, Tensor]) -> None:
        super().__init__(terms)
        self.loss = loss

    def values(self) -> Any:
        return [self.loss]

    def _scaled(self, factor: Any) -> Terms:
        return Terms(self.loss * factor, {name: term * factor for name, term in self.items()})

    def __mul__(self, factor: Any) -> Terms:
        return self._scaled(factor)

    __rmul__ = __mul__

    def __truediv__(self, factor: Any) -> Terms:
        return self._scaled(1 / factor)

    def __add__(self, other: Any) -> Terms:
        if not isinstance(other, Terms):
            return Terms(self.loss + other, dict(self.items()))
        terms = {name: term + other[name] for name, term in self.items()}
        return Terms(self.loss + other.loss, terms)

    __radd__ = __add__
