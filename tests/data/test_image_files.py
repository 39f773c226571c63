"""Image files as their makers publish them: read as they were written, refused if cut."""

import gzip
import io
import json
import pickle
import struct
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from hypersphere.data import image_files
from hypersphere.data.images import load_images
from tests.data.drawn import random_images

# ---- idx ----


def write_idx(folder, images, labels, start="train", packed=False, cut=0):
    count, _, side, _ = images.shape
    files = {
        f"{start}-images-idx3-ubyte": struct.pack(">4B3I", 0, 0, 8, 3, count, side, side) + images.tobytes(),
        f"{start}-labels-idx1-ubyte": struct.pack(">4BI", 0, 0, 8, 1, len(labels)) + bytes(labels),
    }
    for name, data in files.items():
        data = data[: len(data) - cut]
        (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(data) if packed else data)


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_are_read_as_written(tmp_path, packed):
    images = random_images(6, 1, 5)
    write_idx(tmp_path, images, [0, 1, 2, 2, 1, 0], packed=packed)
    write_idx(tmp_path, images[:2], [2, 0], start="t10k", packed=packed)
    dataset = load_images(str(tmp_path))
    assert torch.equal(dataset.images, torch.from_numpy(images))
    assert dataset.labels.tolist() == [0, 1, 2, 2, 1, 0] and dataset.classes == ("0", "1", "2")
    assert load_images(str(tmp_path), "test").labels.tolist() == [2, 0]


def test_fashion_has_names(tmp_path):
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    write_idx(folder, random_images(10, 1, 4), list(range(10)))
    assert load_images(str(folder)).classes[9] == "Ankle boot"


def test_cut_idx_is_refused_with_the_numbers(tmp_path):
    write_idx(tmp_path, random_images(6, 1, 5), [0] * 6, cut=3)
    with pytest.raises(ValueError, match=r"declares 6×5×5 and so 166 bytes, but has 163"):
        load_images(str(tmp_path))


def test_half_a_gzip_is_refused(tmp_path):
    write_idx(tmp_path, random_images(6, 1, 20), [0] * 6, packed=True)
    file = tmp_path / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ValueError, match="of 1000 bytes is damaged or not whole"):
        load_images(str(tmp_path))


def test_idx_with_other_labels_or_none_is_refused(tmp_path):
    write_idx(tmp_path, random_images(6, 1, 5), [0] * 5)
    with pytest.raises(ValueError, match="6 images but 5 labels"):
        load_images(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="has no t10k-images-idx3-ubyte"):
        load_images(str(tmp_path), "test")
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"<!doctype html> not found, and more")
    with pytest.raises(ValueError, match="does not begin as an idx file"):
        load_images(str(tmp_path))


# ---- CIFAR ----


@pytest.fixture
def small_cifar(monkeypatch):
    monkeypatch.setattr(image_files, "CIFAR_ROWS", {"data_batch": 4, "test_batch": 4, "train": 4, "test": 4})


def cifar10(seed=0):
    """The six files of CIFAR-10's binary version, with four rows each, and what is in them."""
    files, images, labels = {}, {}, {}
    for place, name in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        images[name], labels[name] = random_images(4, 3, 32, seed + place), [(place + row) % 10 for row in range(4)]
        rows = (bytes([label]) + image.tobytes() for label, image in zip(labels[name], images[name], strict=True))
        files[f"{name}.bin"] = b"".join(rows)
    files["batches.meta.txt"] = "\n".join(image_files.CIFAR10).encode() + b"\n\n"
    return files, images, labels


def write_files(folder, files):
    for name, data in files.items():
        (folder / name).write_bytes(data)


def write_archive(path, files, inside):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{inside}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("form", ["folder", "unpacked archive", "archive"])
def test_cifar10_binary_is_read_as_written(tmp_path, small_cifar, form):
    files, images, labels = cifar10()
    source = tmp_path
    if form == "folder":
        write_files(tmp_path, files)
    elif form == "unpacked archive":
        (tmp_path / "cifar-10-batches-bin").mkdir()
        write_files(tmp_path / "cifar-10-batches-bin", files)
    else:
        source = tmp_path / "cifar-10-binary.tar.gz"
        write_archive(source, files, "cifar-10-batches-bin")
    train, test = load_images(str(source)), load_images(str(source), "test")
    names = [f"data_batch_{number}" for number in range(1, 6)]
    assert torch.equal(train.images, torch.from_numpy(np.concatenate([images[name] for name in names])))
    assert train.labels.tolist() == [label for name in names for label in labels[name]]
    assert torch.equal(test.images, torch.from_numpy(images["test_batch"]))
    assert train.classes == image_files.CIFAR10 and train.name == "cifar10"


def test_cifar100_binary_has_fine_labels(tmp_path, small_cifar):
    images, fine = random_images(4, 3, 32), [99, 0, 57, 3]
    rows = b"".join(bytes([19, label]) + image.tobytes() for label, image in zip(fine, images, strict=True))
    write_archive(tmp_path / "c.tar.gz", {"train.bin": rows, "test.bin": rows}, "cifar-100-binary")
    dataset = load_images(str(tmp_path / "c.tar.gz"), "test")
    assert dataset.labels.tolist() == fine and torch.equal(dataset.images, torch.from_numpy(images))
    assert len(dataset.classes) == 100


