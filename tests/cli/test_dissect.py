"""``hypersphere dissect`` as a user meets it."""

import json
import pickle

import numpy as np
import pytest
from typer.testing import CliRunner

from hypersphere.cli.app import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def views(tmp_path):
    random = np.random.default_rng(0)
    z1 = random.normal(size=(12, 6))
    path = tmp_path / "views.npz"
    np.savez(path, z1=z1, z2=z1 + 0.3 * random.normal(size=(12, 6)))
    return path


@pytest.fixture
def without_figures(monkeypatch):
    """For questions of numbers only: drawing takes longer than measuring."""
    monkeypatch.setattr("hypersphere.cli.dissect.draw", lambda *_: [])


def test_two_objectives_side_by_side_on_own_embeddings(views, tmp_path):
    answer = run("dissect", "mhe", "siglip", "--embeddings", views, "--out", tmp_path / "out")
    assert answer.exit_code == 0, answer.output
    assert "12 pairs in 6 dimensions" in answer.output
    assert "mean ratio" in answer.output and "Conventions" in answer.output
    assert "No maps of siglip" in answer.stderr
    assert (tmp_path / "out" / "maps.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "anatomy.png").stat().st_size > 10_000
    assert not (tmp_path / "out" / "anatomy.pdf").exists()
    assert "gradient kept: how much" in answer.output


def test_a_table_has_one_scope(views, tmp_path, without_figures):
    """VICReg has no loss of a single anchor, so that DHEL beside it is dissected as part of the batch too."""
    words = ("--embeddings", views, "--out", tmp_path, "--json")
    both = json.loads(run("dissect", "dhel", "vicreg", *words).stdout)
    assert [each["scope"] for each in both["objectives"]] == ["batch", "batch"]
    alone, shared = (
        json.loads(run("dissect", "dhel", *words, "--scope", scope).stdout) for scope in ("anchor", "batch")
    )
    assert both["objectives"][0] == shared["objectives"][0]
    lengths = [each["objectives"][0]["numbers"]["length of the alignment part"] for each in (alone, shared)]
    assert lengths[0] == pytest.approx(12 * lengths[1])
    _refused(run("dissect", "dhel", "--scope", "row"), "anchor or batch")


def test_several_values_of_a_setting_are_swept(views, tmp_path, monkeypatch):
    words = ("dissect", "infonce", "met", "temperature=0.05,0.5", "--embeddings", views, "--out", tmp_path / "out")
    answer = run(*words)
    assert answer.exit_code == 0, answer.output
    rows = [line.split() for line in answer.stdout.splitlines() if line.startswith(("infonce", "met"))]
    assert [row[:-7] for row in rows] == [["infonce", "temperature=0.05"], ["infonce", "temperature=0.5"], ["met"]]
    assert (tmp_path / "out" / "sweep.png").stat().st_size > 10_000
    monkeypatch.setattr("hypersphere.cli.dissect.draw", lambda *_: [])
    tree = json.loads(run(*words, "--json").stdout)
    assert tree["swept"] == {"setting": "temperature", "values": [0.05, 0.5]}
    one = json.loads(run("dissect", "infonce", "temperature=0.5", "--embeddings", views, "--json").stdout)
    assert tree["objectives"][1]["numbers"] == one["objectives"][0]["numbers"]
    assert float(rows[1][2]) == pytest.approx(
        one["objectives"][0]["numbers"]["gradient kept (1: all, 0: none)"], abs=1e-4
    )
    _refused(run("dissect", "arccon", "temperature=0.1,0.2", "angle=0.1,0.2"), "one setting at a time")


def test_the_lower_end_of_lemma_one_is_that_of_the_interval(views, tmp_path, without_figures):
    import torch

    import hypersphere as hs

    with np.load(views) as arrays:
        z1, z2 = (torch.from_numpy(arrays[name]) for name in ("z1", "z2"))
    answer = run("dissect", "infonce", "--embeddings", views, "--out", tmp_path, "--json")
    numbers = json.loads(answer.stdout)["objectives"][0]["numbers"]
    low = sorted(hs.dissect(hs.create_objective("infonce"), z1, z2).lemma1_interval()[0].tolist())
    assert numbers["Lemma 1's lower end, median"] == pytest.approx((low[5] + low[6]) / 2)
    assert numbers["Lemma 1's lower end, 10%"] < numbers["Lemma 1's lower end, 90%"]


def test_settings_reach_the_objectives_that_have_them(views, tmp_path, without_figures):
    words = ("dissect", "ntxent", "kcl", "temperature=0.7", "--embeddings", views, "--out", tmp_path, "--json")
    answer = run(*words)
    tree = json.loads(answer.stdout)
    assert "temperature=0.7" in tree["objectives"][0]["as"]
    assert tree["objectives"][1]["numbers"]["gradient kept (1: all, 0: none)"] == 1


def test_lemma_one_is_asked_for_another_step_and_negative(views, tmp_path, without_figures):
    words = ("dissect", "siglip", "--embeddings", views, "--out", tmp_path, "--json", "--step", 0.5)
    numbers = [json.loads(run(*words, "--negative", which).stdout)["objectives"][0]["numbers"] for which in
               ("hardest", "mean")]  # fmt: skip
    assert "meeting Lemma 1 (λ=0.5, hardest)" in numbers[0]
    assert "meeting Lemma 1 (λ=0.5, mean)" in numbers[1]
    _refused(run("dissect", "siglip", "--negative", "easiest"), "'hardest' or 'mean'")
    _refused(run("dissect", "siglip", "--step", 0), "above 0")


def test_cloa_takes_the_labels_of_the_batch_and_says_what_its_anchors_add(views, tmp_path, without_figures):
    with np.load(views) as arrays:
        both = {name: arrays[name] for name in ("z1", "z2")}
    labelled = tmp_path / "labelled.npz"
    np.savez(labelled, **both, labels=np.arange(12) % 3)
    words = ("dissect", "cloa", "infonce", "--out", tmp_path / "out", "--json", "--embeddings")
    cloa, base = json.loads(run(*words, labelled).stdout)["objectives"]
    assert "num_classes=3, dim=6" in cloa["as"]
    assert cloa["numbers"]["not explained by similarities"] > 0.1 > base["numbers"]["not explained by similarities"]
    assert "not rotation-invariant" in cloa["verdict"] and "from positives and negatives" in cloa["verdict"]
    _refused(run("dissect", "cloa", "--embeddings", views), "put an array 'labels'")
    around = "base={'name': 'cloa', 'num_classes': 3, 'dim': 6}"
    _refused(run("dissect", "mixup", around, "--embeddings", views), "put an array 'labels'")
    np.savez(labelled, **both, labels=np.linspace(0, 1, 12))
    _refused(run("dissect", "cloa", "--embeddings", labelled), "12 whole numbers")
    np.savez(labelled, **both, labels=np.arange(12))
    _refused(run("dissect", "cloa", "--embeddings", labelled), "12 orthonormal anchors in 6 dimensions")


def test_labels_in_the_file_reach_supcon(views, tmp_path, without_figures):
    with np.load(views) as arrays:
        both = {name: arrays[name] for name in ("z1", "z2")}
    labelled = tmp_path / "labelled.npz"
    np.savez(labelled, **both, labels=np.zeros(12, dtype=int))
    ratios = []
    for path in (views, labelled):
        answer = run("dissect", "supcon", "--embeddings", path, "--out", tmp_path / "out", "--json")
        ratios.append(json.loads(answer.stdout)["objectives"][0]["numbers"]["effective negatives"])
    assert ratios[0] != ratios[1]


def test_labels_reach_a_base_that_reads_them(views, tmp_path, without_figures):
    with np.load(views) as arrays:
        both = {name: arrays[name] for name in ("z1", "z2")}
    ratios = []
    for classes in (12, 3):
        np.savez(tmp_path / "labelled.npz", **both, labels=np.arange(12) % classes)
        words = ("dissect", "mixup", "base=supcon", "--embeddings", tmp_path / "labelled.npz", "--json")
        ratios.append(json.loads(run(*words).stdout)["objectives"][0]["numbers"]["effective negatives"])
    assert ratios[0] != ratios[1]


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
    _refused(run("dissect", "supcon", "--embeddings", tmp_path / "labelled.npz"), "12 whole numbers or words")


@pytest.mark.parametrize("change", ["cut", "altered"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_archive_gets_one_sentence(change, save, tmp_path):
    path = tmp_path / "damaged.npz"
    z = np.random.default_rng(0).normal(size=(40, 6))
    save(path, z1=z, z2=z + 1)
    whole = path.read_bytes()
    half = len(whole) // 3
    path.write_bytes(whole[:half] if change == "cut" else whole[:half] + bytes(60) + whole[half + 60 :])
    _refused(run("dissect", "met", "--embeddings", path), "damaged.npz cannot be read as npz")


def test_floats_of_eight_and_sixteen_bits_are_read(tmp_path, without_figures):
    import torch
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


@pytest.mark.parametrize(
    "words, sentence",
    [
        (("infnce",), "did you mean 'infonce'"),
        (("temperature=1",), "at least one objective"),
        (("infonce", "temperatur=1"), "did you mean 'temperature'?"),
        (("infonce", "temperature=-1"), "above 0"),
        (("infonce", "temperature="), "key=value"),
        (("infonce", "--step", "nan"), "a finite step above 0"),
        (("infonce", "--step", "inf"), "a finite step above 0"),
        (("infonce", "--seed", "99999999999999999999999"), "invalid value for '--seed'"),
        (("infonce", "--seed", "-1"), "invalid value for '--seed'"),
        (("infonce", "--embeddings", "nowhere.npz"), "there is no file nowhere.npz"),
    ],
)
def test_bad_words_get_one_sentence(words, sentence):
    _refused(run("dissect", *words), sentence)


def _refused(answer, sentence):
    assert answer.exit_code == 2
    assert sentence.lower() in answer.stderr.lower()
    assert len(answer.stderr.strip().splitlines()) == 1


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
    _refused(run("dissect", "infonce", "--embeddings", path), sentence)


def test_pickles_are_never_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    path = tmp_path / "trap.npz"
    np.savez(path, z1=np.array([Trap()], dtype=object), z2=np.ones((1, 1)))
    _refused(run("dissect", "infonce", "--embeddings", path), "cannot be read")
    bare = tmp_path / "trap.npy"
    bare.write_bytes(pickle.dumps(Trap()))
    _refused(run("dissect", "infonce", "--embeddings", bare), "cannot be read")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".safetensors", ".txt"])
def test_a_file_of_nonsense_gets_one_sentence(suffix, tmp_path):
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(b"nonsense")
    _refused(run("dissect", "infonce", "--embeddings", path), "bad")


@pytest.mark.parametrize("words", [("dissect", "infonce"), ("reproduce", "nie2023/appendix-d", "--quick")])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(words, tmp_path, monkeypatch):
    def work(*_, **__):
        raise AssertionError("it has begun")

    monkeypatch.setattr("hypersphere.cli.dissect.take_apart", work)
    monkeypatch.setattr("hypersphere.cli.reproduce.write_item", work)
    (tmp_path / "file").write_text("mine")
    _refused(run(*words, "--out", tmp_path / "file"), "cannot be written (Not a directory)")
    assert (tmp_path / "file").read_text() == "mine"
