"""The examination of embeddings, and files that cannot be examined."""

import io
import os
import pickle
import zipfile

import numpy as np
import pytest

from hypersphere.explorer import embeddings
from tests.explorer.asking import packed, refused, tree, upload


def test_given_embeddings_are_examined(server):
    status, answer = tree(server, "/api/embeddings?source=given&objective=met&margin=0.4")
    assert status == 200 and (answer["rows"], answer["dims"], answer["views"]) == (40, 6, 2)
    assert answer["diagnosis"]["question"] == "Has it collapsed?" and answer["diagnosis"]["table"]
    assert len(answer["spectrum"]["z1"]) == 6 and sum(answer["cosines"]["positives"]) == 40
    assert answer["anatomy"]["objective"] == "met" and "0.4" in answer["anatomy"]["as"] and answer["anatomy"]["verdict"]
    assert {"infonce", "met"} <= {row["objective"] for row in answer["advice"]["rows"]}
    hardest = answer["pairs"]["hardest"][0]
    assert hardest["rows"][0] != hardest["rows"][1]
    gaps = [pair["cosine"] - pair["positive"] for pair in answer["pairs"]["hardest"]]
    assert gaps == sorted(gaps, reverse=True)


def test_the_nearest_and_farthest_pairs_are_those_of_plain_loops(server, folders):
    answer = tree(server, "/api/embeddings?source=given")[1]
    loaded = np.load(folders / "views.npz")
    z1, z2 = (loaded[name] / np.linalg.norm(loaded[name], axis=1, keepdims=True) for name in ("z1", "z2"))
    pairs = sorted(((float(z1[i] @ z1[j]), {i, j}) for i in range(40) for j in range(i)), key=lambda pair: -pair[0])
    assert [set(pair["rows"]) for pair in answer["pairs"]["nearest"]] == [rows for _, rows in pairs[:12]]
    order = np.argsort([float(z1[i] @ z2[i]) for i in range(40)])[:12]
    assert [pair["rows"][0] for pair in answer["pairs"]["farthest"]] == order.tolist()


class Evil:
    def __reduce__(self):
        return os.system, ("touch executed",)


def bad_files():
    objects = io.BytesIO()
    np.save(objects, np.array([Evil(), Evil()], dtype=object), allow_pickle=True)
    good = packed(z1=np.ones((4, 3)))
    lying = io.BytesIO()
    with zipfile.ZipFile(lying, "w") as archive:
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999, 99999), }".ljust(117) + b"\n"
        archive.writestr("z1.npy", b"\x93NUMPY\x01\x00v\x00" + header)
    return {
        "objects.npy": (objects.getvalue(), "Python objects"),
        "objects.npz": (packed(z1=np.array([Evil()], dtype=object)), "Python objects"),
        "pickle.npy": (pickle.dumps(Evil()), "cannot be read as npy"),
        "half.npz": (good[: len(good) // 2], "cannot be read as npz"),
        "lying.npz": (lying.getvalue(), "cannot be read as npz"),
        "words.npz": (b"PK\x03\x04 nonsense", "cannot be read as npz"),
        "empty.npy": (b"", "cannot be read as npy"),
        "header.safetensors": (b"\xff" * 64, "cannot be read as safetensors"),
        "text.parquet": (b"PAR1 nonsense PAR1", "cannot be read as parquet"),
        "several.npz": (packed(a=np.ones((4, 3)), b=np.ones((4, 3)), c=np.ones((4, 3))), "which are the embeddings"),
        "infinite.npz": (packed(z1=np.full((4, 3), np.inf)), "NaN or Inf"),
        "shapes.npz": (packed(z1=np.ones((4, 3)), z2=np.ones((5, 3))), "one shape"),
        "many.npz": (packed(**{f"a{k}": np.ones(1) for k in range(70)}), "at most 64 arrays"),
    }


@pytest.mark.parametrize("name", bad_files())
def test_a_bad_file_costs_a_sentence(server, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, words = bad_files()[name]
    refused(server, f"/api/embeddings?source={upload(server, name, content)}", 400, words)
    assert not (tmp_path / "executed").exists()
    assert tree(server, "/api/catalogue")[0] == 200


def test_a_bomb_is_not_unpacked(server):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "ab":
            archive.writestr(f"{name}.npy", b"\0" * 1000)
    bomb = file.getvalue().replace((1000).to_bytes(4, "little"), (2**32 - 2).to_bytes(4, "little"))
    refused(server, f"/api/embeddings?source={upload(server, 'bomb.npz', bomb)}", 400, "once unpacked")


def test_a_parquet_of_too_many_equal_numbers_is_not_read(server, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(np.zeros(200_000, dtype=np.float32)) for name in "xy"}), file)
    small = upload(server, "zeros.parquet", file.getvalue())
    assert len(file.getvalue()) < 20_000
    monkeypatch.setattr(embeddings, "UNPACKED", 2**20)
    refused(server, f"/api/embeddings?source={small}", 400, "zeros.parquet takes 3 MB once unpacked")


def test_a_given_file_may_be_of_any_size(server, monkeypatch):
    monkeypatch.setattr(embeddings, "UNPACKED", 100)
    monkeypatch.setattr(embeddings, "MEMBERS", 1)
    assert tree(server, "/api/embeddings?source=given&objective=mpt")[0] == 200
