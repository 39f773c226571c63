"""Classifiers on frozen features: equal to independent forms on the same features."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from hypersphere.evaluation.frozen import batches, choose_head, descent, fit_logistic, fit_network, standardise
from hypersphere.evaluation.probes import linear_probe, mlp_probe
from tests.evaluation.drawn import clouds


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
