"""Geometry and retrieval of held-out texts, as an evaluator of sentence-transformers' trainer."""

from __future__ import annotations

import csv
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.base.evaluation import BaseEvaluator
from torch import Tensor

from hypersphere.diagnostics import Diagnosis, diagnose
from hypersphere.geometry import unit
from hypersphere.training.equal_texts import instance_ids

logger = logging.getLogger(__name__)
BLOCK = 1024  # anchors that are compared with all positives at a time


@dataclass(frozen=True)
class CheckUp:
    """A model's embeddings of held-out texts and what they show; the last two need positives."""

    views: tuple[Tensor, ...]
    diagnosis: Diagnosis
    reciprocal_ranks: Tensor | None  # (N,) of each anchor's positive among the positives of all

    @property
    def metrics(self) -> dict[str, float]:
        diagnosis, pairs = self.diagnosis, self.diagnosis.pairs
        metrics: dict[str, float] = {}
        if self.reciprocal_ranks is not None and pairs is not None:
            metrics = {
                "mean_reciprocal_rank": float(self.reciprocal_ranks.mean()),
                "recall_at_1": float((self.reciprocal_ranks == 1).double().mean()),
                "alignment": pairs.alignment,
                "gap": pairs.distance_gap,
                "hardest_gap": pairs.hardest_gap,
            }
        return {
            **metrics,
            "uniformity": diagnosis.uniformity,
            "effective_rank": sum(view.effective_rank for view in diagnosis.views) / len(diagnosis.views),
            "mean_cosine": max(view.anisotropy for view in diagnosis.views),
            "healthy": float(diagnosis.healthy),
            "collapsed": float(diagnosis.collapsed),
        }


class Evaluator(BaseEvaluator):
    """Alignment, uniformity, effective rank, gap and retrieval of held-out pairs, with the verdict of ``diagnose``.

    anchors, positives: texts, the positive of each anchor in the same place; without positives only what concerns one
        set of embeddings is measured.
    anchor_prompt, positive_prompt: stand before each text; None: the model's own for queries and documents.

    The primary metric is the mean reciprocal rank of an anchor's positive among all positives (without positives the
    effective rank). "healthy" is 1 if ``diagnose`` finds no problem; the log has each finding with its remedy, and
    geometry_evaluation_NAME_results.csv the verdict in words.
    """

    def __init__(
        self,
        anchors: Sequence[str],
        positives: Sequence[str] | None = None,
        *,
        name: str = "held_out",
        batch_size: int = 32,
        show_progress_bar: bool = False,
        write_csv: bool = True,
        truncate_dim: int | None = None,
        anchor_prompt: str | None = None,
        positive_prompt: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        for which, given in (("anchors", anchors), ("positives", positives)):
            if isinstance(given, str) or not all(isinstance(each, str) for each in given or ()):
                raise ValueError(f"{which} must be a list of texts; not every entry of what was given is one")
        self.anchors = list(anchors)
        self.positives = None if positives is None else list(positives)
        if self.positives is not None and len(self.anchors) != len(self.positives):
            raise ValueError(
                f"every anchor has one positive, but there are {len(self.anchors)} anchors and {len(self.positives)} "
                "positives"
            )
        if len(self.anchors) < 2:
            raise ValueError(f"an evaluation needs at least two texts, not {len(self.anchors)}")
        self.name, self.write_csv, self.truncate_dim = name, write_csv, truncate_dim
        self.anchor_prompt, self.positive_prompt = anchor_prompt, positive_prompt
        self.encoding = {"batch_size": batch_size, "show_progress_bar": show_progress_bar}
        self.csv_file = f"geometry_evaluation_{name}_results.csv"
        self.primary_metric = "effective_rank" if positives is None else "mean_reciprocal_rank"
        self.greater_is_better = True
        self._columns = [self.anchors] + ([] if self.positives is None else [self.positives])
        self._ids = text_ids(self._columns)
        self._known: set[str] = set()  # findings of the latest evaluation, which are not logged again

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        check_up = self.check_up(model)
        metrics, diagnosis = check_up.metrics, check_up.diagnosis
        when = "" if epoch == -1 else f" in epoch {epoch:g}" + ("" if steps == -1 else f" after {steps} steps")
        logger.info(f"Geometry of {self.name or 'held-out texts'}{when}: {diagnosis.verdict}")
        for finding in diagnosis.findings:
            if finding.name not in self._known:
                logger.warning(str(finding))
        self._known = {finding.name for finding in diagnosis.findings}
        if output_path is not None and self.write_csv:
            self._write(Path(output_path) / self.csv_file, {"epoch": epoch, "steps": steps, **metrics}, diagnosis)
        named: dict[str, float] = self.prefix_name_to_metrics(metrics, self.name)
        self.store_metrics_in_model_card_data(model, named, epoch, steps)  # type: ignore[arg-type]
        return named

    @torch.no_grad()
    def check_up(self, model: Any) -> CheckUp:
        """The model's embeddings of the texts, as it encodes queries and documents, and what they show."""
        encoders = (model.encode_query, model.encode_document)
        prompts = (self.anchor_prompt, self.positive_prompt)
        options = {**self.encoding, "truncate_dim": self.truncate_dim, "convert_to_tensor": True}
        views = tuple(
            encode(texts, prompt=prompt, **options).float().cpu()
            for encode, texts, prompt in zip(encoders, self._columns, prompts, strict=False)
        )
        ranks = reciprocal_ranks(*views, self._ids) if len(views) == 2 else None
        return CheckUp(views, diagnose(*views), ranks)

    def _write(self, path: Path, row: dict[str, float], diagnosis: Diagnosis) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not path.is_file()
        with open(path, "a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if fresh:
                writer.writerow([*row, "verdict"])
            writer.writerow([*row.values(), diagnosis.verdict])

    @property
    def description(self) -> str:
        return "Geometry"

    def get_config_dict(self) -> dict[str, Any]:
        return {} if self.truncate_dim is None else {"truncate_dim": self.truncate_dim}


def text_ids(columns: Sequence[Sequence[str]]) -> Tensor:
    """One number for each row of texts: equal for rows that share a text, directly or through others."""
    number: dict[str, int] = {}
    rows = [[number.setdefault(text, len(number)) for text in column] for column in columns]
    return instance_ids(torch.tensor(rows).T)["ids"]


def reciprocal_ranks(z1: Tensor, z2: Tensor, ids: Tensor) -> Tensor:
    """1 / the rank (N,) of row i of z2 among the rows of z2, by their cosine with row i of z1. Rows of equal ids do not
    compete, and a tie counts half a rank, so that embeddings that are all equal rank in the middle.

    >>> reciprocal_ranks(torch.eye(3), torch.eye(3)[[0, 2, 1]], torch.arange(3)).tolist()
    [1.0, 0.4, 0.4]
    """
    z1, z2 = unit(z1.double()), unit(z2.double())
    ranks = []
    for rows in torch.arange(len(z1)).split(BLOCK):
        cosines = z1[rows] @ z2.T
        own = cosines.gather(1, rows.unsqueeze(1))
        rivals = ids[rows].unsqueeze(1) != ids
        ahead = (cosines > own).double() + 0.5 * (cosines == own).double()
        ranks.append(1 + (ahead * rivals).sum(dim=1))
    return 1 / torch.cat(ranks)
