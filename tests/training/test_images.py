"""Training on images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import hypersphere as hs
from hypersphere.data.images import label_fraction, load_images
from hypersphere.encoders.image import load_image_encoder
from hypersphere.evaluation.probes import evaluate_run
from hypersphere.studies.compare.cells import cell_id
from hypersphere.training.images import ImageTrainer
from hypersphere.training.journal import read_journal
from hypersphere.training.load import parse_recipe
from hypersphere.training.run import NotPreparedError, create_task, train
from tests.training import worlds
from tests.training.worlds import quiet


def test_a_run_on_the_digits_learns_and_can_be_opened(tmp_path: Path, with_curves: None) -> None:
    tree = worlds.digits_recipe(
        tmp_path, data={"rows": 0}, batch={"size": 128}, optimizer={"lr": 5e-3}, steps=40, evaluation={"every": 20}
    )
    finished = train(parse_recipe(tree), echo=quiet)
    history = {step: scores["knn"] for step, scores in finished.results["history"].items()}
    assert set(history) == {0, 20, 40}
    assert max(history[20], history[40]) > history[0]
    assert finished.results["scores"]["knn"] > 85
    encoder, description = load_image_encoder(finished.folder / "model")
    assert not encoder.training and description["name"] == "small-cnn"
    assert yaml.safe_load((finished.folder / "recipe.yaml").read_text())["seed"] == 42
    assert (finished.folder / "environment.json").is_file()
    assert (finished.folder / "curves.png").is_file() and (finished.folder / "curves.pdf").is_file()
    lines = read_journal(finished.folder / "metrics.jsonl")
    assert {line["step"]: line["score"] for line in lines if line["split"] == "validation"} == pytest.approx(history)


def test_the_best_weights_are_chosen_without_the_test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hypersphere.training import images

    seen: list[torch.Tensor] = []
    real = images.knn_probe

    def spy(train_z: torch.Tensor, train_y: torch.Tensor, test_z: torch.Tensor, test_y: torch.Tensor) -> object:
        seen.append(test_y)
        return real(train_z, train_y, test_z, test_y)

    monkeypatch.setattr(images, "knn_probe", spy)
    task = create_task(parse_recipe(worlds.digits_recipe(tmp_path)), tmp_path / "run", quiet)
    assert task.scored
    task.score()
    task.final()
    assert len(seen[0]) == 40  # the held-out ones
    assert torch.equal(seen[1], load_images("digits", "test").labels)


def test_cloa_sees_only_the_share_of_labels_it_is_given(tmp_path: Path) -> None:
    tree = worlds.digits_recipe(
        tmp_path,
        data={"labels": 0.2},
        objective={"name": "cloa", "base": "ntxent"},
        head={"kind": "mlp", "hidden": [16, 16]},
    )
    said: list[str] = []
    task = create_task(parse_recipe(tree), tmp_path / "run", said.append)
    labels = task.trainer.train_dataset.labels  # type: ignore[union-attr]
    everything = load_images("digits", "train").labels[:200]
    assert 0.1 < (labels >= 0).float().mean() < 0.3
    known = label_fraction(everything, 0.2, 42)
    assert said[0].endswith(f"; the objective reads {int((known >= 0).sum())} of its labels.")
    assert int((known >= 0).sum()) >= int((labels >= 0).sum())
    z = task.trainer.loss.project(task.trainer.embed(task.trainer.encoder, task.sample))
    objective, given = task.trainer.loss.objective, task.sample["labels"]
    anchored = (objective(z[0], z[1], given) - objective.base(z[0], z[1])).item()
    rows = [i for i in range(len(given)) if given[i] >= 0]
    cosine = torch.nn.functional.cosine_similarity
    directions = objective.regression.directions
    pulls = [1 - cosine(view[i], directions[given[i]], dim=0) for view in z for i in rows]
    assert anchored == pytest.approx(torch.stack(pulls).mean().item(), rel=1e-4)


def test_what_does_not_fit_together_is_refused_before_the_run(tmp_path: Path) -> None:
    wrong = {"name": "cloa", "base": "ntxent", "num_classes": 10, "dim": 99}
    with pytest.raises(NotPreparedError, match="99"):
        train(parse_recipe(worlds.digits_recipe(tmp_path, objective=wrong)), echo=quiet)
    with pytest.raises(ValueError, match=r"encoder.name is 'resnet19': .*; did you mean 'resnet18'?"):
        parse_recipe({**worlds.digits_recipe(tmp_path), "encoder": {"name": "resnet19"}})
    assert not (tmp_path / "run").exists()


def test_cloas_sizes_are_written_down_and_a_resumed_run_has_them(tmp_path: Path) -> None:
    tree = worlds.digits_recipe(tmp_path, objective={"name": "cloa", "base": "ntxent"}, head={"hidden": [16, 12]})
    task = create_task(parse_recipe(tree), tmp_path / "run", quiet)
    assert tuple(task.trainer.loss.objective.anchors.shape) == (10, 12)
    finished = train(parse_recipe(tree), echo=quiet)
    written = yaml.safe_load((finished.folder / "recipe.yaml").read_text())["objective"]
    assert written == {"name": "cloa", "base": "ntxent", "num_classes": 10, "dim": 12}
    assert "num_classes: 10" in (finished.folder / "model" / "README.md").read_text()
    assert evaluate_run(finished.folder, "knn", labels=[1.0]).taught
    (finished.folder / "results.json").unlink()
    assert train(parse_recipe(tree), resume=True, echo=quiet).results["steps"] == 6
    (finished.folder / "results.json").unlink()
    more = {**tree, "objective": {**written, "num_classes": 11}}
    with pytest.raises(NotPreparedError, match=r"started with objective.num_classes=10, now it is 11"):
        train(parse_recipe(more), resume=True, echo=quiet)


def test_pictures_without_labels_train_and_the_run_says_what_is_left_out(tmp_path: Path) -> None:
    from PIL import Image

    folder = tmp_path / "photos"
    folder.mkdir()
    for number, pixels in enumerate(load_images("digits", "test").images[:24]):
        Image.fromarray(pixels[0].numpy()).resize((8 + number % 3, 9)).save(folder / f"{number}.png")
    data = {"source": str(folder), "size": 8, "rows": 0, "held_out": 4}
    tree = worlds.digits_recipe(tmp_path, data=data, steps=3)
    said: list[str] = []
    finished = train(parse_recipe(tree), echo=said.append)
    assert any("with no labels, kNN accuracy is left out" in sentence for sentence in said)
    assert finished.results["scores"] == {} and finished.results["steps"] == 3
    with pytest.raises(ValueError, match="photos has no labels, which every probe needs"):
        evaluate_run(finished.folder)
    for objective in ("supcon", "cloa"):
        with pytest.raises(NotPreparedError, match=f"{objective} reads labels, and the pictures of photos have none"):
            train(parse_recipe({**tree, "objective": {"name": objective}, "output": str(tmp_path / "b")}), echo=quiet)
    with pytest.raises(NotPreparedError, match=r"several sizes, .*: give data.size="):
        train(parse_recipe({**tree, "data": {**data, "size": None}, "output": str(tmp_path / "b")}), echo=quiet)


def test_a_size_that_the_source_does_not_take_is_refused(tmp_path: Path) -> None:
    """Files in MNIST's form say how large their images are."""
    import numpy as np

    for start in ("train", "t10k"):
        rows = np.random.default_rng(0).integers(0, 255, (40, 6, 6), dtype=np.uint8)
        header = b"".join(number.to_bytes(4, "big") for number in (0x803, 40, 6, 6))
        (tmp_path / f"{start}-images-idx3-ubyte").write_bytes(header + rows.tobytes())
        labels = bytes(row % 4 for row in range(40))
        (tmp_path / f"{start}-labels-idx1-ubyte").write_bytes(
            b"".join(number.to_bytes(4, "big") for number in (0x801, 40)) + labels
        )
    tree = worlds.digits_recipe(tmp_path, data={"source": str(tmp_path), "size": 12, "rows": 0, "held_out": 4})
    with pytest.raises(NotPreparedError, match=r"data.size is for images of many sizes; those of .* are 6×6 as they"):
        train(parse_recipe({**tree, "output": str(tmp_path / "runs" / "run")}), echo=quiet)


