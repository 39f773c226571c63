"""Several views: identities with two views, closed forms at collapse, permutations, plain loops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.testing import workers
from hypersphere.testing.example import views
from tests import reference as ref

FORMS: list[Any] = [
    ("mv_infonce", {}),
    ("mv_infonce", {"denominator": "other"}),
    ("mv_dhel", {}),
    ("mv_dhel", {"pairs": "ordered"}),
]


def four(size: int = 6, dim: int = 4) -> list[Tensor]:
    one, two = views(size, dim)
    three, four = views(size + 1, dim)
    return [one, two, three[1:] + one, four[1:]]


def gradients(objective: Any, zs: list[Tensor], **given: Any) -> list[Tensor]:
    zs = [z.clone().requires_grad_() for z in zs]
    loss = objective(zs[0], zs[1], views=tuple(zs[2:]), **given)
    return [loss.detach(), *torch.autograd.grad(loss, zs)]


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize(("name", "params"), FORMS)
def test_plain_loops(name: str, params: dict[str, Any], size: int) -> None:
    zs = four()[:size]
    negatives = views(2, 4)[0]
    for more in (None, negatives):
        loss = hs.create_objective(name, **params, temperature=0.4)(*zs[:2], views=zs[2:], negatives=more)
        rows = None if more is None else more.tolist()
        one, two, *rest = (z.tolist() for z in zs)
        expected = ref.REFERENCES[name](one, two, None, rows, temperature=0.4, views=tuple(rest), **params)
        assert loss.item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("rows", [2, 6])
@pytest.mark.parametrize("ids", [None, [0, 1, 0, -1, 2, 1]], ids=["all", "ids"])
@pytest.mark.parametrize(("name", "params"), FORMS)
def test_streamed_is_dense(name: str, params: dict[str, Any], ids: list[int] | None, rows: int) -> None:
    given = {} if ids is None else {"ids": torch.tensor(ids)}
    objective = hs.create_objective(name, **params)
    dense = gradients(objective, four(), **given)
    with hs.streaming(rows):
        for one, other in zip(dense, gradients(objective, four(), **given), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(("name", "params"), FORMS)
def test_a_learned_temperature_moves_as_finite_differences_say(name: str, params: dict[str, Any]) -> None:
    zs = four()
    values = []
    for rows in (0, 3):
        objective = hs.create_objective(name, **params, learnable=True).double()
        with hs.streaming(rows) if rows else hs.dense():
            loss = objective(*zs[:2], views=zs[2:])
        (grad,) = torch.autograd.grad(loss, list(objective.parameters()))
        values.append(grad.item())
    log = math.log(objective.temperature.item())
    up, down = (
        hs.create_objective(name, **params, temperature=math.exp(log + step))(*zs[:2], views=zs[2:]).item()
        for step in (1e-5, -1e-5)
    )
    assert values == pytest.approx([(up - down) / 2e-5] * 2, rel=1e-6)


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize(("name", "params"), [*FORMS[::2], ("pairwise", {"base": "ntxent"})])
def test_several_processes(name: str, params: dict[str, Any], world_size: int) -> None:
    zs = four(7)
    ids = torch.tensor([0, 0, -1, -1, -1, -1, -1])  # many equal ones on the first process, none on the others
    expected = gradients(hs.create_objective(name, **params), zs, ids=ids)
    by_rank = workers(world_size).run(_own_part, name, params, zs, ids)
    for each in by_rank:
        torch.testing.assert_close(each[0], expected[0], rtol=1e-10, atol=1e-12)
    for view, grad in enumerate(expected[1:], start=1):
        torch.testing.assert_close(
            torch.cat([each[view] for each in by_rank]) / world_size, grad, rtol=1e-9, atol=1e-12
        )


def _own_part(name: str, params: dict[str, Any], zs: list[Tensor], ids: Tensor) -> list[Tensor]:
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    own = ([slice(0, 2), slice(2, 7)] if size == 2 else [slice(0, 3), slice(3, 4), slice(4, 7)])[rank]
    return gradients(hs.create_objective(name, **params, gather=True), [z[own] for z in zs], ids=ids[own])


def test_two_views() -> None:
    z1, z2 = views(7, 4)

    def value(name: str, **params: Any) -> float:
        return float(hs.create_objective(name, **params)(z1, z2).item())

    assert value("mv_dhel", temperature=0.3) == pytest.approx(value("dhel", energy="both", temperature=0.3), rel=1e-12)
    assert value("mv_infonce", temperature=0.5) > value("ntxent", temperature=0.5)
    assert value("mv_infonce", temperature=0.5, denominator="other") > value("infonce", temperature=0.5, symmetric=True)
    assert value("pairwise", base="infonce") == value("infonce")
    ordered, unordered = (value("mv_dhel", pairs=pairs) for pairs in ("ordered", "unordered"))
    assert ordered - unordered == pytest.approx(-math.log(2), rel=1e-12)


def test_symmetric_sums_make_mv_infonce_equal_to_its_two_view_relatives() -> None:
    z, _ = views(6, 4)
    for form, relative in (("all", "ntxent"), ("other", "infonce")):
        mv = hs.create_objective("mv_infonce", denominator=form, temperature=0.5)(z, z)
        assert mv.item() == pytest.approx(hs.create_objective(relative, temperature=0.5)(z, z).item(), rel=1e-12)


@pytest.mark.parametrize("num_views", [2, 3, 8])
def test_collapsed(num_views: int) -> None:
    z, n, tau = torch.ones(5, 3, dtype=torch.float64), 5, 0.1
    rest = (z,) * (num_views - 2)
    everything = hs.create_objective("mv_infonce", temperature=tau)(z, z, views=rest).item()
    assert everything == pytest.approx(math.log((num_views * n - 1) / (num_views - 1)))
    other = hs.create_objective("mv_infonce", temperature=tau, denominator="other")(z, z, views=rest).item()
    assert other == pytest.approx(math.log(n))
    dhel = hs.create_objective("mv_dhel", temperature=tau)(z, z, views=rest).item()
    pairs = num_views * (num_views - 1) / 2
    assert dhel == pytest.approx(num_views * math.log(n - 1) + (num_views - 1) / tau - math.log(pairs))


def test_a_product_of_sums_would_overflow_and_ours_does_not() -> None:
    z = torch.ones(256, 4)
    loss = hs.create_objective("mv_dhel", temperature=0.1)(z, z, views=(z,) * 6)
    assert loss.isfinite()


@pytest.mark.parametrize("name", ["mv_infonce", "mv_dhel", "pairwise"])
def test_the_order_of_views_does_not_matter(name: str) -> None:
    params = {"base": "ntxent"} if name == "pairwise" else {}
    objective = hs.create_objective(name, **params)
    values = [objective(*zs[:2], views=zs[2:]).item() for zs in itertools.permutations(four()[:3])]
    assert values == pytest.approx(values[:1] * 6, rel=1e-12)


def test_pairwise_is_the_mean_over_pairs() -> None:
    zs, ids = four(), torch.tensor([0, 1, 0, -1, 2, 1])
    base = hs.create_objective("dcl")
    expected = [base(a, b, ids=ids).item() for a, b in itertools.combinations(zs, 2)]
    loss = hs.create_objective("pairwise", base="dcl")(*zs[:2], views=zs[2:], ids=ids)
    assert loss.item() == pytest.approx(sum(expected) / 6, rel=1e-12)
    guides = [z.roll(1, dims=1)[:, :3] for z in four()]  # one for each view: each pair is judged by its own
    pairs = itertools.combinations(range(4), 2)
    expected = [base(zs[v], zs[w], guide=(guides[v], guides[w])).item() for v, w in pairs]
    loss = hs.create_objective("pairwise", base="dcl")(*zs[:2], views=zs[2:], guide=tuple(guides))
    assert loss.item() == pytest.approx(sum(expected) / 6, rel=1e-12)


@pytest.mark.parametrize("name", ["mv_infonce", "mv_dhel"])
def test_one_row_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} needs a batch of at least two instances"):
        hs.create_objective(name)(torch.ones(1, 3), torch.ones(1, 3))


def test_further_views_are_tensors() -> None:
    for call in (hs.create_objective("mv_dhel"), hs.create_objective("sigreg").terms):
        for given, said in ((None, "NoneType"), (3, "int"), ([None], "NoneType")):
            with pytest.raises(ValueError, match=f"z3 must be a tensor, not {said}"):
                call(torch.eye(4), torch.eye(4), views=given)


def test_views_of_another_shape_are_refused() -> None:
    z1, z2 = views(4, 3)
    with pytest.raises(ValueError, match=r"the views differ in shape: z1 \(4, 3\), z3 \(5, 3\)"):
        hs.create_objective("mv_dhel")(z1, z2, views=(torch.ones(5, 3, dtype=torch.float64),))


def test_a_guide_of_another_number_of_views_is_refused() -> None:
    zs = four()[:3]
    for guide in ((zs[0], zs[1]), [zs[0]] * 4):
        with pytest.raises(ValueError, match="guide must be one tensor, or one for each of the 3 views"):
            hs.create_objective("pairwise", base="dcl")(*zs[:2], views=zs[2:], guide=guide)
