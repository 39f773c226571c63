"""Images, SimCLR style, and CLOA's synthetic world, on transformers' Trainer: data in memory, views on the device."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

from hypersphere.data.images import ImageSet, label_fraction, load_images
from hypersphere.data.synthetic import negated, three_lines
from hypersphere.encoders.augment import create_augmentation, measure_normalisation
from hypersphere.encoders.image import create_image_encoder, save_image_encoder
from hypersphere.evaluation.features import embed
from hypersphere.evaluation.knn import few_labels_probe, knn_probe
from hypersphere.evaluation.lines import line_accuracy, line_geometry
from hypersphere.limits import need_memory
from hypersphere.messages import quoted
from hypersphere.training.content import content_of_images
from hypersphere.training.effects import reads_labels
from hypersphere.training.recipe import Recipe
from hypersphere.training.task import Task, arguments, create_head, held_out_rows, measured_rows, sample_rows
from hypersphere.training.trainer import ObjectiveTraining, ViewLoss

_OPTIONS = {"resnet18": ("stem", "weights"), "resnet50": ("stem", "weights"), "small-cnn": ("width", "norm"),
            "mlp": ("hidden", "norm")}  # fmt: skip


class ImageTrainer(ObjectiveTraining, Trainer):
    """transformers' Trainer on instances held in memory; both views go through the encoder in one pass."""

    def __init__(self, *, recipe: Recipe, views: Callable[[Tensor], tuple[Tensor, Tensor]], loss: Any, **rest: Any):
        super().__init__(**rest)
        self.recipe, self.views = recipe, views
        self.loss = loss.to(self.args.device)

    def embed(self, model: nn.Module, inputs: dict[str, Any]) -> Tensor:
        both = torch.cat(self.views(inputs["images"]))
        embedded: Tensor = model(both)
        return embedded.view(2, -1, embedded.shape[1])


class Instances(torch.utils.data.Dataset[int]):
    """Rows of tensors; a batch is gathered at once instead of row by row."""

    def __init__(self, images: Tensor, labels: Tensor, rows: list[int] | None = None) -> None:
        self.images, self.labels = images, labels
        self.rows = torch.arange(len(images)) if rows is None else torch.tensor(rows)  # as the whole set counts them

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> int:
        return row

    def collate(self, rows: list[int]) -> dict[str, Tensor]:
        chosen = torch.tensor(rows)
        return {"images": self.images[chosen], "labels": self.labels[chosen], "rows": self.rows[chosen]}


def prepare_images(recipe: Recipe, folder: Path, say: Callable[[str], None]) -> Task:
    """Everything a run on images needs."""
    train = load_images(recipe.data.source, "train", recipe.data.size)
    _check_labels(recipe, train)
    scored = recipe.evaluation.knn and len(train.classes) > 1
    shape = tuple(train.images.shape[2:])
    if recipe.data.size and shape != (recipe.data.size, recipe.data.size):
        raise ValueError(
            f"data.size is for images of many sizes; those of {train.name} are {shape[0]}×{shape[1]} as they come "
            "(augmentation.size makes views of another size)"
        )
    if recipe.data.rows:
        train = train.select(torch.arange(min(recipe.data.rows, len(train))))
    kept, aside = held_out_rows(len(train), recipe)
    channels, size = train.images.shape[1], recipe.augmentation.size or shape
    if not isinstance(size, int) and size[0] != size[1]:
        raise ValueError(f"images are {size[0]}×{size[1]}: set augmentation.size to make views of them")
    side = size if isinstance(size, int) else size[0]
    views = 2 * recipe.batch.size * channels * side**2
    need_memory(4 * views, f"a batch of {quoted(recipe.batch.size)} with views of {quoted(side)} pixels")
    normalise = measure_normalisation(train.images)
    strength: dict[str, Any] = (
        {"strength": recipe.augmentation.strength} if recipe.augmentation.name == "simclr" else {}
    )
    augment = create_augmentation(recipe.augmentation.name, side, normalise=normalise, **strength)
    plain = create_augmentation("none", side, normalise=normalise)
    options = {key: getattr(recipe.encoder, key) for key in _OPTIONS.get(recipe.encoder.name, ())}
    encoder = create_image_encoder(recipe.encoder.name, channels, side, **options)
    labels = label_fraction(train.labels, recipe.data.labels, recipe.seed)
    say(_data_in_words(recipe, train, labels))
    say(f"Encoder: {_encoder_in_words(recipe, encoder)}; head: {recipe.head.kind}, training only.")
    training = Instances(train.images[kept], labels[kept], kept)
    encoder = _share_batch_norm(encoder, say)
    loss, recipe = _loss(recipe, int(encoder.dimension), len(train.classes))  # type: ignore[arg-type]
    trainer = _trainer(recipe, folder, encoder, training, lambda images: (augment(images), augment(images)), loss, say)
    score = final = None
    if scored:
        known, test = train.select(torch.tensor(kept)), load_images(recipe.data.source, "test", recipe.data.size)
        score = _knn(recipe, encoder, plain, known, train.select(torch.tensor(aside))) if aside else None
        final = _knn(recipe, encoder, plain, known, test)
    description = {"name": recipe.encoder.name, "channels": channels, "size": side, "options": options,
                   "normalise": normalise}  # fmt: skip
    return Task(
        trainer=trainer,
        views=2,
        width=int(encoder.dimension),  # type: ignore[arg-type]
        sample=Instances(train.images, labels).collate(sample_rows(kept, recipe)),
        held_out=_batches(Instances(train.images, labels), aside, trainer, say),
        score=score,
        final=final,
        key="knn",
        save=lambda target: _keep(target, encoder, description),
        content=content_of_images(train.images, train.labels),
    )


