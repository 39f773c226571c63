"""``hypersphere dissect`` as a user meets it."""

import json

import numpy as np
import pytest

from tests.cli.command import refused, run


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
    refused(run("dissect", "dhel", "--scope", "row"), "anchor or batch")


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
    refused(run("dissect", "siglip", "--negative", "easiest"), "'hardest' or 'mean'")
    refused(run("dissect", "siglip", "--step", 0), "above 0")


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
    refused(run("dissect", "cloa", "--embeddings", views), "put an array 'labels'")
    around = "base={'name': 'cloa', 'num_classes': 3, 'dim': 6}"
    refused(run("dissect", "mixup", around, "--embeddings", views), "put an array 'labels'")
    np.savez(labelled, **both, labels=np.linspace(0, 1, 12))
    refused(run("dissect", "cloa", "--embeddings", labelled), "12 whole numbers")
    np.savez(labelled, **both, labels=np.arange(12))
    refused(run("dissect", "cloa", "--embeddings", labelled), "12 orthonormal anchors in 6 dimensions")


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
    refused(run("dissect", *words), sentence)


@pytest.mark.parametrize("words", [("dissect", "infonce"), ("reproduce", "nie2023/appendix-d", "--quick")])
def test_a_place_that_cannot_be_written_is_refused_before_any_work(words, tmp_path, monkeypatch):
    def work(*_, **__):
        raise AssertionError("it has begun")

    monkeypatch.setattr("hypersphere.cli.dissect.take_apart", work)
    monkeypatch.setattr("hypersphere.cli.reproduce.write_item", work)
    (tmp_path / "file").write_text("mine")
    refused(run(*words, "--out", tmp_path / "file"), "cannot be written (Not a directory)")
    assert (tmp_path / "file").read_text() == "mine"
