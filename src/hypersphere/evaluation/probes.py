"""Probes of the image encoder of a finished run, with some or all of the labels."""

from __future__ import annotations

import hashlib
import inspect
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.data.extras import need
from hypersphere.data.images import ImageSet, label_fraction, load_images
from hypersphere.documents import as_record, read_json, read_yaml
from hypersphere.encoders.augment import create_augmentation
from hypersphere.encoders.image import load_image_encoder
from hypersphere.evaluation.accuracy import Accuracy
from hypersphere.evaluation.features import embed
from hypersphere.evaluation.finetune import finetune
from hypersphere.evaluation.frozen import linear_probe, mlp_probe
from hypersphere.evaluation.knn import knn_probe
from hypersphere.names import did_you_mean
from hypersphere.objectives.anchors import AnchorRegression
from hypersphere.objectives.files import names_in
from hypersphere.objectives.registry import as_objective
from hypersphere.report import atomic_write

__all__ = [
    "PROBES",
    "ProbeResult",
    "ProbedRun",
    "Score",
    "evaluate_run",
    "finetune",
    "knn_probe",
    "linear_probe",
    "mlp_probe",
]

_FUNCTIONS: dict[str, Callable[..., Accuracy]] = {
    "linear": linear_probe,
    "mlp": mlp_probe,
    "finetune": finetune,
    "knn": knn_probe,
}
PROBES = tuple(_FUNCTIONS)
FORMAT = 3  # of probes.json and the computation of its scores: a new format invalidates all earlier scores
REPEATABLE = ("linear", "knn")  # only the choice of labels is random in them
_OURS = ("seed", "classes", "views", "plain", "device", "progress")  # arguments that evaluate_run itself passes


@dataclass(frozen=True)
class Score:
    """The result of one probe: share of the labels, number of images, draw, and accuracy."""

    labels: float
    images: int
    seed: int
    top1: float
    top5: float | None


@dataclass(frozen=True)
class ProbeResult:
    """All scores of a run under one probe; prints as a table of means and standard deviations over the seeds."""

    run: str
    probe: str
    encoder: str
    data: str
    tested: int
    taught: bool  # the run's objective read labels, and the probe has the same
    options: dict[str, Any]
    scores: tuple[Score, ...]
    variance: float  # of the encoder's output on the test images, summed over its dimensions

    def summary(self) -> list[dict[str, Any]]:
        """For every share of labels: mean and spread (sample standard deviation) of top-1 and top-5 over the seeds."""
        rows = []
        for share in sorted({score.labels for score in self.scores}):
            here = [score for score in self.scores if score.labels == share]
            row: dict[str, Any] = {"labels": share, "images": here[0].images, "seeds": len(here)}
            for name in ("top1", "top5"):
                values = [value for score in here if (value := getattr(score, name)) is not None]
                row[name] = statistics.fmean(values) if values else None
                row[f"{name}_spread"] = statistics.stdev(values) if len(values) > 1 else None
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Everything, for a file."""
        return {**asdict(self), "summary": self.summary()}

    def __str__(self) -> str:
        options = "".join(f", {key} {value}" for key, value in self.options.items() if value is not None)
        lines = [
            f"{self.probe} probe of {self.encoder} in eval mode, on {self.data}, {self.tested} test images{options}"
            + ("; labels as in training, which read them" if self.taught else ""),
            f"{'labels':>6}  {'images':>7}  {'top-1 %':>14}  {'top-5 %':>14}  {'seeds':>5}",
        ]
        for row in self.summary():
            cells = [_percent(row[name], row[f"{name}_spread"]) for name in ("top1", "top5")]
            share = f"{100 * row['labels']:.3g}%"
            lines.append(f"{share:>6}  {row['images']:>7}  {cells[0]:>14}  {cells[1]:>14}  {row['seeds']:>5}")
        lines.append(
            f"variance of the encoder's output on the test images, summed over dimensions: {self.variance:.4g}"
        )
        return "\n".join(lines)


def _percent(mean: float | None, spread: float | None) -> str:
    if mean is None:
        return "–"
    return f"{100 * mean:.2f}" + ("" if spread is None else f" ± {100 * spread:.2f}")


@dataclass(eq=False)
class ProbedRun:
    """A finished run, opened once for all its probes: its encoder, and the images of its recipe."""

    folder: Path
    recipe: dict[str, Any]
    encoder: nn.Module
    description: dict[str, Any]
    train: ImageSet
    test: ImageSet
    device: torch.device | str

    @classmethod
    def open(cls, folder: Path | str, device: torch.device | str | None = None) -> ProbedRun:
        folder = Path(folder)
        recipe = _recipe(folder)
        source, size = str(recipe["data"]["source"]), recipe["data"].get("size")
        encoder, description = load_image_encoder(folder / "model")
        train = load_images(source, "train", size, recipe["data"].get("rows") or None)
        if not train.labelled:
            raise ValueError(
                f"{train.name} has no labels, which every probe needs; hypersphere diagnose looks at {folder}"
            )
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        return cls(folder, recipe, encoder, description, train, load_images(source, "test", size), device)

    @cached_property
    def taught(self) -> bool:
        """Whether the objective read labels: then every probe has the same ones."""
        return _read_labels(self.folder, self.recipe)

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Distinguishes encoders and images."""
        data = self.recipe["data"]
        return {
            "data": str(data["source"]), "rows": data.get("rows"), "size": data.get("size"),
            "encoder": _fingerprint(self.folder), "images": _content(self.train, self.test),
        }  # fmt: skip

    @cached_property
    def plain(self) -> nn.Module:
        """Images as the encoder takes them, without augmentation."""
        size, normalise = self.description["size"], self.description["normalise"]
        return create_augmentation("none", size, normalise=normalise).to(self.device)

    @cached_property
    def train_z(self) -> Tensor:
        return embed(self.encoder, self.train.images, self.plain, device=self.device)

    @cached_property
    def test_z(self) -> Tensor:
        return embed(self.encoder, self.test.images, self.plain, device=self.device)

    @cached_property
    def variance(self) -> float:
        """The variance of the encoder's output on the test images, summed over its dimensions, which Li &
        Pimentel-Alarcón 2024 plot: 0 once every image has the same embedding."""
        return float(self.test_z.double().var(dim=0, unbiased=False).sum())


