"""Every objective against a plain-loop reference, the golden values and the golden gradients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hypersphere as hs
from tests import cases
from tests import reference as ref

LABELS = torch.tensor([0, 1, 0, -1, 1, 2, -1])
GOLDEN_GRADIENTS = json.loads((Path(__file__).parents[1] / "golden_gradients.json").read_text())


def batch(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z1 = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    z2 = z1 + 0.7 * torch.randn(7, 4, generator=generator, dtype=torch.float64)
    return z1, z2, torch.randn(3, 4, generator=generator, dtype=torch.float64)


def reference_value(name: str, params: dict[str, Any], objective: Any, *args: Any) -> float:
    """The reference takes negatives=… for rows, so the choice of negatives is called pairs there."""
    own = {("pairs" if key == "negatives" else key): value for key, value in params.items()}
    if hasattr(objective, "directions"):
        own["directions"] = objective.directions(4).numpy()
    if name == "siglip":
        own = {"temperature": objective.temperature.item(), "bias": objective.bias.item()}
    return ref.REFERENCES[name](*args, **own)


@pytest.mark.parametrize("extra", [False, True], ids=["batch", "extra-negatives"])
@pytest.mark.parametrize(("name", "params"), **cases.named(cases.PAIRWISE + cases.RAW))
def test_value_equals_plain_loops(name: str, params: dict[str, Any], extra: bool) -> None:
    z1, z2, more = batch()
    objective = hs.create_objective(name, **params).double()
    labels = LABELS if name == "supcon" else None
    value = objective(z1, z2, labels, negatives=more if extra else None)
    expected = reference_value(
        name,
        params,
        objective,
        z1.numpy(),
        z2.numpy(),
        None if labels is None else labels.numpy(),
        more.numpy() if extra else None,
    )
    assert value.item() == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.FEATURES + cases.DETACHED_FEATURES + cases.SAMPLES))
def test_features_equal_plain_loops(name: str, params: dict[str, Any]) -> None:
    z1, z2, _ = batch()
    objective = hs.create_objective(name, **params).eval()  # where directions are the same in every call
    expected = reference_value(name, params, objective, z1.numpy(), z2.numpy())
    assert objective(z1, z2).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("name", "params"), **cases.named(cases.SMOOTH + cases.RAW + cases.FEATURES + cases.SAMPLES))
def test_gradient_equals_differences_of_plain_loops(name: str, params: dict[str, Any]) -> None:
    z1, z2, _ = batch(seed=1)
    objective = hs.create_objective(name, **params).double().eval()
    a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    grads = torch.autograd.grad(objective(a, b, LABELS if name == "supcon" else None), [a, b])
    labels = LABELS.numpy() if name == "supcon" else None

    def value(x: np.ndarray, y: np.ndarray) -> float:
        return reference_value(name, params, objective, x, y, labels)

    expected = ref.finite_difference(value, z1.numpy(), z2.numpy())
    for grad, difference in zip(grads, expected, strict=True):
        np.testing.assert_allclose(grad.numpy(), np.asarray(difference), atol=2e-7)


@pytest.mark.parametrize(("name", "params"), **cases.named([c for c in cases.DETACHED if c[0] in ref.GRADIENTS]))
def test_detached_gradient_equals_closed_form_in_loops(name: str, params: dict[str, Any]) -> None:
    z1, z2, _ = batch(seed=2)
    a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
    hs.create_objective(name, **params)(a, b).backward()
    expected = ref.GRADIENTS[name](z1.numpy(), z2.numpy(), **params)
    for grad, closed in zip((a.grad, b.grad), expected, strict=True):
        given = torch.zeros_like(a) if grad is None else grad
        np.testing.assert_allclose(given.numpy(), np.asarray(closed), atol=1e-11)


@pytest.mark.parametrize(
    "case",
    [c for c in GOLDEN_GRADIENTS["cases"] if c["name"] in hs.list_objectives()],
    ids=lambda case: f"{case['name']}{case['params']['stage']}",
)
def test_golden_gradients(case: dict[str, Any]) -> None:
    a, b = (torch.tensor(GOLDEN_GRADIENTS[view], dtype=torch.float64, requires_grad=True) for view in ("z1", "z2"))
    hs.create_objective(case["name"], **case["params"])(a, b).backward()
    np.testing.assert_allclose(a.grad.numpy(), case["z1_grad"], atol=2e-12)
    np.testing.assert_allclose(b.grad.numpy(), case["z2_grad"], atol=2e-12)


GOLDEN: list[tuple[str, str, dict[str, Any]]] = [
    ("infonce_tau0.05", "infonce", {}),
    ("infonce_symmetric_tau0.05", "infonce", {"symmetric": True}),
    ("ntxent_2N_tau0.5", "ntxent", {}),
    ("dcl_2N_tau0.5", "dcl", {"negatives": "both", "temperature": 0.5}),
    ("dcl_cross_tau0.05", "dcl", {}),
    ("dcl_plus_tau0.05", "dcl_plus", {"temperature": 0.05}),
    ("dcl_plus_tau0.20", "dcl_plus", {"temperature": 0.2}),
    ("align_alpha2", "align_uniform", {"weight": 0.0}),
    ("align_alpha1", "align_uniform", {"weight": 0.0, "alpha": 1.0}),
    ("uniform_cross_t2", "align_uniform", {"weight": 1.0, "pairs": "cross"}),
    ("au_cross_alpha2_t2_lam0.5", "align_uniform", {"pairs": "cross"}),
    ("mpt_m0.23", "mpt", {}),
    ("met_m0.45", "met", {}),
    ("mat_m0.15pi", "mat", {}),
    ("mpt_m0.23", "triplet", {"distance": "dot"}),
    ("met_m0.45", "triplet", {}),
    ("mat_m0.15pi", "triplet", {"distance": "angle"}),
    ("arccon_u10deg_tau0.05", "arccon", {}),
    ("paradigm_baseline_mean_anchors(m.3,tau.05,r1)", "paradigm", {}),
    ("barlow_l2_nu0.0051", "barlow", {"normalization": "unit"}),
    ("barlow_bn_nu0.0051(rawinput)", "barlow", {}),
    ("vicreg_official(rawinput)", "vicreg", {}),
    ("vicreg_official(l2)", "vicreg", {"normalization": "unit"}),
    ("dhel_tau0.3_anchor_energy", "dhel", {}),
    ("dhel_tau0.3_both_energies", "dhel", {"energy": "both"}),
    ("kcl_gaussian_t2_gamma16_oneview", "kcl", {}),
    ("kcl_gaussian_t2_gamma16_code", "kcl", {"views": "both"}),
    ("kcl_log_t2_gamma16_oneview", "kcl", {"kernel": "log"}),
    ("kcl_imq_c2_gamma16_oneview", "kcl", {"kernel": "imq"}),
    ("kcl_riesz_s-1_gamma16_oneview", "kcl", {"kernel": "riesz", "s": -1.0}),
    ("mB_sum(r1.5,paper weights)", "mbarlow", {"views": "anchor"}),
    ("mV_sum(r1.5)", "mvicreg", {"views": "anchor"}),
]


@pytest.mark.parametrize(("row", "name", "params"), GOLDEN, ids=[f"{row}-{name}" for row, name, _ in GOLDEN])
def test_golden_values(row: str, name: str, params: dict[str, Any]) -> None:
    z1, z2 = (torch.as_tensor(np.asarray(z), dtype=torch.float64) for z in ref.golden_views())
    value = hs.create_objective(name, **params).double()(z1, z2).item()
    assert value == pytest.approx(ref.GOLDEN[row], abs=1e-9)
