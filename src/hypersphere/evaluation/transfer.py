"""Transfer: the accuracy of a logistic regression on frozen embeddings, by SentEval's protocol."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hypersphere.evaluation.classifier import SENTEVAL, Fit, Fitted, Progress, Protocol, fit_all

HELD_OUT = 0.05  # share of the training rows that stops the last fit


@dataclass(frozen=True)
class Labelled:
    """Features (N, D) in float32 and a class for each row."""

    features: Tensor
    labels: Tensor

    @classmethod
    def of(cls, features: np.ndarray, labels: np.ndarray) -> Labelled:
        return cls(torch.from_numpy(np.ascontiguousarray(features)), torch.from_numpy(labels))

    @property
    def folded(self) -> np.ndarray:
        return self.labels.numpy()


@dataclass(frozen=True)
class TransferScore:
    """Accuracies in percent; ``strengths`` are the chosen weight decays, one for each outer fold."""

    accuracy: float
    dev_accuracy: float
    strengths: tuple[float, ...]
    f1: float | None = None


def pair_features(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The features of a pair (u, v): |u − v| beside u · v, elementwise."""
    return np.concatenate([np.abs(first - second), first * second], axis=1)


def cross_validate(
    data: Labelled, classes: int, protocol: Protocol = SENTEVAL, progress: Progress = lambda share: None
) -> TransferScore:
    """Nested cross-validation: every outer fold is tested once; an inner one on the others chooses the strength."""
    fits: list[Fit] = []
    tests: list[np.ndarray] = []
    outer: list[np.ndarray] = []
    for train, test in folds(data.folded, protocol):
        outer.append(train)
        tests.append(test)
        fits += [Fit(train[own], train[dev]) for own, dev in folds(data.folded[train], protocol)]
    inner = fit_all(data.features, data.labels, classes, fits, protocol, progress=lambda share: progress(0.95 * share))
    means = _percent(inner.accuracy.reshape(len(outer), protocol.folds, -1).mean(axis=1))  # (outer, strengths)
    chosen = means.argmax(axis=1)
    last = _last_fits(data, classes, outer, chosen, protocol)
    scores = [
        _percent(fitted.correct(0, 0, data.features[test], data.labels[test]).double().mean())
        for fitted, test in zip(last, tests, strict=True)
    ]
    progress(1.0)
    return TransferScore(
        accuracy=float(np.round(np.mean(scores), 2)),
        dev_accuracy=float(np.round(means.max(axis=1).mean(), 2)),
        strengths=tuple(protocol.strengths[place] for place in chosen),
    )


def train_and_test(
    train: Labelled,
    test: Labelled,
    classes: int,
    protocol: Protocol = SENTEVAL,
    progress: Progress = lambda share: None,
) -> TransferScore:
    """Chooses the strength by cross-validation on ``train``, then tests a last fit on all of it."""
    fits = [Fit(own, dev) for own, dev in folds(train.folded, protocol)]
    inner = fit_all(train.features, train.labels, classes, fits, protocol, progress=lambda share: progress(0.9 * share))
    means = _percent(inner.accuracy.mean(axis=0))
    chosen = np.asarray([means.argmax()])
    (last,) = _last_fits(train, classes, [np.arange(len(train.labels))], chosen, protocol)
    progress(1.0)
    return _tested(last, 0, test, classes, float(means.max()), protocol.strengths[chosen[0]])


def train_dev_test(
    train: Labelled,
    dev: Labelled,
    test: Labelled,
    classes: int,
    protocol: Protocol = SENTEVAL,
    progress: Progress = lambda share: None,
) -> TransferScore:
    """Chooses the strength with the best accuracy on ``dev``, which also stops the training."""
    both = torch.cat([train.features, dev.features]), torch.cat([train.labels, dev.labels])
    rows = np.arange(len(both[1]))
    fit = Fit(rows[: len(train.labels)], rows[len(train.labels) :])
    fitted = fit_all(*both, classes, [fit], protocol, progress=progress)
    scores = _percent(fitted.accuracy[0])
    chosen = int(scores.argmax())
    return _tested(fitted, chosen, test, classes, float(scores.max()), protocol.strengths[chosen])


def folds(labels: np.ndarray, protocol: Protocol) -> list[tuple[np.ndarray, np.ndarray]]:
    """Stratified and shuffled folds: rows to train on and rows to test on."""
    try:
        from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise ImportError("Transfer tasks need scikit-learn: pip install 'hypersphere-lab[text]'.") from None
    split = StratifiedKFold(protocol.folds, shuffle=True, random_state=protocol.seed).split(labels, labels)
    return [(np.asarray(train), np.asarray(test)) for train, test in split]


def _last_fits(
    data: Labelled, classes: int, outer: list[np.ndarray], chosen: np.ndarray, protocol: Protocol
) -> list[Fitted]:
    """One fit on each set of rows at its chosen strength; a share of the rows is held out to stop it."""
    fits = [Fit.holding_out(rows, HELD_OUT, protocol.seed) for rows in outer]
    by_member: dict[int, Fitted] = {}
    for place in sorted(set(chosen.tolist())):
        members = np.flatnonzero(chosen == place).tolist()
        own = [fits[each] for each in members]
        fitted = fit_all(data.features, data.labels, classes, own, protocol, [protocol.strengths[place]])
        for at, member in enumerate(members):
            by_member[member] = Fitted(fitted.accuracy[at : at + 1], fitted.weights[at : at + 1])
    return [by_member[each] for each in range(len(fits))]


def _tested(fitted: Fitted, place: int, test: Labelled, classes: int, dev: float, strength: float) -> TransferScore:
    predicted = fitted.predict(0, place, test.features)
    accuracy = float(_percent((predicted == test.labels).double().mean()))
    return TransferScore(accuracy, dev, (strength,), _f1(predicted, test.labels) if classes == 2 else None)


def _f1(predicted: Tensor, labels: Tensor) -> float:
    """Harmonic mean of precision and recall of class 1: 2 TP / (2 TP + FP + FN)."""
    hits = int(((predicted == 1) & (labels == 1)).sum())
    return round(200 * hits / max(1, int((predicted == 1).sum()) + int((labels == 1).sum())), 2)


def _percent(share: np.ndarray | Tensor) -> np.ndarray:
    """SentEval rounds to a hundredth of a percent before it compares."""
    return np.round(100 * np.asarray(share), 2)
