"""A run is probed with its own images, labels and seeds, and what was measured is kept."""

import json

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from hypersphere.data.images import label_fraction, load_images
from hypersphere.encoders.augment import create_augmentation, measure_normalisation
from hypersphere.encoders.image import create_image_encoder, load_image_encoder, save_image_encoder
from hypersphere.evaluation import probes
from hypersphere.evaluation.features import embed
from hypersphere.evaluation.probes import evaluate_run, knn_probe, mlp_probe
from tests.evaluation.drawn import small_encoder


@pytest.fixture
def run(tmp_path):
    """A run that ended before it began: its encoder is random."""
    encoder = small_encoder()
    normalise = measure_normalisation(load_images("digits").images)
    description = {"name": "small-cnn", "channels": 1, "size": 8, "options": {"width": 8}, "normalise": normalise}
    save_image_encoder(tmp_path / "model", encoder, description)
    write_recipe(tmp_path, objective={"name": "ntxent"})
    return tmp_path


def write_recipe(run, task="image", **more):
    recipe = {"task": task, "data": {"source": "digits"}, "seed": 11, **more}
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))


def test_a_run_is_judged_with_its_own_normalisation_and_labels(run):
    result = evaluate_run(run, "knn", labels=(1.0, 0.1), seeds=2, k=20)
    train, test = load_images("digits"), load_images("digits", "test")
    plain = create_augmentation("none", 8, normalise=measure_normalisation(train.images))
    train_z, test_z = (embed(small_encoder(), part.images, plain) for part in (train, test))
    assert [(score.labels, score.seed, score.images) for score in result.scores] == [
        (0.1, 0, 143),
        (0.1, 1, 143),
        (1.0, 0, 1438),
    ]
    for score in result.scores:
        rows = label_fraction(train.labels, score.labels, 11 + score.seed) >= 0
        expected = knn_probe(train_z[rows], train.labels[rows], test_z, test.labels, k=20)
        assert (score.top1, score.top5) == (expected.top1, expected.top5)


def test_means_and_spreads_are_numpys_and_print_as_a_table(run):
    result = evaluate_run(run, "linear", labels=(0.1, 1.0), seeds=3)
    tenth, all_ = result.summary()
    values = [score.top1 for score in result.scores if score.labels == 0.1]
    assert tenth["top1"] == pytest.approx(np.mean(values))
    assert tenth["top1_spread"] == pytest.approx(np.std(values, ddof=1))
    assert all_["seeds"] == 1 and all_["top1_spread"] is None
    lines = str(result).splitlines()
    assert len(lines) == 5 and "eval mode" in lines[0] and "l2 1.0" in lines[0]
    encoder, description = load_image_encoder(run / "model")
    plain = create_augmentation("none", 8, normalise=description["normalise"])
    features = embed(encoder, load_images("digits", "test").images, plain).numpy()
    assert result.variance == pytest.approx(np.var(features, axis=0).sum(), rel=1e-4) and "variance" in lines[4]
    shown = [f"{100 * tenth[name]:.2f}" for name in ("top1", "top1_spread", "top5", "top5_spread")]
    assert lines[2].split() == ["10%", "143", shown[0], "±", shown[1], shown[2], "±", shown[3], "3"]
    assert json.loads(json.dumps(result.to_dict()))["summary"][0]["images"] == 143


def test_an_interrupted_evaluation_continues_where_it_was(run, monkeypatch):
    whole = evaluate_run(run, "mlp", labels=(0.1,), seeds=3, epochs=2)
    (run / "probes.json").unlink()
    done = []

    def counted(*parts, **settings):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(settings["seed"])
        return mlp_probe(*parts, **settings)

    monkeypatch.setitem(probes._FUNCTIONS, "mlp", counted)
    monkeypatch.setattr(probes, "_defaults", lambda probe, options: {"epochs": 2})
    with pytest.raises(KeyboardInterrupt):
        evaluate_run(run, "mlp", labels=(0.1,), seeds=3, epochs=2)
    done.clear()
    again = evaluate_run(run, "mlp", labels=(0.1,), seeds=3, epochs=2)
    assert done == [2]
    assert again.scores == whole.scores


def test_kept_scores_are_of_this_encoder_and_these_settings(run):
    first = evaluate_run(run, "knn", labels=(1.0,), k=5)
    assert evaluate_run(run, "knn", labels=(1.0,), k=100).scores != first.scores
    assert evaluate_run(run, "knn", labels=(1.0,), k=5).scores == first.scores
    torch.manual_seed(1)
    description = json.loads((run / "model" / "encoder.json").read_text())
    save_image_encoder(run / "model", create_image_encoder("small-cnn", 1, 8, width=8), description)
    assert evaluate_run(run, "knn", labels=(1.0,), k=5).scores != first.scores