def prepare_lines(recipe: Recipe, folder: Path, say: Callable[[str], None]) -> Task:
    """CLOA's three noisy lines in R³; the positive of a point is its negative."""
    points = recipe.data.rows // 3 or 100
    x, _, labels = three_lines(points, recipe.data.noise, recipe.seed)
    options = {key: getattr(recipe.encoder, key) for key in _OPTIONS["mlp"]}
    encoder = create_image_encoder("mlp", 3, 1, **options)
    noise = recipe.data.noise
    say(f"Data: three lines, {len(x)} points, noise {noise:g}; the positive of x is −x with fresh noise.")
    known = label_fraction(labels, recipe.data.labels, recipe.seed)
    kept, aside = held_out_rows(len(x), recipe)
    training = Instances(x[kept], known[kept], kept)
    loss, recipe = _loss(recipe, int(encoder.dimension), 3)  # type: ignore[arg-type]
    trainer = _trainer(recipe, folder, encoder, training, lambda points: (points, negated(points, noise)), loss, say)
    description = {"name": "mlp", "channels": 3, "size": 1, "options": options, "normalise": None}
    test, _, classes = three_lines(points, noise, recipe.seed, draw=1)

    def score() -> dict[str, float]:
        z = embed(encoder, x)
        return {"knn": 100 * line_accuracy(z[kept], labels[kept], z[aside], labels[aside])}

    def final() -> dict[str, float]:
        z = embed(encoder, test)
        return {"knn": 100 * line_accuracy(embed(encoder, x), labels, z, classes), **line_geometry(z, classes)}

    return Task(
        trainer=trainer,
        views=2,
        width=int(encoder.dimension),  # type: ignore[arg-type]
        sample=Instances(x, known).collate(sample_rows(kept, recipe)),
        held_out=_batches(Instances(x, known), aside, trainer, say),
        score=score if aside and recipe.evaluation.knn else None,
        final=final,
        key="knn",
        save=lambda target: _keep(target, encoder, description),
    )


def _check_labels(recipe: Recipe, data: ImageSet) -> None:
    objective = recipe.create_objective()
    if reads_labels(objective) and not data.labelled:
        raise ValueError(
            f"{objective.name} reads labels, and the pictures of {data.name} have none (a folder for each class gives "
            "them)"
        )


def _data_in_words(recipe: Recipe, data: ImageSet, labels: Tensor) -> str:
    """What is trained on, and why there is no accuracy if there is none."""
    words = f"Data: {data}"
    if data.labelled:
        words += f"; {int((labels >= 0).sum())} of its labels in use where the objective reads labels"
    if recipe.evaluation.knn and len(data.classes) < 2:
        why = "one class" if data.labelled else "no labels"
        words += f"; with {why}, kNN accuracy is left out, and the last weights are kept"
    return f"{words}."


def _batches(data: Instances, rows: list[int], trainer: ImageTrainer, say: Callable[[str], None]) -> list[Any]:
    return [data.collate(part) for part in measured_rows(rows, trainer.recipe, trainer.args.max_steps, say)]


def _encoder_in_words(recipe: Recipe, encoder: nn.Module) -> str:
    words = f"{recipe.encoder.name}, {encoder.dimension} features"
    if recipe.encoder.weights is None:
        return words
    words += f", weights of {recipe.encoder.weights}"
    if recipe.encoder.stem == "cifar":
        words += ", but its first convolution gives way to CIFAR's stem, a random one (encoder.stem=imagenet keeps it)"
    return words


def _share_batch_norm(encoder: nn.Module, say: Callable[[str], None]) -> nn.Module:
    """Batch norm over all processes where there is such a thing; elsewhere a sentence on the difference it makes."""
    normed = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in encoder.modules())
    if not normed or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return encoder
    if torch.cuda.is_available():
        shared: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(encoder)
        return shared
    say("Batch norm sees each process's share of the batch: the run differs from one on a single process.")
    return encoder


def _loss(recipe: Recipe, width: int, num_classes: int) -> tuple[ViewLoss, Recipe]:
    """Head and objective on embeddings of a width, and the recipe with the sizes that its objective takes from them."""
    head = create_head(recipe, width)
    recipe = recipe.fitted(num_classes, head.dimension)
    return ViewLoss(recipe.create_objective(gather=True), head), recipe


def _trainer(
    recipe: Recipe,
    folder: Path,
    encoder: nn.Module,
    data: Instances,
    views: Any,
    loss: ViewLoss,
    say: Callable[[str], None],
) -> ImageTrainer:
    return ImageTrainer(
        recipe=recipe,
        views=views,
        loss=loss,
        model=encoder,
        args=arguments(recipe, folder, len(data), TrainingArguments, say),
        train_dataset=data,
        data_collator=data.collate,
    )


def _knn(
    recipe: Recipe, encoder: nn.Module, plain: nn.Module, train: ImageSet, test: ImageSet
) -> Callable[[], dict[str, float]]:
    """Weighted nearest-neighbour accuracy × 100 among the training images: of images held out while training (they
    decide which weights are best), of the test images once, at the end."""

    @torch.no_grad()
    def features(images: Tensor) -> Tensor:
        device = next(encoder.parameters()).device
        return torch.cat([encoder(plain(part.to(device))) for part in images.split(512)])

    def score() -> dict[str, float]:
        mode = encoder.training
        encoder.eval()
        try:
            labelled = (features(train.images), train.labels, features(test.images), test.labels)
        finally:
            encoder.train(mode)
        few = recipe.evaluation.shots
        found = few_labels_probe(*labelled, per_class=few, seed=recipe.seed) if few else knn_probe(*labelled).top1
        return {"knn": 100 * found}

    return score


def _keep(target: Path, encoder: nn.Module, description: dict[str, Any]) -> None:
    save_image_encoder(target, encoder, description)
