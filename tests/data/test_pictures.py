"""Pictures in folders and in datasets of the Hugging Face hub."""

import numpy as np
import pytest
import torch
from PIL import Image

from hypersphere.data.images import load_images
from tests.data.drawn import random_images


def write_pictures(root, images, classes):
    for number, (image, name) in enumerate(zip(images, classes, strict=True)):
        (root / name).mkdir(parents=True, exist_ok=True)
        pixels = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
        Image.fromarray(pixels).save(root / name / f"{number:02}.png")


def test_a_folder_for_each_class_within_train_and_test(tmp_path):
    images = random_images(5, 3, 6)
    write_pictures(tmp_path / "train", images[:3], ["bird", "cat", "dog"])
    write_pictures(tmp_path / "test", images[3:], ["cat", "dog"])
    dataset = load_images(str(tmp_path), "test")
    assert torch.equal(dataset.images, torch.from_numpy(images[3:])) and dataset.classes == ("bird", "cat", "dog")
    assert dataset.labels.tolist() == [1, 2]
    write_pictures(tmp_path / "test", images[:1], ["emu"])
    with pytest.raises(ValueError, match="the class 'emu', which"):
        load_images(str(tmp_path))


def test_a_folder_without_parts_is_cut_the_same_way_every_time(tmp_path):
    images = random_images(20, 1, 6)
    write_pictures(tmp_path, images, ["a", "b"] * 10)
    train, test = load_images(str(tmp_path)), load_images(str(tmp_path), "test")
    assert train.images.shape == (16, 1, 6, 6) and test.labels.tolist() == [0, 0, 1, 1]
    together = torch.cat([train.images, test.images]).flatten(1).tolist()
    assert sorted(together) == sorted(torch.from_numpy(images).flatten(1).tolist())


def test_pictures_side_by_side_have_no_labels_and_are_all_for_training(tmp_path):
    images = random_images(7, 3, 6)
    for number, image in enumerate(images):
        Image.fromarray(image.transpose(1, 2, 0)).save(tmp_path / f"{number}.png")
    (tmp_path / "._0.png").write_bytes(b"what a Mac adds")
    (tmp_path / "notes").mkdir()
    dataset = load_images(str(tmp_path))
    assert torch.equal(dataset.images, torch.from_numpy(images)) and dataset.labels.tolist() == [-1] * 7
    assert not dataset.labelled and "no labels" in repr(dataset)
    with pytest.raises(ValueError, match="has no labels and no test part"):
        load_images(str(tmp_path), "test")
    Image.new("RGB", (6, 6)).save(tmp_path / "notes" / "x.png")
    with pytest.raises(ValueError, match=r"has pictures beside its sub-folders .* and in them"):
        load_images(str(tmp_path))


def test_one_coloured_picture_makes_both_parts_coloured(tmp_path):
    write_pictures(tmp_path / "train", random_images(2, 3, 6), ["a", "b"])
    grey = random_images(2, 1, 6)
    write_pictures(tmp_path / "test", grey, ["a", "b"])
    dataset = load_images(str(tmp_path), "test")
    assert torch.equal(dataset.images, torch.from_numpy(grey).expand(-1, 3, -1, -1))


def test_pictures_of_several_sizes_need_a_size(tmp_path):
    write_pictures(tmp_path, random_images(6, 3, 6), ["a"] * 6)
    Image.new("RGB", (20, 12), (10, 200, 30)).save(tmp_path / "a" / "wide.png")
    with pytest.raises(ValueError, match=r"several sizes, 6×6 and 20×12 \(.*wide.png\): give data.size=64"):
        load_images(str(tmp_path))
    pictures = torch.cat([load_images(str(tmp_path), split, size=8).images for split in ("train", "test")])
    assert pictures.shape == (7, 3, 8, 8)
    plain = (pictures == torch.tensor([10, 200, 30], dtype=torch.uint8).view(3, 1, 1)).flatten(1).all(dim=1)
    assert plain.sum() == 1


def test_a_damaged_or_deep_picture_is_refused(tmp_path):
    write_pictures(tmp_path, random_images(6, 3, 6), ["a"] * 6)
    file = tmp_path / "a" / "00.png"
    whole = file.read_bytes()
    file.write_bytes(whole[:70])
    with pytest.raises(ValueError, match=r"00.png of 70 bytes is not a whole picture"):
        load_images(str(tmp_path))
    Image.fromarray(np.zeros((6, 6), dtype=np.uint16)).save(file)
    with pytest.raises(ValueError, match="more than 8 bits"):
        load_images(str(tmp_path))


def test_a_picture_far_too_large_is_refused(tmp_path, monkeypatch):
    write_pictures(tmp_path, random_images(2, 3, 40), ["a", "b"])
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ValueError, match=r"00\.png of \d+ bytes is refused: .*1600 pixels"):
        load_images(str(tmp_path))


def dataset_of(images, labels, names):
    import datasets

    features = datasets.Features({"img": datasets.Image(), "kind": datasets.ClassLabel(names=names)})
    rows = {"img": [Image.fromarray(image.transpose(1, 2, 0)) for image in images], "kind": labels}
    return datasets.Dataset.from_dict(rows, features=features)


def test_a_saved_dataset_is_read_as_written(tmp_path):
    import datasets

    images = random_images(6, 3, 6)
    names = ["no", "yes"]
    parts = {"train": dataset_of(images[:4], [0, 1, 1, 0], names), "test": dataset_of(images[4:], [1, 0], names)}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "both")
    dataset = load_images(str(tmp_path / "both"), "test")
    assert torch.equal(dataset.images, torch.from_numpy(images[4:])) and dataset.labels.tolist() == [1, 0]
    assert dataset.classes == ("no", "yes")
    dataset_of(random_images(20, 3, 6), [0, 1] * 10, ["no", "yes"]).save_to_disk(tmp_path / "one")
    assert len(load_images(str(tmp_path / "one"))) == 16 and len(load_images(str(tmp_path / "one"), "test")) == 4


def test_a_dataset_by_its_id_is_asked_of_the_library(monkeypatch):
    import datasets

    images = random_images(5, 3, 6)
    asked = []

    def load_dataset(name, configuration):
        asked.append((name, configuration))
        return {
            "train": dataset_of(images[:3], [0, 1, 0], ["a", "b"]),
            "validation": dataset_of(images[3:], [1, 0], ["a", "b"]),
        }

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    dataset = load_images("hf:owner/name:plain", "test")
    assert asked == [("owner/name", "plain")] and torch.equal(dataset.images, torch.from_numpy(images[3:]))


def test_a_dataset_that_cannot_be_loaded_or_has_no_images_says_so(monkeypatch):
    import datasets

    def absent(*name):
        raise ConnectionError("no network,\nno copy")

    monkeypatch.setattr(datasets, "load_dataset", absent)
    with pytest.raises(ValueError, match=r"the dataset 'nobody/nothing' could not be loaded: no network, no copy"):
        load_images("hf:nobody/nothing")
    texts = {"train": datasets.Dataset.from_dict({"text": ["a"], "score": [1]})}
    monkeypatch.setattr(datasets, "load_dataset", lambda *name: texts)
    with pytest.raises(ValueError, match=r"has no images among its columns \(text, score\)"):
        load_images("hf:owner/texts")
    pictures = [Image.fromarray(image[0]) for image in random_images(3, 1, 6)]
    unlabelled = datasets.Dataset.from_dict({"image": pictures}).cast_column("image", datasets.Image())
    monkeypatch.setattr(datasets, "load_dataset", lambda *name: {"train": unlabelled})
    assert load_images("hf:owner/pictures").labels.tolist() == [-1] * 3
