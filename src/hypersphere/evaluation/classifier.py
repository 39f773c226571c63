"""Logistic regressions trained side by side: all folds and all strengths of regularisation as one batched model.

SentEval trains them one after another: a linear layer, cross-entropy, Adam (or RMSprop) with the strength as weight
decay, and minibatches from shuffled epochs. Every few epochs the dev accuracy decides when to stop and which weights to
keep. Each fit starts from the same seed, so fits with equally many rows draw the same batches of *indices*. They can
take their steps together, and each gives the same result as alone, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

Progress = Callable[[float], None]  # share of the longest possible training that is done


@dataclass(frozen=True)
class Protocol:
    """How a classifier is trained and its regularisation chosen; the defaults are SentEval's for published numbers."""

    folds: int = 10
    optimiser: str = "adam"
    batch_size: int = 64
    tenacity: int = 5  # checks without a better dev accuracy that are allowed, over the whole training
    epoch_size: int = 4  # epochs between two checks
    max_epoch: int = 200
    strengths: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2)
    seed: int = 1111


SENTEVAL = Protocol()
FAST = Protocol(folds=5, optimiser="rmsprop", batch_size=128, tenacity=3, epoch_size=2)  # to choose among checkpoints


@dataclass(frozen=True)
class Fit:
    """The training rows of one classifier, and the dev rows that decide when it stops."""

    train: np.ndarray  # (n,) row numbers
    dev: np.ndarray
    drawn: int = 0  # length of a permutation that was drawn from the same seed before

    @classmethod
    def holding_out(cls, rows: np.ndarray, share: float, seed: int) -> Fit:
        """Holds out a random share of ``rows`` for stopping; the rest is for training."""
        order = np.random.RandomState(seed).permutation(len(rows))
        held = int(share * len(rows))
        return cls(rows[order[held:]], rows[order[:held]], drawn=len(rows))


@dataclass(frozen=True)
class Fitted:
    """The best dev accuracies of F fits at R strengths, and the weights that reached them."""

    accuracy: np.ndarray  # (F, R)
    weights: Tensor  # (F, R, D + 1, C - 1): of class c minus those of class 0, the bias last

    def correct(self, fit: int, strength: int, features: Tensor, labels: Tensor) -> Tensor:
        """Whether each row is classified correctly."""
        return self.predict(fit, strength, features) == labels

    def predict(self, fit: int, strength: int, features: Tensor) -> Tensor:
        weights = self.weights[fit, strength]
        return _classes(features @ weights[:-1] + weights[-1])


def fit_all(
    features: Tensor,
    labels: Tensor,
    classes: int,
    fits: Sequence[Fit],
    protocol: Protocol = SENTEVAL,
    strengths: Sequence[float] | None = None,
    progress: Progress = lambda share: None,
) -> Fitted:
    """Trains every fit at every strength: (N, D) features, (N,) labels from 0 to classes - 1."""
    used = tuple(protocol.strengths if strengths is None else strengths)
    rows = torch.cat([features, features.new_ones(len(features), 1)], dim=1)  # the bias is the weight of a constant
    groups: dict[tuple[int, int], list[int]] = {}
    for number, fit in enumerate(fits):
        groups.setdefault((len(fit.train), fit.drawn), []).append(number)
    accuracy = np.zeros((len(fits), len(used)))
    weights = rows.new_zeros(len(fits), len(used), rows.shape[1], classes - 1)
    done = 0
    for members in groups.values():
        base, share = done / len(fits), len(members) / len(fits)
        training = _Training(rows, labels, classes, [fits[each] for each in members], protocol, used)
        training.run(lambda part, base=base, share=share: progress(base + share * part))  # type: ignore[misc]
        accuracy[members] = training.best
        weights[members] = training.kept
        done += len(members)
    return Fitted(accuracy, weights)


