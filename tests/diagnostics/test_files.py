"""Embeddings from files of every kind hold the same rows; what cannot be read is refused in one sentence."""

import errno
import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from hypersphere.diagnostics import diagnose, files
from hypersphere.diagnostics.files import load_embeddings, load_labels

draw = np.random.default_rng(0)
Z1, Z2 = (draw.normal(size=(9, 4)).astype(np.float32) for _ in range(2))
LABELS = np.arange(9) % 3


def same(embeddings, z1, z2=None, labels=None):
    np.testing.assert_array_equal(np.asarray(embeddings.z1), z1)
    for one, other in ((embeddings.z2, z2), (embeddings.labels, labels)):
        assert (one is None) == (other is None)
        if other is not None:
            np.testing.assert_array_equal(np.asarray(one), other)


def test_npy_is_mapped(tmp_path):
    np.save(tmp_path / "z.npy", Z1)
    embeddings = load_embeddings(tmp_path / "z.npy")
    same(embeddings, Z1)
    assert isinstance(embeddings.z1, np.memmap)
    np.save(tmp_path / "both.npy", np.stack([Z1, Z2]))
    same(load_embeddings(tmp_path / "both.npy"), Z1, Z2)


def test_two_files_are_two_views(tmp_path):
    np.save(tmp_path / "a.npy", Z1)
    np.savez(tmp_path / "b.npz", anything=Z2)
    same(load_embeddings(tmp_path / "a.npy", tmp_path / "b.npz"), Z1, Z2)


def test_npz_has_named_arrays(tmp_path):
    np.savez(tmp_path / "z.npz", z2=Z2, z1=Z1, labels=LABELS)
    same(load_embeddings(tmp_path / "z.npz"), Z1, Z2, LABELS)
    same(load_embeddings(tmp_path / "z.npz", arrays=["z2"]), Z2, None, LABELS)
    same(load_embeddings(tmp_path / "z.npz", arrays=["z2", "z1"]), Z2, Z1, LABELS)


def test_safetensors_and_a_run(tmp_path):
    save_file({"z1": torch.from_numpy(Z1), "z2": torch.from_numpy(Z2)}, tmp_path / "embeddings.safetensors")
    same(load_embeddings(tmp_path / "embeddings.safetensors"), Z1, Z2)
    same(load_embeddings(tmp_path), Z1, Z2)
    save_file({"half": torch.from_numpy(Z1).bfloat16()}, tmp_path / "half.safetensors")
    assert load_embeddings(tmp_path / "half.safetensors").z1.dtype == torch.bfloat16


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 4), pa.large_list(pa.float64())])
def test_parquet_with_columns_of_lists(kind, tmp_path):
    columns = {"id": list(range(9)), "z1": pa.array(Z1.tolist(), kind), "z2": pa.array(Z2.tolist(), kind)}
    pq.write_table(pa.table({**columns, "label": LABELS}), tmp_path / "z.parquet", row_group_size=4)
    same(load_embeddings(tmp_path / "z.parquet"), Z1, Z2, LABELS)
    same(load_embeddings(tmp_path / "z.parquet", arrays=["z2"]), Z2, None, LABELS)


def test_parquet_with_columns_of_numbers(tmp_path):
    table = pa.table({f"x{place}": Z1[:, place] for place in range(4)} | {"label": ["a", "b", "c"] * 3})
    pq.write_table(table, tmp_path / "z.parquet")
    same(load_embeddings(tmp_path / "z.parquet"), Z1, None, ["a", "b", "c"] * 3)


def test_whole_numbers_beside_fractions_are_left_out_and_named(tmp_path):
    columns = {f"x{place}": Z1[:, place] for place in range(4)}
    pq.write_table(pa.table({"id": np.arange(9), **columns, "year": np.arange(9)}), tmp_path / "z.parquet")
    embeddings = load_embeddings(tmp_path / "z.parquet")
    same(embeddings, Z1)
    assert embeddings.note == "Columns of whole numbers were left out: id, year."
    pq.write_table(pa.table({"a": np.arange(9), "b": np.arange(9)}), tmp_path / "whole.parquet")
    embeddings = load_embeddings(tmp_path / "whole.parquet")
    same(embeddings, np.stack([np.arange(9)] * 2, axis=1))
    assert embeddings.note == ""


def test_whole_numbers_in_a_text_are_numbers(tmp_path):
    """So that -1 means what it means everywhere: no label."""
    path = tmp_path / "labels.txt"
    path.write_text("0\n1\n-1\n1\n0\n-1\n", encoding="utf-8")
    labels = load_labels(path)
    assert labels.dtype == np.int64 and labels.tolist() == [0, 1, -1, 1, 0, -1]
    diagnosis = diagnose(np.random.default_rng(0).normal(size=(6, 3)), labels=labels)
    assert diagnosis.classes.classes == 2
    path.write_text("0\n1\nnone\n", encoding="utf-8")
    assert load_labels(path).tolist() == ["0", "1", "none"]


