"""A batch of one row: nothing to contrast with, so each loss is its limit, stated here by hand as a function of the
positive cosine c; with extra negatives it is a batch like any other."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import hypersphere as hs
from hypersphere.engine import inputs, masked_logsumexp
from hypersphere.objectives import FeatureObjective, PairwiseObjective
from hypersphere.testing import workers
from tests import cases
from tests import reference as ref

ZERO = {
    *("infonce", "ntxent", "arccon", "debiased", "geodesic", "supcon", "hyperbolic"),  # the positive against nothing
    *("dcl_plus", "triplet", "mpt", "met", "mat"),  # no negative within the margin
    *("paradigm", "mixup", "mixcse"),  # a sum over no negatives; the base's, which has none to mix
}


def kernel(name: str, t: float = 2.0, c: float = 2.0) -> Callable[[float], float]:
    return {
        "gaussian": lambda cos: math.exp(-t * (2 - 2 * cos)),
        "gaussian_riesz": lambda cos: math.exp(-t * (2 - 2 * cos)),
        "log": lambda cos: -0.5 * math.log(1 + t * (2 - 2 * cos)),
        "imq": lambda cos: c / math.sqrt(c**2 + 2 - 2 * cos),
        "riesz": lambda cos: -math.sqrt(2 - 2 * cos),  # s = -1
    }[name]


def limit(name: str, params: dict[str, Any]) -> Callable[[float], float]:
    """The loss of the only pair, from its cosine."""
    times = 2 if name == "released/kcl" else 1
    name = name.rpartition("/")[2]
    if name in ("mixup", "guided") and not isinstance(params.get("base", "infonce"), str):
        base = dict(params["base"])
        return limit(base.pop("name"), base)
    if name in ("mixup", "guided", "pairwise"):
        return limit(params.get("base", "infonce"), {})
    if params.get("pool") in ("back", "gte"):  # the positive counts twice in the sum
        return lambda c: math.log(2)
    if name in ZERO:
        return lambda c: 0.0
    if name in ("dcl", "dclw", "dhel"):  # DCLW: the only pair is as well aligned as the mean, so its weight is 1
        usual = {"dcl": 0.05, "dclw": 0.1, "dhel": 0.3}[name]
        return lambda c: -c / params.get("temperature", usual)
    if name == "align_uniform":
        return lambda c: (1 - params.get("weight", 0.5)) * (2 - 2 * c) ** (params.get("alpha", 2.0) / 2)
    if name in ("mhe", "mhs"):
        return lambda c: 2 - 2 * c
    if name == "kcl":
        own = kernel(params.get("kernel", "gaussian"))
        times *= 2 if params.get("views") == "both" else 1
        return lambda c: -times * own(c)
    if name == "spectral":
        return lambda c: -2 * c
    if name == "siglip":
        return lambda c: math.log1p(math.exp(-(c / 0.1 - 10)))
    raise KeyError(name)


def pair() -> tuple[Tensor, Tensor]:
    z1 = torch.tensor([[0.3, -1.2, 0.5, 2.0]], dtype=torch.float64, requires_grad=True)
    z2 = torch.tensor([[-0.4, -0.9, 1.5, 0.7]], dtype=torch.float64, requires_grad=True)
    return z1, z2


def cosine_and_slopes(z1: Tensor, z2: Tensor) -> tuple[float, list[Tensor]]:
    """c, and (h' - c h)/|z| of either view: all that a function of c moves."""
    h, g = (z.detach() / z.detach().norm() for z in (z1, z2))
    c = (h * g).sum()
    return c.item(), [(g - c * h) / z1.detach().norm(), (h - c * g) / z2.detach().norm()]


def context(streamed: bool) -> Any:
    return hs.streaming(1) if streamed else hs.dense()


def is_modified(name: str, params: dict[str, Any]) -> bool:
    base = params.get("base", {}) if name == "mixup" else {}
    base = {"name": base} if isinstance(base, str) else base
    return base.get("name", name).rpartition("/")[2] in ("mmhe", "mmhs", "mbarlow", "mvicreg")


OF_COSINES = [case for case in cases.PAIRWISE + cases.VARIANTS + cases.RAW + cases.WRAPPERS
              if not is_modified(*case) and "cloa" not in str(case) and cases.takes_one_row(case)]  # fmt: skip
GATED = [case for case in cases.ALL if case[0] != "mixup" and is_modified(*case)]


@pytest.mark.filterwarnings("ignore:a batch of one row")
@pytest.mark.parametrize("streamed", [False, True], ids=["dense", "streamed"])
@pytest.mark.parametrize(("name", "params"), **cases.named(OF_COSINES))
def test_one_row_is_the_limit_of_its_loss(name: str, params: dict[str, Any], streamed: bool) -> None:
    z1, z2 = pair()
    c, along = cosine_and_slopes(z1, z2)
    stated = limit(name, params)
    objective = hs.create_objective(name, **params).double()
    with context(streamed):
        value = objective(z1, z2)
        grads = torch.autograd.grad(value, [z1, z2, *objective.parameters()])
        terms = objective.terms(z1, z2)
    assert value.item() == pytest.approx(stated(c), rel=1e-6 if name == "siglip" else 1e-12, abs=1e-300)
    grad = (stated(c + 1e-6) - stated(c - 1e-6)) / 2e-6
    for view in (0, 1):
        torch.testing.assert_close(grads[view], grad * along[view], rtol=1e-7, atol=1e-9 * abs(grad))
    assert all(each.isfinite().all() for each in grads)
    assert all(term.isfinite().all() for term in terms.values())
    assert terms.keys() == objective.terms(*(z.repeat(2, 1) for z in pair())).keys()  # as in any other batch


@pytest.mark.filterwarnings("ignore:a batch of one row")
@pytest.mark.parametrize("streamed", [False, True], ids=["dense", "streamed"])
@pytest.mark.parametrize(("name", "params"), **cases.named(GATED))
def test_a_modified_objective_keeps_the_pull_of_its_original_alone(
    name: str, params: dict[str, Any], streamed: bool
) -> None:
    """From +gd on the gate is closed: there is no negative that is too near. At first the pull is 2/N, Barlow's times
    1 - (1-ν) C_kk in each coordinate, and neither view moves the other."""
    z1, z2 = pair()
    c, along = cosine_and_slopes(z1, z2)
    with context(streamed):
        value = hs.create_objective(name, **params)(z1, z2)
        grads = torch.autograd.grad(value, [z1, z2], allow_unused=True, materialize_grads=True)
    if params.get("stage", "+r") != "original":
        assert value.item() == 0 and all((each == 0).all() for each in grads)
        return
    h, g = (z.detach() / z.detach().norm() for z in (z1, z2))
    name = name.rpartition("/")[2]
    pull = 2 * (1 - (1 - 30.0) * h * g) if name == "mbarlow" else 2 * torch.ones_like(h)
    assert value.item() == pytest.approx(-2 * (pull * h * g).sum().item(), rel=1e-12)
    for grad, own, other, z in zip(grads, (h, g), (g, h), (z1, z2), strict=True):
        moved = -pull * other
        torch.testing.assert_close(grad, (moved - (moved * own).sum() * own) / z.detach().norm())
    assert name == "mbarlow" or value.item() == pytest.approx(-4 * c)
    assert name == "mbarlow" or torch.allclose(grads[0], -2 * along[0])


@pytest.mark.parametrize("streamed", [False, True], ids=["dense", "streamed"])
@pytest.mark.parametrize(
    ("name", "params"), **cases.named([case for case in cases.PAIRWISE + cases.RAW if cases.takes_one_row(case)])
)
def test_one_row_with_extra_negatives_equals_plain_loops(name: str, params: dict[str, Any], streamed: bool) -> None:
    z1, z2 = pair()
    more = torch.linspace(-1, 1, 12, dtype=torch.float64).sin().mul(3).cos().view(3, 4)
    objective = hs.create_objective(name, **params).double()
    own = {("pairs" if key == "negatives" else key): value for key, value in params.items()}
    if name == "siglip":
        own = {"temperature": objective.temperature.item(), "bias": objective.bias.item()}
    with warnings.catch_warnings(), context(streamed):
        warnings.simplefilter("error")
        value = objective(z1, z2, torch.tensor([0]), negatives=more)
        moving = [z1, z2, *objective.parameters()]
        grads = torch.autograd.grad(value, moving, allow_unused=True, materialize_grads=True)
    expected = ref.REFERENCES[name](z1.detach().numpy(), z2.detach().numpy(), None, more.numpy(), **own)
    assert value.item() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert all(each.isfinite().all() for each in grads)


@pytest.mark.filterwarnings("ignore:a batch of one row")
@pytest.mark.parametrize(("name", "params"), **cases.named(cases.RELEASED + cases.VARIANTS + cases.WRAPPERS))
def test_one_row_streams_as_it_is_dense(name: str, params: dict[str, Any]) -> None:
    if "vicreg" not in (name, params.get("base")):
        hs.testing.assert_streams_exactly(hs.create_objective(name, **params), size=1, dim=4, rows=(1, 2))


@pytest.mark.parametrize("name", sorted({name for name, _ in cases.FEATURES + cases.SAMPLES}))
def test_features_of_one_row_are_refused(name: str) -> None:
    objective = hs.create_objective(name)
    assert isinstance(objective, FeatureObjective) or name == "sphere_jepa"
    with pytest.raises(ValueError, match=f"{name} needs a batch of at least two instances; this one has 1: .*last"):
        objective(*pair())


def test_one_row_is_warned_of_once() -> None:
    inputs._warn_of_one_row.cache_clear()
    with pytest.warns(UserWarning, match="a batch of one row has no negatives: a softmax or hinge loss is 0"):
        hs.create_objective("infonce")(*pair())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hs.create_objective("dcl")(*pair())


class Endless(PairwiseObjective):
    """DCL as one writes it down: without negatives it falls without end."""

    def per_anchor(self, positive: Tensor, negatives: Any, mask: Any, *same_label: Any) -> Tensor:
        return masked_logsumexp(negatives, mask, 20.0) - positive


def test_a_formula_without_a_limit_gets_one_sentence() -> None:
    for streamed in (False, True):
        with context(streamed), pytest.raises(ValueError, match="objective has no finite value for an anchor"):
            Endless()(*pair())
    assert Endless()(*pair(), negatives=torch.eye(4)).isfinite()


SHARED: list[cases.Case] = [
    *[(name, {}) for name in ("infonce", "dcl", "ntxent", "mhe", "align_uniform", "met", "spectral", "supcon", "kcl")],
    ("infonce", {"symmetric": True}),
    ("mbarlow", {"stage": "original"}),
    ("siglip", {}),
]


@pytest.mark.filterwarnings("ignore:a batch of one row")
def test_one_row_of_two_processes_has_the_gradient_of_one_process() -> None:
    for name, params in SHARED:
        z1, z2 = pair()
        value = hs.create_objective(name, **params).double()(z1, z2)
        expected = torch.autograd.grad(value, [z1, z2])
        by_rank = workers(2).run(_one_row_on_the_second, name, params, z1.detach(), z2.detach())
        for rank, (shared, grads) in enumerate(by_rank):
            assert shared == pytest.approx(value.item(), rel=1e-12), name
            for grad, one in zip(grads, expected, strict=True):
                torch.testing.assert_close(grad / 2, one[:rank], rtol=1e-9, atol=1e-12)


def _one_row_on_the_second(
    name: str, params: dict[str, Any], z1: Tensor, z2: Tensor
) -> tuple[float, tuple[Tensor, ...]]:
    views = [z[: dist.get_rank()].clone().requires_grad_() for z in (z1, z2)]
    value = hs.create_objective(name, gather=True, **params).double()(*views)
    return value.item(), torch.autograd.grad(value, views)