class _Training:
    """Fits with equally many rows, in step. Weights are (C, F, D + 1, R): classes, fits, features, strengths."""

    def __init__(
        self,
        rows: Tensor,
        labels: Tensor,
        classes: int,
        fits: list[Fit],
        protocol: Protocol,
        strengths: tuple[float, ...],
    ) -> None:
        self.rows, self.labels, self.fits, self.protocol = rows, labels, fits, protocol
        self.train = torch.from_numpy(np.stack([fit.train for fit in fits]))  # (F, n)
        self.target = torch.nn.functional.one_hot(labels, classes)[:, 1:].to(rows.dtype)  # (N, C - 1)
        self.strengths = rows.new_tensor(strengths)
        self.weight = torch.nn.Parameter(_initial(rows, classes, len(fits), len(strengths), protocol.seed))
        self.optimiser = _optimiser(protocol.optimiser, self.weight)
        self.best = np.full((len(fits), len(strengths)), -1.0)
        self.kept = rows.new_zeros(len(fits), len(strengths), rows.shape[1], classes - 1)
        self.misses = np.zeros_like(self.best, dtype=np.int64)
        self.running = np.arange(len(fits))  # fits still in the batch

    def run(self, progress: Progress) -> None:
        draw = np.random.RandomState(self.protocol.seed)
        if self.fits[0].drawn:
            draw.permutation(self.fits[0].drawn)
        size = self.train.shape[1]
        epoch = 0
        with torch.no_grad():
            while len(self.running) and epoch <= self.protocol.max_epoch:
                for _ in range(self.protocol.epoch_size):
                    order = torch.from_numpy(draw.permutation(size))
                    for start in range(0, size, self.protocol.batch_size):
                        self.step(self.train[:, order[start : start + self.protocol.batch_size]])
                epoch += self.protocol.epoch_size
                self.look()
                progress(min(1.0, epoch / self.protocol.max_epoch))
        progress(1.0)

    def step(self, batch: Tensor) -> None:
        """One step of every fit on its own rows (F, B). Softmax depends only on differences to class 0, so C - 1
        columns suffice.

        ∂loss/∂w_c = mean over the batch of (p_c − [y = c]) x + strength · w_c; the data term of class 0 is minus the
        sum of the others'.
        """
        fits, size = batch.shape
        x = self.rows.index_select(0, batch.reshape(-1)).view(fits, size, -1)
        classes, _, width, strengths = self.weight.shape
        y = self.target.index_select(0, batch.reshape(-1)).view(fits, size, classes - 1, 1)
        scores = torch.bmm(x, self._differences(slice(None)))  # (F, B, (C - 1) R)
        scores = scores.view(fits, size, classes - 1, strengths)
        if classes == 2:
            error = torch.sigmoid(scores)
        else:
            error = torch.softmax(torch.nn.functional.pad(scores, (0, 0, 1, 0)), dim=2)[:, :, 1:]
        error = error.sub_(y).div_(size).reshape(fits, size, -1)
        pull = torch.bmm(x.transpose(1, 2), error).view(fits, width, classes - 1, strengths).permute(2, 0, 1, 3)
        gradient = self.weight * self.strengths
        gradient[1:] += pull
        gradient[0] -= pull.sum(dim=0)
        self.weight.grad = gradient
        self.optimiser.step()

    def _differences(self, fit: slice | int) -> Tensor:
        """Weights of classes 1 … C - 1 minus those of class 0, classes and strengths side by side."""
        apart = self.weight[1:, fit] - self.weight[0, fit]  # (C - 1, …, D + 1, R)
        return apart.movedim(0, -2).flatten(-2)

    def look(self) -> None:
        """Checks the dev accuracy of each running fit: keeps better weights, counts misses, drops finished fits."""
        for place, number in enumerate(self.running):
            dev = torch.from_numpy(self.fits[number].dev)
            apart = self._differences(place)  # (D + 1, (C - 1) R)
            scores = (self.rows[dev] @ apart).view(len(dev), -1, len(self.strengths))
            accuracy = (_classes(scores) == self.labels[dev, None]).double().mean(dim=0).numpy()  # (R,)
            going = self.misses[number] <= self.protocol.tenacity
            better = (accuracy > self.best[number]) & going
            self.misses[number] += ~better & going
            self.best[number][better] = accuracy[better]
            weights = apart.view(len(apart), -1, len(self.strengths)).permute(2, 0, 1)  # (R, D + 1, C - 1)
            self.kept[number, better] = weights[better]
        self._let_go(np.any(self.misses[self.running] <= self.protocol.tenacity, axis=1))

    def _let_go(self, staying: Any) -> None:
        if staying.all():
            return
        chosen = torch.from_numpy(np.flatnonzero(staying))
        old, state = self.weight, self.optimiser.state[self.weight]
        self.weight = torch.nn.Parameter(old.data[:, chosen])
        kept = {name: value[:, chosen] if value.shape == old.shape else value for name, value in state.items()}
        self.optimiser.state.clear()
        self.optimiser.state[self.weight] = kept
        self.optimiser.param_groups[0]["params"] = [self.weight]
        self.train, self.running = self.train[chosen], self.running[staying]


def _initial(rows: Tensor, classes: int, fits: int, strengths: int, seed: int) -> Tensor:
    """The initial weights of ``torch.nn.Linear`` at this seed, the same for each fit and strength."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = torch.nn.Linear(rows.shape[1] - 1, classes)
    own = torch.cat([layer.weight, layer.bias[:, None]], dim=1).detach().to(rows.dtype)
    return own[:, None, :, None].repeat(1, fits, 1, strengths)


def _optimiser(name: str, weight: torch.nn.Parameter) -> torch.optim.Optimizer:
    if name == "adam":
        return torch.optim.Adam([weight], fused=True)
    if name == "rmsprop":
        return torch.optim.RMSprop([weight])
    raise ValueError(f"There is no optimiser {name!r} for classifiers; there are adam and rmsprop.")


def _classes(scores: Tensor) -> Tensor:
    """The class with the highest score, from scores (N, C - 1, …) relative to class 0's."""
    return torch.nn.functional.pad(scores.movedim(1, -1), (1, 0)).argmax(dim=-1)
