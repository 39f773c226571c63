"""Two views from files of every kind: labels, damage, few bits, and what is no embedding."""

import json
import pickle

import numpy as np
import pytest
import torch

from hypersphere.cli.views import MOST_ROWS, NOISE, find_views, synthetic_views
from tests.cli.command import refused, run


def test_labels_may_be_words(views, tmp_path, without_figures):
    with np.load(views) as arrays:
        both = {name: arrays[name] for name in ("z1", "z2")}
    answers = []
    for labels in (np.arange(12) % 3, np.array(["ant", "bee", "cow"] * 4)):
        np.savez(tmp_path / "labelled.npz", **both, labels=labels)
        answer = run("dissect", "supcon", "cloa", "--embeddings", tmp_path / "labelled.npz", "--json")
        assert answer.exit_code == 0, answer.output
        answers.append(answer.stdout)
    assert answers[0] == answers[1]
    np.savez(tmp_path / "labelled.npz", **both, labels=np.array(["ant", "bee"]))
    refused(run("dissect", "supcon", "--embeddings", tmp_path / "labelled.npz"), "12 whole numbers or words")


@pytest.mark.parametrize("change", ["cut", "altered"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_archive_gets_one_sentence(change, save, tmp_path):
    path = tmp_path / "damaged.npz"
    z = np.random.default_rng(0).normal(size=(40, 6))
    save(path, z1=z, z2=z + 1)
    whole = path.read_bytes()
    half = len(whole) // 3
    path.write_bytes(whole[:half] if change == "cut" else whole[:half] + bytes(60) + whole[half + 60 :])
    refused(run("dissect", "met", "--embeddings", path), "damaged.npz cannot be read as npz")


def test_floats_of_eight_and_sixteen_bits_are_read(tmp_path, without_figures):
    from safetensors.torch import save_file

    z1, z2 = torch.randn(2, 12, 6, generator=torch.Generator().manual_seed(0)).to(torch.float8_e4m3fn)
    numbers = []
    for kind in (torch.float8_e4m3fn, torch.bfloat16, torch.float32):
        save_file({"z1": z1.to(kind), "z2": z2.to(kind)}, tmp_path / "views.safetensors")
        answer = run("dissect", "siglip", "--embeddings", tmp_path / "views.safetensors", "--json")
        numbers.append(json.loads(answer.stdout)["objectives"][0]["numbers"])
    assert numbers[0] == numbers[1] == numbers[2]


def test_npy_and_safetensors_hold_the_same(views, tmp_path, without_figures):
    from safetensors.numpy import save_file

    with np.load(views) as arrays:
        both = {name: arrays[name] for name in ("z1", "z2")}
    np.save(tmp_path / "views.npy", np.stack([both["z1"], both["z2"]]))
    save_file(both, tmp_path / "views.safetensors")
    numbers = []
    for path in (views, tmp_path / "views.npy", tmp_path / "views.safetensors"):
        answer = run("dissect", "siglip", "--embeddings", path, "--out", tmp_path / "out", "--json")
        numbers.append(json.loads(answer.stdout)["objectives"][0]["numbers"])
    assert numbers[0] == numbers[1] == numbers[2]


def _spoilt(**change):
    z = np.random.default_rng(0).normal(size=(5, 3))
    return {"z1": z, "z2": z + 1, **change}


@pytest.mark.parametrize(
    "arrays, sentence",
    [
        (_spoilt(z2=np.full((5, 3), np.nan)), "z2 in"),
        (_spoilt(z1=np.zeros((5, 3))), "rows of zeros"),
        (_spoilt(z2=np.ones((4, 3))), "one shape"),
        (_spoilt(z1=np.ones(5)), "shape (N, D)"),
        (_spoilt(z1=np.array([["a", "b"]])), "must be numbers"),
        ({"a": np.ones((5, 3)), "z2": np.ones((5, 3))}, "has no 'z1'; it has a, z2"),
    ],
)
def test_bad_embeddings_get_one_sentence(arrays, sentence, tmp_path):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    refused(run("dissect", "infonce", "--embeddings", path), sentence)


def test_pickles_are_never_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    path = tmp_path / "trap.npz"
    np.savez(path, z1=np.array([Trap()], dtype=object), z2=np.ones((1, 1)))
    refused(run("dissect", "infonce", "--embeddings", path), "cannot be read")
    bare = tmp_path / "trap.npy"
    bare.write_bytes(pickle.dumps(Trap()))
    refused(run("dissect", "infonce", "--embeddings", bare), "cannot be read")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".safetensors", ".txt"])
def test_a_file_of_nonsense_gets_one_sentence(suffix, tmp_path):
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(b"nonsense")
    refused(run("dissect", "infonce", "--embeddings", path), "bad")


def test_the_views_of_a_run_are_taken(tmp_path, monkeypatch):
    from safetensors.numpy import save_file

    z1 = np.random.default_rng(0).normal(size=(20, 6))
    (tmp_path / "run").mkdir()
    save_file({"z1": z1, "z2": z1 + 0.1}, tmp_path / "run" / "embeddings.safetensors")
    monkeypatch.setattr("hypersphere.cli.dissect.draw", lambda *_: [])
    answer = run("dissect", "met", "--embeddings", tmp_path / "run", "--json")
    assert json.loads(answer.stdout)["batch"] == "run: 20 pairs in 6 dimensions"
    assert json.loads(run("advise", tmp_path / "run", "--json").stdout)["batch"] == 20
    save_file({"z1": z1}, tmp_path / "run" / "embeddings.safetensors")
    refused(run("advise", tmp_path / "run"), "has one view of shape (20, 6), and positives need two")


def test_synthetic_views_follow_the_seed():
    first, again, other = synthetic_views(0), synthetic_views(0), synthetic_views(1)
    assert torch.equal(first.z1, again.z1) and torch.equal(first.labels, again.labels)
    assert not torch.equal(first.z1, other.z1) and "(seed 1)" in other.about
    noise = (first.z2 - first.z1).std().item()
    assert noise == pytest.approx(NOISE, rel=0.05)


def test_of_many_rows_some_are_drawn_each_with_its_positive_and_its_label(tmp_path):
    z = np.random.default_rng(0).normal(size=(MOST_ROWS + 100, 3))
    np.savez(tmp_path / "many.npz", z1=z, z2=2 * z, labels=np.arange(len(z)))
    found = find_views(str(tmp_path / "many.npz"))
    assert len(found.z1) == MOST_ROWS and f"of which {MOST_ROWS} drawn at random" in found.about
    torch.testing.assert_close(found.z2, 2 * found.z1)
    torch.testing.assert_close(found.z1, torch.from_numpy(z)[found.labels])
    assert len(found.labels.unique()) == MOST_ROWS


def test_a_text_needs_a_model(tmp_path):
    refused(run("dissect", "met", "--text", tmp_path / "lines.txt"), "--text is for a model: name it")
