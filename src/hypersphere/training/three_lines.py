"""CLOA's synthetic world: three noisy lines in R³, where the positive of a point is its negative."""

from __future__ import annotations

from pathlib import Path

from hypersphere.data.images import label_fraction
from hypersphere.data.synthetic import negated, three_lines
from hypersphere.encoders.image import create_image_encoder, save_image_encoder
from hypersphere.evaluation.features import embed
from hypersphere.evaluation.lines import line_accuracy, line_geometry
from hypersphere.training.images import Instances, create_trainer, describe_encoder, dimension_of
from hypersphere.training.recipe import ThreeLinesRecipe
from hypersphere.training.task import Echo, Scores, Task, held_out_rows, measured_rows, sample_rows


class ThreeLinesTask(Task):
    """Points around three lines; the score measures whether neighbours lie on the same line."""

    key = "knn"
    views = 2

    def __init__(self, recipe: ThreeLinesRecipe, folder: Path, echo: Echo) -> None:
        points, noise = recipe.data.rows // 3 or 100, recipe.data.noise
        self._points, _, self._labels = three_lines(points, noise, recipe.seed)
        options = recipe.encoder.model_dump(exclude={"name"})
        self.encoder = create_image_encoder(recipe.encoder.name, 3, 1, **options)
        self.width = dimension_of(self.encoder)
        self.description = describe_encoder(recipe.encoder, 3, 1, None)
        echo(f"Data: three lines, {3 * points} points, noise {noise:g}; the positive of x is −x with fresh noise.")
        known = label_fraction(self._labels, recipe.data.labels, recipe.seed)
        self._kept, self._aside = held_out_rows(len(self._points), recipe)
        self.trainer = create_trainer(
            recipe, folder, self.encoder, Instances(self._points[self._kept], known[self._kept], self._kept), 3,
            lambda points: (points, negated(points, noise)), echo,
        )  # fmt: skip
        self._test, _, self._classes = three_lines(points, noise, recipe.seed, draw=1)
        everything = Instances(self._points, known)
        self.sample = everything.collate(sample_rows(self._kept, recipe))
        self.held_out = everything.in_batches(measured_rows(self._aside, recipe, self.trainer.args.max_steps, echo))
        self.scored = bool(self._aside)

    def score(self) -> Scores:
        z, labels = embed(self.encoder, self._points), self._labels
        accuracy = line_accuracy(z[self._kept], labels[self._kept], z[self._aside], labels[self._aside])
        return {"knn": 100 * accuracy}

    def final(self, scores: Scores | None = None) -> Scores:
        z = embed(self.encoder, self._test)
        accuracy = line_accuracy(embed(self.encoder, self._points), self._labels, z, self._classes)
        return {"knn": 100 * accuracy, **line_geometry(z, self._classes)}

    def save(self, target: Path) -> None:
        save_image_encoder(target, self.encoder, self.description)
