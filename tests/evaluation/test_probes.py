"""Probes: equal to independent forms on the same features, with the encoder really frozen."""

import copy
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import yaml
from PIL import Image
from torch import nn

from hypersphere.data.images import label_fraction, load_images
from hypersphere.encoders.augment import create_augmentation, measure_normalisation
from hypersphere.encoders.image import create_image_encoder, load_image_encoder, save_image_encoder
from hypersphere.evaluation import probes
from hypersphere.evaluation.accuracy import Accuracy, accuracy
from hypersphere.evaluation.features import embed
from hypersphere.evaluation.frozen import batches, choose_head, descent, fit_logistic, fit_network, standardise
from hypersphere.evaluation.knn import nearest
from hypersphere.evaluation.probes import evaluate_run, finetune, knn_probe, linear_probe, mlp_probe


@pytest.fixture(scope="module")
def digits():
    """Pixels as features: training and test rows and labels."""
    train, test = load_images("digits"), load_images("digits", "test")
    return train.images.flatten(1).float(), train.labels, test.images.flatten(1).float(), test.labels


def clouds(classes, rows, dimension=5, spread=2.0, seed=0):
    """A Gaussian cloud for each class, overlapping."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, dimension, generator=generator)
    labels = torch.arange(classes).repeat(rows)
    return centres[labels] + spread * torch.randn(len(labels), dimension, generator=generator), labels


# ---- top-1 and top-5 ----


def test_accuracy_counts_as_a_loop_does():
    scores, labels = torch.randn(200, 8, generator=torch.Generator().manual_seed(0)), torch.arange(200) % 8
    first = five = 0
    for row, label in zip(scores.tolist(), labels.tolist(), strict=True):
        order = sorted(range(8), key=lambda place: -row[place])
        first += order[0] == label
        five += label in order[:5]
    assert accuracy(scores, labels) == Accuracy(first / 200, five / 200)


def test_equal_scores_give_the_lower_class_and_no_score_is_no_answer():
    assert accuracy(torch.zeros(4, 7), torch.tensor([0, 1, 5, 6])) == Accuracy(0.25, 0.5)
    unanswered = torch.full((2, 7), -torch.inf)
    unanswered[:, 3] = 0
    assert accuracy(unanswered, torch.tensor([3, 0])) == Accuracy(0.5, 0.5)


def test_with_five_classes_top5_says_nothing():
    assert accuracy(torch.randn(10, 5), torch.arange(10) % 5).top5 is None


# ---- linear ----


@pytest.mark.parametrize("l2", [0.1, 1.0, 10.0])
def test_the_linear_probe_is_scikit_learns_regression(l2):
    from sklearn.linear_model import LogisticRegression

    x, y = clouds(4, 60)
    (x,) = standardise(x.double())
    weight, bias = fit_logistic(x, y, 4, l2)
    theirs = LogisticRegression(C=1 / l2, tol=1e-9, max_iter=10_000).fit(x.numpy(), y.numpy())
    np.testing.assert_allclose(weight.numpy(), theirs.coef_, atol=1e-4)
    np.testing.assert_allclose((bias - bias.mean()).numpy(), theirs.intercept_, atol=1e-4)


def test_the_linear_probe_scores_as_scikit_learn_on_the_digits(digits):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train_z, train_y, test_z, test_y = digits
    theirs = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000, tol=1e-6)).fit(train_z, train_y)
    ours = linear_probe(*digits)
    assert ours.top1 == pytest.approx(theirs.score(test_z, test_y), abs=1.5 / len(test_y))
    ranked = np.argsort(-theirs.predict_proba(test_z), axis=1)[:, :5]
    assert ours.top5 == pytest.approx((ranked == test_y.numpy()[:, None]).any(axis=1).mean(), abs=1.5 / len(test_y))


def test_the_linear_probe_sees_neither_scale_nor_shift_nor_dead_dimensions(digits):
    train_z, train_y, test_z, test_y = digits
    before = linear_probe(*digits)
    moved = [torch.cat([3 * z - 100, torch.full((len(z), 2), 7.0)], dim=1) for z in (train_z, test_z)]
    assert linear_probe(moved[0], train_y, moved[1], test_y).top1 == pytest.approx(before.top1, abs=1.5 / len(test_y))


def test_a_probe_that_has_not_finished_warns():
    x, y = clouds(4, 60)
    with pytest.warns(UserWarning, match="stopped after 2 iterations"):
        linear_probe(x, y, x, y, iterations=2)


# ---- mlp ----


@pytest.mark.parametrize("head", [None, (16, 8), "linear"])
def test_the_network_descends_as_autograd_and_torchs_sgd_do(head):
    x, y = clouds(3, 30)
    x = x.double()
    ours = choose_head(head, x.shape[1], 3).double()
    theirs = copy.deepcopy(ours)
    torch.manual_seed(7)
    last = fit_network(ours, x, y, lr=0.05, weight_decay=5e-4, epochs=3, batch=16)
    torch.manual_seed(7)
    optimiser, schedule = descent(theirs, 0.05, 5e-4, steps=3 * 6)
    for rows in batches(len(x), 16, epochs=3):
        optimiser.zero_grad()
        F.cross_entropy(theirs(x[rows]), y[rows]).backward()
        optimiser.step()
        schedule.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)
    assert last == pytest.approx(F.cross_entropy(theirs(x), y).item(), rel=1e-12)


# ---- nearest neighbours ----


def loop_knn(train_z, train_y, test_z, test_y, k, temperature, classes):
    """Weighted votes, row by row, in float64."""
    hits = 0
    train_z, test_z = ([row / np.linalg.norm(row) for row in z.double().numpy()] for z in (train_z, test_z))
    for row, label in zip(test_z, test_y.tolist(), strict=True):
        near = sorted(((float(row @ other), int(y)) for other, y in zip(train_z, train_y, strict=True)), reverse=True)
        votes = [0.0] * classes
        for cosine, y in near[:k]:
            votes[y] += np.exp(cosine / temperature)
        hits += int(np.argmax(votes)) == label
    return hits / len(test_y)


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.07), (15, 0.07), (40, 1.0), (500, 0.5)])
def test_knn_votes_as_a_loop_does(k, temperature):
    train_z, train_y = clouds(3, 50)
    test_z, test_y = clouds(3, 30, seed=0)
    test_z = test_z + 0.5 * torch.randn(test_z.shape, generator=torch.Generator().manual_seed(1))
    ours = knn_probe(train_z, train_y, test_z, test_y, k=k, temperature=temperature).top1
    assert ours == pytest.approx(loop_knn(train_z, train_y, test_z, test_y, k, temperature, 3), abs=1e-12)
    assert 0.4 < ours < 1


def test_knn_without_weights_is_scikit_learns(digits):
    """At a high temperature every neighbour counts the same."""
    from sklearn.neighbors import KNeighborsClassifier

    train_z, train_y, test_z, test_y = digits
    theirs = KNeighborsClassifier(n_neighbors=7, metric="cosine", algorithm="brute").fit(train_z, train_y)
    ours = knn_probe(*digits, k=7, temperature=1e6)
    assert ours.top1 == pytest.approx(theirs.score(test_z, test_y), abs=1.5 / len(test_y))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 13), (1000, 1000)])
def test_blocks_of_any_size_find_the_same_neighbours(rows, columns):
    queries, keys = clouds(3, 10)[0], clouds(3, 40, seed=1)[0]
    cosines, numbers = nearest(queries, keys, 9, rows, columns)
    full = torch.cosine_similarity(queries.unsqueeze(1).double(), keys.unsqueeze(0).double(), dim=2)
    expected = full.argsort(dim=1, descending=True)[:, :9]
    assert torch.equal(numbers, expected)
    assert torch.allclose(cosines.double(), full.gather(1, expected), atol=1e-6)


def test_one_neighbour_has_one_answer():
    """The other classes have no vote, and are not among the first five by default."""
    train_z, train_y = clouds(8, 20)
    test_z, test_y = clouds(8, 10, seed=1)
    accuracy = knn_probe(train_z, train_y, test_z, test_y, k=1)
    assert accuracy.top5 == accuracy.top1 < 0.5


def test_a_sharp_temperature_does_not_overflow():
    train_z, train_y = clouds(3, 50, spread=0.1)
    assert knn_probe(train_z, train_y, train_z, train_y, temperature=1e-4).top1 == 1


# ---- small networks ----


def test_the_mlp_probe_learns_what_no_line_can():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(800, 2, generator=generator) * 2 - 1
    y = ((x[:, 0] * x[:, 1]) > 0).long()  # two opposite quadrants
    parts = (x[:600], y[:600], x[600:], y[600:])
    assert linear_probe(*parts).top1 < 0.65
    assert mlp_probe(*parts, epochs=40).top1 > 0.95


def test_the_mlp_probe_is_decided_by_its_seed_and_leaves_torchs_generator():
    x, y = clouds(6, 30)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = mlp_probe(x, y, x, y, epochs=3, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(5)
    assert mlp_probe(x, y, x, y, epochs=3, seed=1) == first
    assert any(mlp_probe(x, y, x, y, epochs=3, seed=seed) != first for seed in (2, 3))


def test_cloas_head_goes_with_the_number_of_classes():
    def widths(head):
        return [layer.out_features for layer in head.modules() if isinstance(layer, nn.Linear)]

    assert widths(choose_head(None, 512, 10)) == [256, 128, 64, 10]
    assert widths(choose_head(None, 2048, 100)) == [512, 1024, 1024, 100]
    assert widths(choose_head("linear", 512, 10)) == [10]
    assert widths(choose_head([32], 512, 10)) == [32, 10]
    with pytest.raises(ValueError, match="head must be 'linear' or hidden widths"):
        choose_head("cloa", 512, 10)


def test_a_classifier_on_what_has_collapsed_guesses_unless_features_are_standardised():
    """CLOA's protocol: an encoder whose variance is gone has an accuracy of chance."""
    y = torch.arange(160) % 4
    x = 3 * torch.eye(4)[y] + 0.1 * torch.randn(160, 4, generator=torch.Generator().manual_seed(0))
    collapsed = 1 + 1e-5 * x
    assert mlp_probe(x, y, x, y, epochs=20).top1 == 1
    assert mlp_probe(collapsed, y, collapsed, y, epochs=20).top1 == 1 / 4  # one answer for all
    assert mlp_probe(collapsed, y, collapsed, y, epochs=20, standardised=True).top1 == 1
    with pytest.raises(ValueError, match="choose a learning rate below"):
        mlp_probe(1e20 * x, y, x, y, epochs=5)