@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
def test_a_stem_that_replaces_what_was_learned_is_announced(tmp_path: Path, stem: str) -> None:
    from transformers import ResNetConfig, ResNetModel

    shape = {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic", "num_channels": 1}
    ResNetModel(ResNetConfig(**shape)).save_pretrained(tmp_path / "eighteen")
    tree = worlds.digits_recipe(tmp_path)
    encoder = {"name": "resnet18", "weights": str(tmp_path / "eighteen"), "stem": stem}
    said: list[str] = []
    create_task(parse_recipe({**tree, "encoder": encoder}), tmp_path / "run", said.append)
    assert "labels" not in said[0]  # ntxent reads none
    words = next(sentence for sentence in said if sentence.startswith("Encoder: "))
    assert f"weights of {tmp_path / 'eighteen'}" in words
    assert ("its first convolution gives way to CIFAR's stem" in words) == (stem == "cifar")


# --- several views

SMALL = {"name": "simclr", "views": 2, "local_views": 2, "local_size": 6, "local_scale": [0.1, 0.3]}


@pytest.mark.parametrize("augmentation", [{"name": "shift", "views": 4}, SMALL], ids=["whole", "small crops"])
def test_all_pairs_of_views_are_compared(tmp_path: Path, augmentation: dict[str, Any]) -> None:
    objective = {"name": "pairwise", "base": {"name": "ntxent", "temperature": 0.2}}
    tree = worlds.digits_recipe(tmp_path, objective=objective)
    task = create_task(parse_recipe({**tree, "augmentation": augmentation}), tmp_path / "run", quiet)
    trainer = task.trainer
    torch.manual_seed(1)
    value = trainer.compute_loss(trainer.model, task.sample)
    torch.manual_seed(1)
    with torch.no_grad():
        z = trainer.loss.project(trainer.embed(trainer.encoder, task.sample))
    assert task.views == len(z) == 4
    base = hs.create_objective("ntxent", temperature=0.2)
    losses = [base(z[v], z[w]).item() for v in range(4) for w in range(v)]
    assert value.item() == pytest.approx(sum(losses) / 6, rel=1e-5)


def test_small_crops_come_last_and_have_their_size(tmp_path: Path) -> None:
    tree = worlds.digits_recipe(tmp_path, objective={"name": "mv_dhel"})
    task = create_task(parse_recipe({**tree, "augmentation": SMALL}), tmp_path / "run", quiet)
    assert isinstance(task.trainer, ImageTrainer)
    sides = [view.shape[2:] for view in task.trainer.views(task.sample["images"])]
    assert sides == [(8, 8), (8, 8), (6, 6), (6, 6)]


def test_a_run_with_small_crops_ends(tmp_path: Path) -> None:
    tree = worlds.digits_recipe(tmp_path, objective={"name": "mv_infonce"}, steps=2)
    assert train(parse_recipe({**tree, "augmentation": SMALL}), echo=quiet).results["steps"] == 2


def test_two_views_of_a_recipe_enter_no_id(tmp_path: Path) -> None:
    tree = worlds.digits_recipe(tmp_path)
    written = {**tree, "augmentation": {"name": "shift", "views": 2}}
    assert cell_id(parse_recipe(tree)) == cell_id(parse_recipe(written))


@pytest.mark.parametrize(
    ("augmentation", "sentence"),
    [
        ({"views": 3}, r"ntxent compares two views, .* makes 3: objective=pairwise objective\.base=ntxent"),
        ({"local_views": 1}, "ntxent compares two views, and the augmentation makes 3"),
        ({"local_size": 4}, r"augmentation\.local_size is for simclr views with augmentation\.local_views"),
        ({"local_views": 1, "local_scale": [0.5, 0.1]}, "it should be the smallest share, above 0, and the largest"),
        ({"views": 1}, r"augmentation\.views is 1"),
    ],
)
def test_views_that_cannot_be_are_refused_in_one_sentence(
    tmp_path: Path, augmentation: dict[str, Any], sentence: str
) -> None:
    tree = worlds.digits_recipe(tmp_path)
    with pytest.raises(ValueError, match=sentence):
        parse_recipe({**tree, "augmentation": {"name": "simclr", **augmentation}})


def test_an_encoder_of_one_size_takes_no_smaller_crops(tmp_path: Path) -> None:
    tree = worlds.digits_recipe(tmp_path, objective={"name": "mv_dhel"})
    tree |= {"augmentation": SMALL, "encoder": {"name": "mlp"}}
    with pytest.raises(ValueError, match="mlp takes one: leave it out"):
        create_task(parse_recipe(tree), tmp_path / "run", quiet)