@pytest.mark.parametrize(
    ("objective", "taught"),
    [
        ({"name": "cloa", "base": "ntxent", "num_classes": 10, "dim": 32}, True),
        ({"name": "supcon"}, True),
        ({"name": "met"}, False),
    ],
)
def test_a_run_that_read_labels_is_probed_with_the_same_ones(run, monkeypatch, objective, taught):
    """CLOA's tenth of the labels, and another tenth for the probe, would be two tenths."""
    write_recipe(run, objective=objective)
    drawn = []
    monkeypatch.setattr(probes, "label_fraction", lambda *given: drawn.append(given[1:]) or label_fraction(*given))
    result = evaluate_run(run, "mlp", labels=(0.1,), seeds=2, epochs=1)
    assert drawn == [(0.1, 11), (0.1, 11 if taught else 12)]
    assert result.taught is taught and ("labels as in training" in str(result)) is taught


@pytest.mark.parametrize("noted", [True, False, None])
def test_probing_a_run_does_not_execute_the_file_of_its_objective(run, tmp_path, noted):
    evil = tmp_path / "evil.py"
    evil.write_text("raise SystemExit('executed')")
    write_recipe(run, objective={"name": "cloa", "base": {"name": f"{evil}:loss"}})
    if noted is not None:
        (run / "environment.json").write_text(json.dumps({"reads_labels": noted}))
    assert evaluate_run(run, "knn", labels=(1.0,)).taught is (noted is not False)  # if in doubt, the same labels


def test_a_run_on_some_rows_is_probed_on_those(run):
    (run / "recipe.yaml").write_text(yaml.safe_dump({"task": "image", "data": {"source": "digits", "rows": 500}}))
    assert evaluate_run(run, "knn", labels=(1.0,)).scores[0].images == 500


def test_a_run_on_pictures_of_many_sizes_is_probed_at_its_size(run, tmp_path):
    draw = np.random.default_rng(0)
    for part in ("train", "test"):
        for name in ("a", "b"):
            (tmp_path / "set" / part / name).mkdir(parents=True)
            for number in range(4):
                pixels = draw.integers(0, 256, (9 + number, 12 - number), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "set" / part / name / f"{number}.png")
    write_recipe(run, data={"source": str(tmp_path / "set"), "size": 8})
    assert evaluate_run(run, "knn", labels=(1.0,)).tested == 8


def test_kept_scores_are_of_these_images_and_this_seed(run, monkeypatch):
    """Another seed, other rows, other labels under the same name, another description of the same weights."""
    measured = []
    monkeypatch.setitem(probes._FUNCTIONS, "knn", lambda *parts, **_: measured.append(1) or knn_probe(*parts, k=5))
    monkeypatch.setattr(probes, "_defaults", lambda probe, options: {})

    def fresh():
        before = len(measured)
        evaluate_run(run, "knn", labels=(1.0,))
        return len(measured) > before

    assert fresh() and not fresh()
    write_recipe(run, seed=12)
    assert fresh() and not fresh()
    write_recipe(run, data={"source": "digits", "rows": 700})
    assert fresh() and not fresh()
    path = run / "model" / "encoder.json"
    description = json.loads(path.read_text())
    path.write_text(json.dumps(description | {"normalise": {"mean": [0.0], "std": [1.0]}}))
    assert fresh() and not fresh()
    whole = load_images("digits", "test")
    others = whole.select(torch.arange(len(whole)).flip(0))
    monkeypatch.setattr(probes, "load_images", lambda source, split, size, rows=None: others)
    assert fresh() and not fresh()
    others.images[-1, 0, 7, 7] ^= 1  # the same files, one pixel painted over
    assert fresh() and not fresh()


def test_a_small_share_of_labels_is_not_printed_as_none():
    scores = [probes.Score(share, 10, 0, 0.5, None) for share in (0.0001, 0.07, 0.125, 1.0)]
    result = probes.ProbeResult("run", "knn", "small-cnn", "digits", 10, False, {}, tuple(scores), 1.0)
    assert [line.split()[0] for line in str(result).splitlines()[2:6]] == ["0.01%", "7%", "12.5%", "100%"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"probe": "lineer"}, "did you mean 'linear'"),
        ({"labels": (0.0, 1.0)}, "shares above 0 and at most 1"),
        ({"labels": (10,)}, "shares above 0 and at most 1"),
        ({"seeds": 0}, "at least 1, not 0"),
        ({"probe": "knn", "l2": 3.0}, r"has no option 'l2' \(it has k, temperature\)"),
    ],
)
def test_bad_questions_are_refused(run, settings, message):
    with pytest.raises(ValueError, match=message):
        evaluate_run(run, **settings)


def test_what_is_no_run_on_images_is_refused(run, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is no run: there is no recipe.yaml"):
        evaluate_run(tmp_path / "nowhere")
    write_recipe(run, task="text")
    with pytest.raises(ValueError, match="is a sentence encoder: hypersphere evaluate"):
        evaluate_run(run)
    (run / "recipe.yaml").write_text("just words")
    with pytest.raises(ValueError, match="should hold an object, not a text"):
        evaluate_run(run)
