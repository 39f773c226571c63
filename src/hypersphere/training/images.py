"""Images, SimCLR style, on transformers' Trainer: data in memory, views on the device."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

from hypersphere.data.images import ImageSet, label_fraction, load_images
from hypersphere.encoders.augment import create_augmentation, measure_normalisation
from hypersphere.encoders.image import create_image_encoder, save_image_encoder
from hypersphere.evaluation.features import evaluating
from hypersphere.evaluation.knn import few_labels_probe, knn_probe
from hypersphere.limits import need_memory
from hypersphere.messages import quoted
from hypersphere.torch_internals import is_batch_norm
from hypersphere.training.folder import fingerprint_images
from hypersphere.training.recipe import ImageRecipe, Recipe
from hypersphere.training.sections import MLP, ResNet, SimCLRViews, SmallCNN
from hypersphere.training.seeding import processes
from hypersphere.training.task import (
    Echo,
    Scores,
    Task,
    arguments,
    create_head,
    held_out_rows,
    measured_rows,
    sample_rows,
)
from hypersphere.training.trainer import Inputs, ObjectiveTraining, ViewLoss

ViewsOf = Callable[[Tensor], tuple[Tensor, ...]]


class ImageTrainer(ObjectiveTraining, Trainer):
    """transformers' Trainer on instances held in memory; all views of one size go through the encoder in one pass."""

    def __init__(self, *, recipe: Recipe, views: ViewsOf, loss: ViewLoss, **rest: Any):
        super().__init__(**rest)
        self.recipe, self.views = recipe, views
        self.loss = loss.to(self.args.device)

    def embed(self, model: nn.Module, inputs: Inputs) -> Tensor:
        views = self.views(inputs["images"])
        by_size = [list(each) for _, each in groupby(views, key=lambda view: view.shape[2:])]
        embedded = torch.cat([model(torch.cat(each)) for each in by_size])
        return embedded.view(len(views), -1, embedded.shape[1])


class Instances(torch.utils.data.Dataset[int]):
    """Rows of tensors; a batch is gathered at once instead of row by row."""

    def __init__(self, images: Tensor, labels: Tensor, rows: list[int] | None = None) -> None:
        self.images, self.labels = images, labels
        self.rows = torch.arange(len(images)) if rows is None else torch.tensor(rows)  # indices into the whole set

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> int:
        return row

    def collate(self, rows: list[int]) -> Inputs:
        chosen = torch.tensor(rows)
        return {"images": self.images[chosen], "labels": self.labels[chosen], "rows": self.rows[chosen]}

    def in_batches(self, batches: list[list[int]]) -> list[Inputs]:
        return [self.collate(rows) for rows in batches]


class ImageTask(Task):
    """Images: SimCLR's protocol, nearest neighbours as the score."""

    key = "knn"

    def __init__(self, recipe: ImageRecipe, folder: Path, echo: Echo) -> None:
        train = load_images(recipe.data.source, "train", recipe.data.size, recipe.data.rows or None)
        _check_labels(recipe, train)
        shape = tuple(train.images.shape[2:])
        if recipe.data.size and shape != (recipe.data.size, recipe.data.size):
            raise ValueError(
                f"data.size is for images of many sizes; those of {train.name} are {shape[0]}×{shape[1]} as they come "
                "(augmentation.size makes views of another size)"
            )
        kept, aside = held_out_rows(len(train), recipe)
        channels, side = train.images.shape[1], _side(recipe, train.images)
        normalise = measure_normalisation(train.images)
        self.views = recipe.num_views
        self._plain = create_augmentation("none", side, normalise=normalise)
        options = recipe.encoder.model_dump(exclude={"name"})
        encoder = create_image_encoder(recipe.encoder.name, channels, side, **options)
        labels = label_fraction(train.labels, recipe.data.labels, recipe.seed)
        echo(_data_in_words(recipe, train, labels))
        echo(f"Encoder: {_encoder_in_words(recipe.encoder, encoder)}; head: {recipe.head.kind}, training only.")
        self.encoder = _share_batch_norm(encoder, echo)
        self.width = dimension_of(self.encoder)
        self.description = describe_encoder(recipe.encoder, channels, side, normalise)
        self.trainer = create_trainer(
            recipe, folder, self.encoder, Instances(train.images[kept], labels[kept], kept), len(train.classes),
            _views_of(recipe, self.encoder, side, normalise), echo,
        )  # fmt: skip
        everything = Instances(train.images, labels)
        self.sample = everything.collate(sample_rows(kept, recipe))
        self.held_out = everything.in_batches(measured_rows(aside, recipe, self.trainer.args.max_steps, echo))
        self.fingerprint = fingerprint_images(train.images, train.labels)
        self._shots, self._seed = recipe.evaluation.shots, recipe.seed
        self._labelled = recipe.evaluation.knn and len(train.classes) > 1
        self.scored = self._labelled and bool(aside)
        if self._labelled:
            self._known, self._aside = train.select(torch.tensor(kept)), train.select(torch.tensor(aside).long())
            self._test = load_images(recipe.data.source, "test", recipe.data.size)

    def score(self) -> Scores:
        return self._knn(self._aside)

    def final(self, scores: Scores | None = None) -> Scores:
        return self._knn(self._test) if self._labelled else {}

    def save(self, target: Path) -> None:
        save_image_encoder(target, self.encoder, self.description)

    def _knn(self, asked: ImageSet) -> Scores:
        """Weighted nearest-neighbour accuracy × 100 among the training images. During training, held-out images are
        classified (they decide which weights are best); at the end, the test images, once."""
        known = self._known
        with evaluating(self.encoder):
            labelled = (self._features(known.images), known.labels, self._features(asked.images), asked.labels)
        if self._shots:
            return {"knn": 100 * few_labels_probe(*labelled, per_class=self._shots, seed=self._seed)}
        return {"knn": 100 * knn_probe(*labelled).top1}

    @torch.no_grad()
    def _features(self, images: Tensor) -> Tensor:
        device = next(self.encoder.parameters()).device
        return torch.cat([self.encoder(self._plain(part.to(device))) for part in images.split(512)])


