"""Sentence evaluation: seven similarity sets and seven transfer sets, from one pass over the sentences."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.data import sts as sts_sets
from hypersphere.data import transfer as transfer_sets
from hypersphere.data.integrity import known_name
from hypersphere.data.sts import ScoredPairs
from hypersphere.data.transfer import LabelledTexts, TransferSet
from hypersphere.documents import as_record, read_json
from hypersphere.evaluation.classifier import FAST, SENTEVAL, Protocol
from hypersphere.evaluation.embeddings import Embeddings, default_cache, embed, supplied, write_sentences
from hypersphere.evaluation.fingerprint import FORMAT
from hypersphere.evaluation.sentence_model import PRECISIONS, About, open_model
from hypersphere.evaluation.sts import SETTINGS, cosine, summarise
from hypersphere.evaluation.transfer import (
    Labelled,
    TransferScore,
    cross_validate,
    pair_features,
    train_and_test,
    train_dev_test,
)
from hypersphere.messages import first_line
from hypersphere.report import atomic_write

Progress = Callable[[str, float, float], None]  # the current activity; done and total
_MEANING = {
    "all": "one correlation over all pairs of a task",
    "mean": "mean of the correlations of a task's parts",
    "wmean": "mean of the correlations of a task's parts, weighted by their sizes",
}


@dataclass(frozen=True)
class STSScore:
    """Correlations × 100 of one task, in every setting, and of its parts."""

    pairs: int
    spearman: dict[str, float]
    pearson: dict[str, float]
    parts: dict[str, dict[str, float]]
    truncated: int


@dataclass(frozen=True)
class SentenceEvaluation:
    """The numbers and everything they depend on: pooling, prompt, similarity, setting, truncation, classifier."""

    about: About
    setting: str
    sentences: int  # distinct
    truncated: int | None  # of these; None: unknown
    protocol: Protocol
    sts: dict[str, STSScore] = field(default_factory=dict)
    transfer: dict[str, TransferScore] = field(default_factory=dict)
    similarity: str = "cosine"
    precision: str = "fp32"  # of the model's arithmetic
    limit: int | None = None  # pairs or texts of each set, evenly spaced; None: all

    def average(self, correlation: str = "spearman") -> float:
        """Mean over the evaluated STS tasks, in the chosen setting."""
        return float(np.mean([getattr(score, correlation)[self.setting] for score in self.sts.values()]))

    def transfer_average(self) -> float:
        return float(np.mean([score.accuracy for score in self.transfer.values()]))

    def conditions(self) -> str:
        """The conditions of the evaluation, in a sentence."""
        length = "" if self.about.max_length is None else f"at most {self.about.max_length} tokens, "
        cut = "truncation not known" if self.truncated is None else f"{self.truncated} truncated"
        prompt = "" if self.about.prompt is None else f"prompt {self.about.prompt!r}; "
        kept = "" if self.about.truncate_dim is None else f"the first {self.about.truncate_dim} dimensions; "
        arithmetic = "" if self.precision == "fp32" else f"{self.precision} arithmetic; "
        part = "" if self.limit is None else f"at most {self.limit} pairs or texts of each set; "
        return (
            f"{self.about.model}: pooling {self.about.pooling}; {prompt}{kept}{self.similarity} similarity; "
            f"{arithmetic}{part}{length}{self.sentences} distinct sentences, {cut}."
        )

    def __str__(self) -> str:
        lines = [self.conditions()]
        if self.sts:
            lines += ["", f"STS, correlation × 100, setting {self.setting!r}: {_MEANING[self.setting]}."]
            lines += [f"{'task':<10}{'pairs':>7}{'Spearman':>10}{'Pearson':>9}{'truncated':>11}"]
            for name, score in self.sts.items():
                own = score.spearman[self.setting], score.pearson[self.setting]
                cut = "-" if self.truncated is None else str(score.truncated)
                lines += [f"{name:<10}{score.pairs:>7}{own[0]:>10.2f}{own[1]:>9.2f}{cut:>11}"]
            pairs = sum(score.pairs for score in self.sts.values())
            both = f"{self.average():>10.2f}{self.average('pearson'):>9.2f}"
            lines += [f"{f'mean of {len(self.sts)}':<10}{pairs:>7}{both}"]
        if self.transfer:
            lines += ["", f"Transfer, accuracy in percent: {self._classifier()}."]
            lines += [f"{'task':<10}{'test':>7}{'dev':>10}{'F1':>9}  weight decay"]
            for name, transfer_score in self.transfer.items():
                f1 = "" if transfer_score.f1 is None else f"{transfer_score.f1:.2f}"
                chosen = ", ".join(f"{each:g}" for each in sorted(set(transfer_score.strengths)))
                lines += [
                    f"{name:<10}{transfer_score.accuracy:>7.2f}{transfer_score.dev_accuracy:>10.2f}{f1:>9}  {chosen}"
                ]
            lines += [f"{f'mean of {len(self.transfer)}':<10}{self.transfer_average():>7.2f}"]
        return "\n".join(lines)

    def _classifier(self) -> str:
        way = self.protocol
        return (
            f"logistic regression, {way.optimiser}, batches of {way.batch_size}, {way.folds} folds, tenacity "
            f"{way.tenacity}, epoch size {way.epoch_size}, seed {way.seed}"
            + ("; fast mode, to choose among checkpoints only" if way == FAST else "")
        )

    def to_dict(self) -> dict[str, Any]:
        record = asdict(self)
        if self.sts:
            record["sts_average"] = {name: self.average(name) for name in ("spearman", "pearson")}
        if self.transfer:
            record["transfer_average"] = self.transfer_average()
        return {name: _known_numbers(value) for name, value in record.items()}


def _known_numbers(value: Any) -> Any:
    """Replaces NaN, the correlation of embeddings that do not vary, by None: JSON has no NaN."""
    if isinstance(value, dict):
        return {name: _known_numbers(each) for name, each in value.items()}
    return None if isinstance(value, float) and np.isnan(value) else value


def evaluate_sentences(
    model: Any = None,
    sts: str | Path | None = None,
    transfer: str | Path | None = None,
    *,
    tasks: Sequence[str] | None = None,
    setting: str = "all",
    fast: bool = False,
    pooling: str | None = None,
    max_length: int | None = None,
    precision: str = "fp32",
    limit: int | None = None,
    embeddings: str | Path | None = None,
    cache: str | Path | None = "default",
    name: str | None = None,
    progress: Progress = lambda what, done, total: None,
) -> SentenceEvaluation:
    """Scores a model on similarity and transfer sets in SentEval's layout.

    model: a folder, a hub id, or any object with ``encode``; or none, with ``embeddings`` made elsewhere.
    sts, transfer: SentEval's data folder; every file is checked before anything is encoded.
    tasks: only these of ``STS12`` … ``STS16``, ``STS-B``, ``SICK-R``, ``MR``, ``CR``, ``SUBJ``, ``MPQA``, ``SST2``,
        ``TREC``, ``MRPC``.
    setting: ``all``, ``mean`` or ``wmean``: which correlations the table and the average show; all are computed.
    fast: five folds and RMSprop, to choose among checkpoints; not for published numbers.
    precision: of the model's arithmetic: ``fp32``, ``bf16`` or ``fp16``.
    limit: pairs of each similarity set, and texts of each split of a transfer set, evenly spaced; ``None``: all. For
        comparisons in little time; not for published numbers.
    cache: directory for cached embeddings and scores; ``None`` keeps nothing on disk.
    """
    known_name(setting, SETTINGS, "setting")
    known_name(precision, PRECISIONS, "precision")
    if limit is not None and limit < 2:
        raise ValueError(f"limit must be a number of pairs of at least 2, not {limit!r}")
    if (model is None) == (embeddings is None):
        raise ValueError("Give a model to evaluate, or embeddings of its sentences, and not both.")
    if embeddings is not None and (pooling is not None or max_length is not None):
        raise ValueError("pooling and max_length are of a model; embeddings made elsewhere have theirs already.")
    similar, labelled = load_tasks(sts, transfer, tasks)
    if limit is not None:
        similar = {task: _spaced(parts, limit) for task, parts in similar.items()}
        labelled = {task: each.spaced(limit) for task, each in labelled.items()}
    texts = sentences_of(similar, labelled)
    place = default_cache() if cache == "default" else None if cache is None else Path(cache)
    if embeddings is not None:
        store, about = supplied(embeddings)
        _all_there(store, texts, Path(embeddings))
    else:
        opened = open_model(model, pooling, max_length, name, precision)
        with _embedding(model):
            store, about = embed(opened, texts, place, lambda done, total: progress("sentences", done, total))
    distinct = list(dict.fromkeys(texts))
    return SentenceEvaluation(
        about,
        setting,
        sentences=len(distinct),
        truncated=None if about.max_length is None else store.truncated(distinct),
        protocol=FAST if fast else SENTEVAL,
        sts={task: score_task(store, parts) for task, parts in similar.items()},
        transfer={
            task: _transfer(store, each, FAST if fast else SENTEVAL, place, progress) for task, each in labelled.items()
        },
        precision=precision,
        limit=limit,
    )


@contextmanager
def _embedding(model: Any) -> Iterator[None]:
    """Refuses, in a sentence, a folder whose settings were accepted but whose model fails to embed."""
    try:
        yield
    except (RuntimeError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        if not isinstance(model, (str, Path)):  # the user must see an error of their own object
            raise
        raise ValueError(f"The model {model} could not embed the sentences: {first_line(error)}") from error


def load_tasks(
    sts: str | Path | None, transfer: str | Path | None, tasks: Sequence[str] | None = None
) -> tuple[dict[str, list[ScoredPairs]], dict[str, TransferSet]]:
    """The checked data of the chosen tasks; without a choice, of all tasks in the given folders."""
    if sts is None and transfer is None:
        raise ValueError("Give the folder of the STS sets, that of the transfer sets, or both.")
    if tasks is not None and not tasks:
        raise ValueError("The list of tasks is empty; name some, or leave it out for all.")
    for task in tasks or ():
        known_name(task, (*sts_sets.TASKS, *transfer_sets.TASKS), "task")
        if (sts if task in sts_sets.TASKS else transfer) is None:
            raise ValueError(f"{task} needs the folder of the {'STS' if task in sts_sets.TASKS else 'transfer'} sets.")
    similar = [task for task in sts_sets.TASKS if sts is not None and (not tasks or task in tasks)]
    labelled = [task for task in transfer_sets.TASKS if transfer is not None and (not tasks or task in tasks)]
    return (
        sts_sets.load_sts(sts, similar) if sts is not None else {},
        transfer_sets.load_transfer(transfer, labelled) if transfer is not None else {},
    )


def _spaced(parts: Sequence[ScoredPairs], limit: int) -> list[ScoredPairs]:
    """About ``limit`` pairs of a task, from every part in proportion to its size."""
    total = sum(map(len, parts))
    return [part.spaced(max(2, round(limit * len(part) / total))) for part in parts]


def sentences_of(similar: dict[str, list[ScoredPairs]], labelled: dict[str, TransferSet]) -> list[str]:
    """All sentences of all tasks, as often as they occur."""
    sentences = [
        text for parts in similar.values() for part in parts for side in (part.first, part.second) for text in side
    ]
    for each in labelled.values():
        sentences += [text for split in each.splits() for side in (split.texts, split.second or []) for text in side]
    return sentences


def list_sentences(
    path: str | Path, sts: str | Path | None, transfer: str | Path | None, tasks: Sequence[str] | None = None
) -> int:
    """Writes the distinct sentences of the tasks as JSON lines, for ``embeddings`` made elsewhere; returns the count.

    The name must end in ``.jsonl``, like the file beside embeddings, so that no other file is ever overwritten.
    """
    if Path(path).suffix != ".jsonl":
        raise ValueError(f"The sentences are written as JSON lines: give a name that ends in .jsonl, not {path}.")
    return write_sentences(path, sentences_of(*load_tasks(sts, transfer, tasks)))


def score_task(store: Embeddings, parts: Sequence[ScoredPairs]) -> STSScore:
    """One STS task from its sentences' embeddings."""
    scored = [(cosine(store.rows(part.first), store.rows(part.second)), part.scores) for part in parts]
    whole = _hundred(summarise(scored))
    each = [_hundred(summarise([part])) for part in scored]
    texts = {text for part in parts for side in (part.first, part.second) for text in side}
    return STSScore(
        pairs=sum(len(part) for part in parts),
        spearman=whole["spearman"],
        pearson=whole["pearson"],
        parts={
            part.name: {name: values["all"] for name, values in own.items()} | {"pairs": len(part)}
            for part, own in zip(parts, each, strict=True)
        },
        truncated=store.truncated(list(texts)),
    )