def evaluate_run(
    run: Path | str | ProbedRun,
    probe: str = "linear",
    labels: Sequence[float] = (0.1, 0.5, 1.0),
    seeds: int = 3,
    *,
    device: torch.device | str | None = None,
    progress: bool = False,
    **options: Any,
) -> ProbeResult:
    """Probes the encoder of a run on the images of its recipe.

    ``labels`` are the shares of every class whose labels are used, drawn anew for each of the ``seeds``. If the run's
    objective read labels itself (cloa, supcon), every seed uses those same labels; otherwise the encoder would be
    trained with one tenth of the labels and probed with another. A probe without random draws runs once.

    | probe | learns |
    |---|---|
    | linear | logistic regression on the frozen encoder's features |
    | mlp | a small network on them: CLOA's fine-tuning, with its widths and batches |
    | finetune | the encoder too, end to end |
    | knn | nothing: a vote of the nearest training images |

    ``options`` are those of ``linear_probe``, ``mlp_probe``, ``finetune``, ``knn_probe``. Every finished score is kept
    in the run's probes.json, and an interrupted evaluation continues from there.
    """
    _check(probe, labels, seeds)
    options = {**_defaults(probe, options), **options}
    if not isinstance(run, ProbedRun):
        run = ProbedRun.open(run, device)
    first, train = int(run.recipe.get("seed", 0)), run.train
    kept = _Kept(
        run.folder / "probes.json",
        {"format": FORMAT, "probe": probe, "options": options, "seed": first, **run.fingerprint},
    )
    measure = _probe(probe, run, progress, options)
    cells = [
        (share, seed)
        for share in sorted(set(labels))
        for seed in range(1 if probe in REPEATABLE and (run.taught or share == 1) else seeds)
    ]
    for share, seed in need("tqdm", "train", "a progress bar").tqdm(
        cells, f"{probe} probe", disable=None if progress else True
    ):
        if (share, seed) in kept.scores:
            continue
        draw = first if run.taught else first + seed  # in one draw, larger shares include the smaller ones
        chosen = (label_fraction(train.labels, share, draw) >= 0).nonzero().squeeze(1)
        accuracy = measure(chosen, seed)
        kept.add(Score(share, len(chosen), seed, accuracy.top1, accuracy.top5))
    return ProbeResult(
        run=str(run.folder),
        probe=probe,
        encoder=f"{run.description['name']} with {run.encoder.dimension} features",
        data=train.name,
        tested=len(run.test),
        taught=run.taught,
        options=options,
        scores=tuple(kept.scores[cell] for cell in cells),
        variance=run.variance,
    )


def _probe(probe: str, run: ProbedRun, progress: bool, options: dict[str, Any]) -> Callable[[Tensor, int], Accuracy]:
    """A function from the labelled rows and a seed to the accuracy."""
    train, test = run.train, run.test
    common = {"classes": len(train.classes), **options}
    if probe == "finetune":
        size, normalise = run.description["size"], run.description["normalise"]
        mild = create_augmentation("cloa", size, normalise=normalise).to(run.device)
        return lambda rows, seed: finetune(
            run.encoder,
            train.images[rows],
            train.labels[rows],
            test.images,
            test.labels,
            views=mild,
            plain=run.plain,
            seed=seed,
            device=run.device,
            progress=progress,
            **common,
        )

    def measure(rows: Tensor, seed: int) -> Accuracy:
        draw = {} if probe in REPEATABLE else {"seed": seed}
        return _FUNCTIONS[probe](run.train_z[rows], train.labels[rows], run.test_z, test.labels, **draw, **common)

    return measure