def _check_labels(recipe: ImageRecipe, data: ImageSet) -> None:
    if recipe.reads_labels and not data.labelled:
        name = recipe.create_objective().name
        raise ValueError(
            f"{name} reads labels, and the pictures of {data.name} have none (a folder for each class gives them)"
        )


def _data_in_words(recipe: ImageRecipe, data: ImageSet, labels: Tensor) -> str:
    """Describes the training data; explains why there is no accuracy, if there is none."""
    words = f"Data: {data}"
    if data.labelled and recipe.reads_labels:
        words += f"; the objective reads {int((labels >= 0).sum())} of its labels"
    if recipe.evaluation.knn and len(data.classes) < 2:
        why = "one class" if data.labelled else "no labels"
        words += f"; with {why}, kNN accuracy is left out, and the last weights are kept"
    return f"{words}."


def _encoder_in_words(chosen: ResNet | SmallCNN | MLP, encoder: nn.Module) -> str:
    words = f"{chosen.name}, {encoder.dimension} features"
    if not isinstance(chosen, ResNet) or chosen.weights is None:
        return words
    words += f", weights of {chosen.weights}"
    if chosen.stem == "cifar":
        words += ", but its first convolution gives way to CIFAR's stem, a random one (encoder.stem=imagenet keeps it)"
    return words


def _share_batch_norm(encoder: nn.Module, echo: Echo) -> nn.Module:
    """Synchronises batch norm over all processes where the device supports it; elsewhere prints what differs."""
    normed = any(is_batch_norm(module) for module in encoder.modules())
    if not normed or processes() == 1:
        return encoder
    if torch.cuda.is_available():
        shared: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(encoder)
        return shared
    echo("Batch norm sees each process's share of the batch: the run differs from one on a single process.")
    return encoder


def _side(recipe: ImageRecipe, images: Tensor) -> int:
    """The side of the views in pixels; refuses images that are not square, and views that do not fit into memory."""
    channels, height, width = images.shape[1:]
    side: int = recipe.augmentation.size or height
    if not recipe.augmentation.size and height != width:
        raise ValueError(f"images are {height}×{width}: set augmentation.size to make views of them")
    views = recipe.num_views * recipe.batch.size * channels * side**2
    need_memory(4 * views, f"a batch of {quoted(recipe.batch.size)} with views of {quoted(side)} pixels")
    return side


def _views_of(recipe: ImageRecipe, encoder: nn.Module, side: int, normalise: dict[str, list[float]]) -> ViewsOf:
    """Draws the views of a batch of images: those of the whole image first, then small crops."""
    chosen = recipe.augmentation
    if not isinstance(chosen, SimCLRViews):
        augment = create_augmentation(chosen.name, side, normalise=normalise)
        return lambda images: tuple(augment(images) for _ in range(chosen.views))
    settings: dict[str, Any] = {"normalise": normalise, "strength": chosen.strength}
    kinds = [create_augmentation(chosen.name, side, **settings)] * chosen.views
    if chosen.local_views:
        small = chosen.local_size or side
        if small != side:
            _check_sizes(recipe.encoder.name, encoder)
        local = create_augmentation(chosen.name, small, scale=chosen.local_scale, **settings)
        kinds += [local] * chosen.local_views
    return lambda images: tuple(kind(images) for kind in kinds)


def _check_sizes(name: str, encoder: nn.Module) -> None:
    """Refuses views of two sizes where the encoder has one size, or where its buffers change between two passes."""
    if name == "mlp":
        raise ValueError("augmentation.local_size is for encoders of any size, and mlp takes one: leave it out")
    if processes() > 1 and any(True for _ in encoder.buffers()):
        raise ValueError(
            "augmentation.local_size makes two passes through the encoder, which batch norm does not allow on several "
            "processes: leave it out"
        )


def dimension_of(encoder: nn.Module) -> int:
    """The width of an image encoder's output."""
    return int(encoder.dimension)  # type: ignore[arg-type]


def describe_encoder(
    chosen: ResNet | SmallCNN | MLP, channels: int, side: int, normalise: dict[str, list[float]] | None
) -> dict[str, Any]:
    """The settings needed to open a saved encoder again."""
    options = chosen.model_dump(exclude={"name"})
    return {"name": chosen.name, "channels": channels, "size": side, "options": options, "normalise": normalise}


def create_trainer(
    recipe: Recipe, folder: Path, encoder: nn.Module, data: Instances, num_classes: int, views: ViewsOf, echo: Echo
) -> ImageTrainer:
    """Creates head, objective and Trainer. Its recipe has the sizes that the objective takes from data and head."""
    head = create_head(recipe, dimension_of(encoder))
    recipe = recipe.fitted(num_classes, head.dimension)
    return ImageTrainer(
        recipe=recipe,
        views=views,
        loss=ViewLoss(recipe.create_objective(gather=True), head),
        model=encoder,
        args=arguments(recipe, folder, len(data), TrainingArguments, echo),
        train_dataset=data,
        data_collator=data.collate,
    )
