"""SentEval's protocol as a plain loop: one classifier at a time, torch's layer, loss, optimiser and weight decay.

Written from the description of the protocol, to be slow and obvious; the batched form is compared with it.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold


class OneClassifier:
    def __init__(self, protocol, dim: int, classes: int, strength: float, dtype: torch.dtype) -> None:
        np.random.seed(protocol.seed)
        torch.manual_seed(protocol.seed)
        self.layer = torch.nn.Linear(dim, classes).to(dtype)
        kind = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[protocol.optimiser]
        self.optimiser = kind(self.layer.parameters(), weight_decay=strength)
        self.protocol = protocol

    def fit(self, X, y, dev=None) -> float:
        if dev is None:  # a twentieth of the rows stops the training
            order = np.random.permutation(len(X))
            held = int(0.05 * len(X))
            dev = X[order[:held]], y[order[:held]]
            X, y = X[order[held:]], y[order[held:]]
        best, misses, epochs, stop = -1.0, 0, 0, False
        while not stop and epochs <= self.protocol.max_epoch:
            for _ in range(self.protocol.epoch_size):
                order = np.random.permutation(len(X))
                for start in range(0, len(X), self.protocol.batch_size):
                    rows = order[start : start + self.protocol.batch_size]
                    self.optimiser.zero_grad()
                    torch.nn.functional.cross_entropy(self.layer(X[rows]), y[rows]).backward()
                    self.optimiser.step()
            epochs += self.protocol.epoch_size
            score = self.score(*dev)
            if score > best:
                best, kept = score, copy.deepcopy(self.layer)
            else:
                stop = misses >= self.protocol.tenacity
                misses += 1
        self.layer = kept
        return best

    def predict(self, X):
        with torch.no_grad():
            return self.layer(X).argmax(dim=1)

    def score(self, X, y) -> float:
        return int((self.predict(X) == y).sum()) / len(X)


def folds(protocol, y):
    split = StratifiedKFold(n_splits=protocol.folds, shuffle=True, random_state=protocol.seed)
    return split.split(np.zeros(len(y)), y.numpy())


def search(protocol, X, y, classes) -> tuple[list[float], int]:
    """Mean dev accuracies of the strengths over the folds, in percent; and the best one's place."""
    means = []
    for strength in protocol.strengths:
        scores = []
        for train, dev in folds(protocol, y):
            one = OneClassifier(protocol, X.shape[1], classes, strength, X.dtype)
            one.fit(X[train], y[train], (X[dev], y[dev]))
            scores.append(one.score(X[dev], y[dev]))
        means.append(round(100 * np.mean(scores), 2))
    return means, int(np.argmax(means))


def nested(protocol, X, y, classes):
    devs, tests, chosen = [], [], []
    for train, test in folds(protocol, y):
        means, best = search(protocol, X[train], y[train], classes)
        one = OneClassifier(protocol, X.shape[1], classes, protocol.strengths[best], X.dtype)
        one.fit(X[train], y[train])
        devs.append(max(means))
        tests.append(round(100 * one.score(X[test], y[test]), 2))
        chosen.append(protocol.strengths[best])
    return round(np.mean(tests), 2), round(np.mean(devs), 2), tuple(chosen)


def train_and_test(protocol, X, y, X_test, y_test, classes):
    means, best = search(protocol, X, y, classes)
    one = OneClassifier(protocol, X.shape[1], classes, protocol.strengths[best], X.dtype)
    one.fit(X, y)
    f1 = round(100 * f1_score(y_test, one.predict(X_test)), 2) if classes == 2 else None
    return round(100 * one.score(X_test, y_test), 2), max(means), (protocol.strengths[best],), f1


def train_dev_test(protocol, train, dev, test, classes):
    scores, made = [], []
    for strength in protocol.strengths:
        one = OneClassifier(protocol, train[0].shape[1], classes, strength, train[0].dtype)
        one.fit(*train, dev)
        made.append(one)
        scores.append(round(100 * one.score(*dev), 2))
    best = int(np.argmax(scores))
    return round(100 * made[best].score(*test), 2), max(scores), (protocol.strengths[best],)