class _Kept:
    """Scores of one encoder under one probe and setting, in a file shared with other probes and settings."""

    def __init__(self, path: Path, key: dict[str, Any]) -> None:
        self.path, self.key = path, json.loads(json.dumps(key))
        self.scores: dict[tuple[float, int], Score] = {}
        for entry in self._entries():
            if entry["key"] == self.key:
                score = Score(**entry["score"])
                self.scores[score.labels, score.seed] = score

    def _entries(self) -> list[Any]:
        if not self.path.is_file():
            return []
        try:
            entries: list[Any] = read_json(self.path, list)
            for entry in entries:
                if not isinstance(entry, dict) or not entry.keys() >= {"key", "score"}:
                    raise ValueError("an entry has no key and score")
                as_record(Score, entry["score"], "an entry")
        except ValueError as error:
            raise ValueError(f"{self.path} is damaged ({error}): remove it to measure anew") from None
        return entries

    def add(self, score: Score) -> None:
        self.scores[score.labels, score.seed] = score
        entries = [*self._entries(), {"key": self.key, "score": asdict(score)}]
        atomic_write(self.path, json.dumps(entries, indent=1) + "\n")


def _check(probe: str, labels: Sequence[float], seeds: int) -> None:
    if probe not in PROBES:
        raise ValueError(f"there is no probe {probe!r}{did_you_mean(probe, PROBES)} (there are {', '.join(PROBES)})")
    if not labels or not all(0 < share <= 1 for share in labels):
        raise ValueError(f"labels must be shares above 0 and at most 1, not {list(labels)}")
    if seeds < 1:
        raise ValueError(f"seeds must be a whole number of at least 1, not {seeds!r}")


def _defaults(probe: str, options: dict[str, Any]) -> dict[str, Any]:
    """The settings of a probe, with its function's defaults; refuses unknown options."""
    known = inspect.signature(_FUNCTIONS[probe]).parameters.values()
    defaults = {each.name: each.default for each in known if each.kind is each.KEYWORD_ONLY and each.name not in _OURS}
    for name in options:
        if name not in defaults:
            raise ValueError(f"the {probe} probe has no option {name!r} (it has {', '.join(defaults)})")
    return defaults


def _recipe(run: Path) -> dict[str, Any]:
    """The parts of the run's recipe that are needed here."""
    path = run / "recipe.yaml"
    if not path.is_file():
        raise FileNotFoundError(f"{run} is no run: there is no recipe.yaml")
    recipe: dict[str, Any] = read_yaml(path, dict)
    data = recipe.get("data")
    if "task" not in recipe or not isinstance(data, dict) or not isinstance(data.get("source"), str):
        raise ValueError(f"{path} names no task and no data.source")
    if recipe["task"] != "image":
        hint = f"is a sentence encoder: hypersphere evaluate {run} --sts DIR"
        raise ValueError(f"{run} {hint if recipe['task'] == 'text' else 'has no image encoder, which probes need'}")
    return recipe


def _read_labels(run: Path, recipe: dict[str, Any]) -> bool:
    """Whether the objective of the run, or one inside it, learned from labels. For a user's own objective the answer is
    read from the run's folder, so that no file named there is executed."""
    given = recipe.get("objective")
    if not given or recipe["data"].get("labels", 1) == 0:
        return False
    try:
        noted = read_json(run / "environment.json", dict)["reads_labels"]
    except (OSError, ValueError, KeyError, TypeError):
        noted = True if names_in(given) else None
    if noted is not None:
        return bool(noted)
    parts = as_objective(given, "objective").modules()
    return any(isinstance(part, AnchorRegression) or getattr(part, "labelled", False) is True for part in parts)


def _fingerprint(run: Path) -> str:
    """A hash of the encoder's weights and architecture."""
    digest = hashlib.sha256()
    for name in ("encoder.safetensors", "encoder.json"):
        digest.update((run / "model" / name).read_bytes())
    return digest.hexdigest()[:16]


def _content(*sets: ImageSet) -> str:
    """A hash of all pixels and labels, which distinguishes versions of a source."""
    digest = hashlib.sha256()
    for each in sets:
        digest.update(f"{tuple(each.images.shape)} {each.classes}".encode())
        for part in (each.labels, each.images):
            digest.update(part.contiguous().numpy().data)
    return digest.hexdigest()[:16]