def _hundred(correlations: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {name: {setting: 100 * value for setting, value in own.items()} for name, own in correlations.items()}


def _transfer(
    store: Embeddings, task: TransferSet, protocol: Protocol, cache: Path | None, progress: Progress
) -> TransferScore:
    """A task's score, from the cache if the same features were classified by the same protocol before."""
    splits = [_features(store, split) for split in task.splits()]
    path = None if cache is None else cache / "transfer" / f"{_mark(task, splits, protocol)}.json"
    if path is not None and path.is_file():
        try:
            return as_record(TransferScore, read_json(path), str(path))
        except (OSError, ValueError):
            pass  # damaged: computed again
    data = [Labelled.of(features, split.labels) for features, split in zip(splits, task.splits(), strict=True)]

    def progress_of_task(share: float) -> None:
        progress(f"classifiers of {task.name}", share, 1.0)

    if task.test is None:
        score = cross_validate(data[0], task.classes, protocol, progress_of_task)
    elif task.dev is None:
        score = train_and_test(data[0], data[1], task.classes, protocol, progress_of_task)
    else:
        score = train_dev_test(data[0], data[1], data[2], task.classes, protocol, progress_of_task)
    if path is not None:
        atomic_write(path, json.dumps(asdict(score)) + "\n")
    return score


def _features(store: Embeddings, split: LabelledTexts) -> np.ndarray:
    first = store.rows(split.texts)
    return first if split.second is None else pair_features(first, store.rows(split.second))


def _mark(task: TransferSet, splits: list[np.ndarray], protocol: Protocol) -> str:
    digest = hashlib.blake2b(f"{FORMAT} {task.name} {task.classes} {protocol}".encode(), digest_size=16)
    for features, split in zip(splits, task.splits(), strict=True):
        digest.update(str(features.shape).encode())
        digest.update(features.tobytes())
        digest.update(split.labels.tobytes())
    return digest.hexdigest()


def _all_there(store: Embeddings, texts: list[str], path: Path) -> None:
    missing = [text for text in dict.fromkeys(texts) if text not in store]
    if missing:
        raise ValueError(
            f"{path} has no embedding for {len(missing)} of the sentences, such as {missing[0]!r}; "
            "list_sentences (or --sentences FILE) writes all that are needed."
        )