def test_a_byte_order_mark_is_no_part_of_a_label(tmp_path):
    path = tmp_path / "labels.txt"
    path.write_bytes(b"\xef\xbb\xbf-1\r\n0\r\n1\r\n")
    assert load_labels(path).tolist() == [-1, 0, 1]
    path.write_bytes(b"\xef\xbb\xbfant\nbee\nant")
    assert load_labels(path).tolist() == ["ant", "bee", "ant"]


def test_a_label_ends_with_its_line(tmp_path):
    """A form feed, U+0085 and U+2028 end a line for Python, not for the editor that wrote the file."""
    path = tmp_path / "labels.txt"
    path.write_text("red\u2028ant\nbee\x85\nfire\x0cant\n", encoding="utf-8")
    assert load_labels(path).tolist() == ["red\u2028ant", "bee", "fire\x0cant"]


def test_labels_from_a_text_or_an_array(tmp_path):
    (tmp_path / "labels.txt").write_text("ant\nbee\nant\n", encoding="utf-8")
    assert load_labels(tmp_path / "labels.txt").tolist() == ["ant", "bee", "ant"]
    np.save(tmp_path / "labels.npy", LABELS)
    assert load_labels(tmp_path / "labels.npy").tolist() == LABELS.tolist()


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickles_are_never_loaded(tmp_path):
    trap = Trap(tmp_path / "sprung")
    np.save(tmp_path / "a.npy", np.array([trap], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "b.npz", z1=np.array([trap], dtype=object))
    (tmp_path / "c.npy").write_bytes(pickle.dumps(trap))
    (tmp_path / "d.npz").write_bytes(pickle.dumps(trap))
    for name, reason in {"a.npy": "Python objects", "b.npz": "Python objects", "c.npy": "", "d.npz": "zip"}.items():
        with pytest.raises(ValueError, match=rf"{name} cannot be read as np[yz]: .*{reason}"):
            load_embeddings(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors", "parquet"])
@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x93NUMPY\x01", b"PK\x03\x04nonsense", b"PAR1PAR1"])
def test_broken_files_get_one_sentence(suffix, content, tmp_path):
    path = tmp_path / f"z.{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        load_embeddings(path)
    assert f"{path} cannot be read as {suffix}" in str(caught.value) and "\n" not in str(caught.value)


def test_a_truncated_file_is_refused(tmp_path):
    for name, save in (("z.npy", np.save), ("z.npz", np.savez)):
        save(tmp_path / name, Z1)
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) * 2 // 3])
        with pytest.raises(ValueError, match="cannot be read"):
            load_embeddings(tmp_path / name)


def test_what_is_missing_is_named(tmp_path):
    np.savez(tmp_path / "z.npz", query=Z1, passage=Z2)
    np.savez(tmp_path / "both.npz", z1=Z1, z2=Z2)
    np.savez(tmp_path / "none.npz", labels=LABELS)
    pq.write_table(pa.table({"words": ["a"]}), tmp_path / "words.parquet")
    pq.write_table(pa.table({"z": [[1.0, 2.0], [3.0]]}), tmp_path / "ragged.parquet")
    (tmp_path / "z.safetensor").write_bytes(b"")
    for name, options, sentence in [
        ("z.npz", {}, "passage, query: say which"),
        ("z.npz", {"arrays": ["qeury"]}, "did you mean query"),
        ("z.npz", {"arrays": ["query", "passage", "query"]}, "at most two"),
        ("both.npz", {"second": tmp_path / "both.npz"}, "holds two views by itself"),
        ("none.npz", {}, "holds no embeddings"),
        ("words.parquet", {}, "neither a column of lists"),
        ("ragged.parquet", {}, "different lengths"),
        ("z.safetensor", {}, "did you mean .safetensors?"),
    ]:
        with pytest.raises(ValueError) as caught:
            load_embeddings(tmp_path / name, **options)
        assert sentence in str(caught.value)
    for path in (tmp_path / "nowhere.npy", tmp_path):
        with pytest.raises(FileNotFoundError):
            load_embeddings(path)
    with pytest.raises(FileNotFoundError, match="with labels"):
        load_labels(tmp_path / "nowhere")


@pytest.mark.parametrize("suffix", ["npz", "parquet-lists", "parquet-table"])
def test_large_packed_arrays_are_mapped_and_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:

    rows = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    path = tmp_path / f"packed.{suffix.split('-')[0]}"
    if suffix == "npz":
        np.savez_compressed(path, z1=rows, labels=np.arange(50))
    elif suffix == "parquet-lists":
        pq.write_table(pa.table({"z1": list(rows)}), path)
    else:
        pq.write_table(pa.table({f"d{k}": rows[:, k] for k in range(6)}), path)
    whole = files.load_embeddings(path).z1
    monkeypatch.setattr(files, "SPILL", 100)
    mapped = files.load_embeddings(path).z1
    assert isinstance(mapped, np.memmap) and not isinstance(whole, np.memmap)
    assert np.array_equal(mapped, rows) and np.array_equal(whole, rows)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_altered_archive_is_refused(save, tmp_path, monkeypatch):
    """In memory, and where large arrays are unpacked to a file."""

    path = tmp_path / "z.npz"
    save(path, z1=np.random.default_rng(0).normal(size=(50, 6)))
    whole = path.read_bytes()
    for spill in (2**26, 100):
        monkeypatch.setattr(files, "SPILL", spill)
        for place in range(100, len(whole) // 2, 97):
            path.write_bytes(
                whole[:place] + bytes(byte ^ 255 for byte in whole[place : place + 8]) + whole[place + 8 :]
            )
            with pytest.raises(ValueError, match="cannot be read as npz"):
                load_embeddings(path)


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_a_disk_without_room_for_temporary_files_gets_one_sentence(suffix, tmp_path, monkeypatch):
    """Before anything is written: a mapped file whose disk fills up would end the process."""
    asked = []

    def full(handle, start, size):
        asked.append((start, size))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    rows = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    path = tmp_path / f"z.{suffix}"
    if suffix == "npz":
        np.savez_compressed(path, z1=rows)
    else:
        pq.write_table(pa.table({"z1": list(rows)}), path)
    monkeypatch.setattr(files, "SPILL", 100)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(ValueError, match=r"MB of temporary files, which .* does not have \(No space left on device\)"):
        load_embeddings(path)
    assert len(asked) == 1 and asked[0][1] >= rows.nbytes
    monkeypatch.undo()
    monkeypatch.setattr(files, "SPILL", 100)
    assert np.array_equal(load_embeddings(path).z1, rows)


def test_a_header_of_nonsense_is_refused(tmp_path):
    np.save(tmp_path / "z.npy", Z1)
    whole = (tmp_path / "z.npy").read_bytes()
    for old, new in ((b"'shape': (9, 4)", b"'shape': (9, (("), (b"(9, 4), }  ", b"(-9, 4), } ")):
        assert old in whole
        (tmp_path / "z.npy").write_bytes(whole.replace(old, new))
        with pytest.raises(ValueError, match="cannot be read as npy"):
            load_embeddings(tmp_path / "z.npy")


@pytest.mark.parametrize(
    "lists, sentence",
    [
        ([[1.0, 2.0]] * 5 + [[1.0]] + [[1.0, 2.0]], "has lists of different lengths: 1 numbers in row 5, 2 in row 0"),
        ([[1.0, 2.0], [1.0] * 9, [3.0]], "has lists of different lengths: 9 numbers in row 1, 2 in row 0"),
        ([[1.0, 2.0], [1.0, 2.0], None, [1.0]], "is null in row 2"),
        ([None, [1.0, 2.0]], "is null in row 0"),
        ([[1.0, 2.0], [1.0, None]], "has a null among the numbers of row 1"),
        ([[1, 2], [None, 3]], "has a null among the numbers of row 1"),
    ],
)
def test_the_first_wrong_list_of_a_column_is_named(lists, sentence, tmp_path):
    pq.write_table(pa.table({"z": lists}), tmp_path / "z.parquet")
    with pytest.raises(ValueError) as caught:
        load_embeddings(tmp_path / "z.parquet")
    assert str(caught.value) == f"column 'z' of {tmp_path / 'z.parquet'} {sentence}"


def test_a_wrong_list_is_counted_over_all_batches(tmp_path):
    pq.write_table(pa.table({"z": [[1.0, 2.0]] * 9000 + [[1.0]]}), tmp_path / "z.parquet")
    with pytest.raises(ValueError, match="1 numbers in row 9000, 2 in row 0"):
        load_embeddings(tmp_path / "z.parquet")


@pytest.mark.parametrize(
    "labels, sentence",
    [
        ([0, None, 1], "'labels' of .* is null in row 1; every row needs a label \\(-1 stands for none\\)$"),
        (["a", "b", None], "'labels' of .* is null in row 2; every row needs a label$"),
        ([[0], [1], [0, 1]], "'labels' of .* holds list<.*>; labels are one whole number or word for each row"),
    ],
)
def test_a_column_of_labels_has_one_for_each_row(labels, sentence, tmp_path):
    pq.write_table(pa.table({"z": Z1[:3].tolist(), "labels": labels}), tmp_path / "z.parquet")
    with pytest.raises(ValueError, match=sentence):
        load_embeddings(tmp_path / "z.parquet")
    same(load_embeddings(tmp_path / "z.parquet", labelled=False), Z1[:3])