def test_every_row_is_seen_once_an_epoch_and_none_alone():
    steps = list(batches(129, 64, 2))
    assert [len(step) for step in steps] == [43] * 6
    assert torch.cat(steps[:3]).sort().values.tolist() == list(range(129))
    assert not torch.equal(torch.cat(steps[:3]), torch.cat(steps[3:]))


@pytest.mark.parametrize("probe", [linear_probe, mlp_probe, knn_probe])
def test_bad_features_are_refused(probe):
    x, y = clouds(3, 10)
    with pytest.raises(ValueError, match="a label for each"):
        probe(x, y[:-1], x, y)
    with pytest.raises(ValueError, match="1 of 30 rows that are not finite"):
        probe(x, y, x.clone().index_fill_(0, torch.tensor([4]), float("nan")), y)
    with pytest.raises(ValueError, match=r"10 of 30 rows without a label"):
        probe(x, torch.where(y == 2, -1, y), x, y)


# ---- the frozen encoder ----


def small_encoder():
    torch.manual_seed(0)
    return create_image_encoder("small-cnn", 1, 8, width=8)


def statistics_of(encoder):
    return {name: buffer.clone() for name, buffer in encoder.named_buffers()}


def test_features_neither_change_the_batch_norm_nor_depend_on_the_batch():
    encoder = small_encoder().train()
    x = torch.randn(50, 1, 8, 8)
    for _ in range(5):
        encoder(x)
    encoder.layers[1].eval()  # a mode of its own, which must survive
    before = statistics_of(encoder)
    one, all_ = embed(encoder, x, batch=1), embed(encoder, x, batch=50)
    shuffled = torch.randperm(50)
    assert torch.allclose(one, all_, atol=1e-5)
    assert torch.allclose(embed(encoder, x[shuffled], batch=7), all_[shuffled], atol=1e-5)
    assert all(torch.equal(before[name], buffer) for name, buffer in encoder.named_buffers())
    assert encoder.training and not encoder.layers[1].training and encoder.layers[4].training
    with torch.no_grad():
        assert not torch.allclose(encoder(x), all_, atol=1e-3)  # in training mode they would be others