@pytest.mark.parametrize("length", [3 * 3073, 4 * 3073 - 1])
def test_cut_cifar_is_refused_even_between_rows(tmp_path, small_cifar, length):
    files, _, _ = cifar10()
    files["data_batch_3.bin"] = files["data_batch_3.bin"][:length]
    write_files(tmp_path, files)
    with pytest.raises(ValueError, match=rf"data_batch_3.bin has {length} bytes.*4 rows of 3073 bytes, 12292 in all"):
        load_images(str(tmp_path))


def test_cifar_without_one_of_its_files_is_refused(tmp_path, small_cifar):
    files, _, _ = cifar10()
    del files["data_batch_2.bin"], files["data_batch_5.bin"]
    write_files(tmp_path, files)
    with pytest.raises(FileNotFoundError, match=r"lacks data_batch_2.bin, data_batch_5.bin"):
        load_images(str(tmp_path))


def test_half_an_archive_is_refused(tmp_path, small_cifar):
    path = tmp_path / "cifar-10-binary.tar.gz"
    write_archive(path, cifar10()[0], "cifar-10-batches-bin")
    whole = path.read_bytes()
    for share in (0.5, 0.01):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(ValueError, match=r"not whole|not a tar archive"):
            load_images(str(path))
    path.write_bytes(whole[:-8] + bytes(8))  # gzip's checksum and length
    with pytest.raises(ValueError, match="damaged or not whole: CRC check failed"):
        load_images(str(path))


class Trap:
    """Were it unpickled, it would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("form", ["folder", "archive", "hundred"])
def test_pickled_cifar_is_refused_and_never_run(tmp_path, form):
    sprung = tmp_path / "sprung"
    folder = tmp_path / "data"
    folder.mkdir()
    trap = pickle.dumps(Trap(sprung))
    files = {"data_batch_1": trap, "batches.meta": trap, "test_batch": trap}
    if form == "hundred":
        files = {"meta": trap, "train": trap, "test": trap}
    source = folder
    if form == "archive":
        source = tmp_path / "cifar-10-python.tar.gz"
        write_archive(source, files, "cifar-10-batches-py")
    else:
        write_files(folder, files)
    with pytest.raises(ValueError, match=r"pickled.*take the binary version \(cifar-10-binary.tar.gz"):
        load_images(str(source))
    assert not sprung.exists()


def test_official_row_counts_are_the_published_ones():
    """50,000 training and 10,000 test images, in five files and one or in one and one."""
    rows = image_files.CIFAR_ROWS
    assert (5 * rows["data_batch"], rows["test_batch"], rows["train"], rows["test"]) == (50_000, 10_000, 50_000, 10_000)


# ---- strips ----


def write_strip(path, images):
    count, channels, side, _ = images.shape
    Image.fromarray(images.transpose(0, 2, 3, 1).reshape(count, side * side, channels)).save(path)


def test_strips_have_an_image_in_each_row(tmp_path):
    images = random_images(7, 3, 6)
    write_strip(tmp_path / "data_batch_1.png", images[:4])
    write_strip(tmp_path / "data_batch_2.png", images[4:])
    (tmp_path / "train_lables.json").write_text(json.dumps([3, 1, 4, 1, 5, 9, 2]))
    dataset = load_images(str(tmp_path))
    assert torch.equal(dataset.images, torch.from_numpy(images)) and dataset.labels.tolist() == [3, 1, 4, 1, 5, 9, 2]
    assert dataset.classes[3] == "cat"
    with pytest.raises(FileNotFoundError, match=r"lacks test_batch.png"):
        load_images(str(tmp_path), "test")


@pytest.mark.parametrize("rows", [1, 4, 5, 7, 9])
def test_rows_are_the_first_and_no_strip_after_them_is_decoded(tmp_path, rows):
    images = random_images(7, 3, 6)
    write_strip(tmp_path / "data_batch_1.png", images[:4])
    write_strip(tmp_path / "data_batch_2.png", images[4:])
    (tmp_path / "train_lables.json").write_text(json.dumps([3, 1, 4, 1, 5, 9, 2]))
    whole = load_images(str(tmp_path))
    if rows <= 4:  # the second is damaged behind its head
        second = tmp_path / "data_batch_2.png"
        second.write_bytes(second.read_bytes()[:60])
    first = load_images(str(tmp_path), rows=rows)
    assert torch.equal(first.images, whole.images[:rows]) and torch.equal(first.labels, whole.labels[:rows])
    assert first.classes == whole.classes


def test_the_tenth_strip_comes_after_the_ninth(tmp_path):
    images = random_images(11, 3, 6)
    for number in range(11):
        write_strip(tmp_path / f"data_batch_{number + 1}.png", images[number : number + 1])
    (tmp_path / "train_labels.json").write_text(json.dumps([0] * 11))
    assert torch.equal(load_images(str(tmp_path)).images, torch.from_numpy(images))


def test_strips_with_other_labels_or_cut_are_refused(tmp_path):
    images = random_images(5, 3, 16)
    strip = tmp_path / "test_batch.png"
    write_strip(strip, images)
    (tmp_path / "test_lables.json").write_text("[1, 2, 3, 4]")
    with pytest.raises(ValueError, match=r"has 4 labels but test_batch.png have 5 rows"):
        load_images(str(tmp_path), "test")
    (tmp_path / "test_lables.json").write_text('[1, 2, 3, 4, "5"]')
    with pytest.raises(ValueError, match="not a list of whole numbers"):
        load_images(str(tmp_path), "test")
    (tmp_path / "test_lables.json").write_text("[1, 2, 3, 4, 5]")
    strip.write_bytes(strip.read_bytes()[:2000])
    with pytest.raises(ValueError, match=r"test_batch.png of 2000 bytes is not a whole picture"):
        load_images(str(tmp_path), "test")