def test_an_encoder_that_sees_its_batch_is_refused():
    layers = [nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8, track_running_stats=False)]
    with pytest.raises(ValueError, match="depend on the other images of the batch"):
        embed(nn.Sequential(*layers), torch.randn(40, 1, 8, 8))


class Restless(nn.Module):
    """Counts its calls whatever its mode."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x.flatten(1)


def test_an_encoder_that_learns_in_eval_mode_is_refused():
    with pytest.raises(ValueError, match="changed while it was judged, although in eval mode: calls"):
        embed(Restless(), torch.randn(4, 1, 8, 8))


def test_finetuning_learns_and_leaves_the_encoder_alone():
    train, test = load_images("digits"), load_images("digits", "test")
    encoder = small_encoder()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    state = torch.get_rng_state()
    normalise = measure_normalisation(train.images)
    views, plain = (create_augmentation(name, 8, normalise=normalise) for name in ("shift", "none"))
    rows = slice(0, 400)
    parts = (train.images[rows], train.labels[rows], test.images[:200], test.labels[:200])
    settings = {"views": views, "plain": plain, "head": "linear", "lr": 0.1, "epochs": 6}
    accuracy = finetune(encoder, *parts, **settings)
    assert accuracy.top1 > 0.8
    assert finetune(encoder, *parts, **settings) == accuracy
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())
    with pytest.raises(ValueError, match="choose a learning rate below 1e"):
        finetune(encoder, *parts, **{**settings, "lr": 1e30})


# ---- a run ----


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
