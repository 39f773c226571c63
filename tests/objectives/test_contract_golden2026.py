"""Values and gradients of masks, several views and the objectives of 2024 to 2026, from the golden file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs

GOLDEN = json.loads((Path(__file__).parents[1] / "golden2026.json").read_text())
WORDS = {  # the golden file's word for a setting, and ours
    ("mv_infonce", "released"): {"denominator": "all"},
    ("mv_infonce", "printed"): {"denominator": "other"},
    ("mv_dhel", "released"): {"pairs": "unordered"},
    ("mv_dhel", "printed"): {"pairs": "ordered"},
    ("gor", "paper"): {"hinge": True},
    ("gor", "gemma"): {"hinge": False},
}
TWO_VIEWS_ONLY = ("kcl", "mhe")  # the file's energy of these is that of the anchors' view


def inputs() -> dict[str, Tensor]:
    whole = ("ids", "ids_negatives", "labels")
    given = {name: torch.tensor(rows) for name, rows in GOLDEN["inputs"].items() if name in whole}
    rows = {
        name: torch.tensor(rows, dtype=torch.float64) for name, rows in GOLDEN["inputs"].items() if name not in whole
    }
    return {**given, **rows}


def objective_of(name: str, params: dict[str, Any]) -> torch.nn.Module:
    settings = {k: v for k, v in params.items() if k not in ("ids", "guide", "negatives_given", "num_views", "variant")}
    settings |= WORDS.get((name, params.get("variant", "")), {})
    if name in TWO_VIEWS_ONLY:
        settings["views"] = "anchor"
    if name in ("ntce", "nonl"):
        settings |= {"num_classes": 3, "dim": GOLDEN["dim"]}
    objective = hs.create_objective(name, **settings)
    if params.get("guide"):
        objective = hs.create_objective("guided", base=objective, **params["guide"])
    return objective


def arguments(name: str, params: dict[str, Any], given: dict[str, Tensor]) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if params.get("negatives_given"):
        extra["negatives"] = given["negatives"]
    if params.get("ids"):
        extra["ids"] = given["ids"]
        if params.get("negatives_given"):
            extra["ids_negatives"] = given["ids_negatives"]
    if params.get("guide", {}).get("source") == "given" or name == "xclr":
        extra["guide"] = given["guide1"] if name == "xclr" else (given["guide1"], given["guide2"])
        if params.get("negatives_given"):
            extra["guide_negatives"] = given["guide_negatives"]
    if params.get("num_views", 2) == 3:
        extra["views"] = (given["z3"],)
    if name == "cosent":
        extra["scores"] = given["scores"]
    if name in ("ntce", "nonl"):
        extra["labels"] = given["labels"]
    return extra


def cases() -> list[Any]:
    def label(case: dict[str, Any]) -> str:
        return case["name"] + "-" + ",".join(f"{k}={v}" for k, v in case["params"].items())

    names = set(hs.list_objectives())
    ready = [
        case for case in GOLDEN["cases"] if {case["name"], *(["guided"] if "guide" in case["params"] else [])} <= names
    ]
    return [pytest.param(case, id=label(case)) for case in ready]


@pytest.mark.parametrize("block", [None, 2], ids=["dense", "streamed"])
@pytest.mark.parametrize("case", cases())
def test_value_and_gradient(case: dict[str, Any], block: int | None) -> None:
    name, params = case["name"], case["params"]
    given = inputs()
    moving = [each for each in case["gradients"] if each != "prototypes"]
    for each in moving:
        given[each].requires_grad_()
    torch.set_default_dtype(torch.float64)  # of parameters
    try:
        objective = objective_of(name, params)
    finally:
        torch.set_default_dtype(torch.float32)
    if hasattr(objective, "directions"):
        objective.directions = lambda dim: given["directions"]  # type: ignore[assignment]
    leaves = [given[each] for each in moving]
    if "prototypes" in case["gradients"]:
        with torch.no_grad():
            objective.prototypes.copy_(given["prototypes"])  # type: ignore[operator, union-attr]
        leaves.append(objective.prototypes)  # type: ignore[arg-type]
        moving.append("prototypes")
    if block is None:
        loss = objective(given["z1"], given["z2"], **arguments(name, params, given))
    else:
        with hs.streaming(block):
            loss = objective(given["z1"], given["z2"], **arguments(name, params, given))
    torch.testing.assert_close(loss.item(), case["value"], rtol=1e-9, atol=1e-9)
    grads = torch.autograd.grad(loss, leaves, materialize_grads=True) if loss.requires_grad else None
    for number, each in enumerate(moving):
        expected = torch.tensor(case["gradients"][each], dtype=torch.float64)
        grad = torch.zeros_like(expected) if grads is None else grads[number]
        torch.testing.assert_close(grad, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "case", [c for c in GOLDEN["cases"] if c["name"] == "clop"], ids=lambda c: c["params"]["distance"]
)
def test_the_pull_of_clop_is_that_of_cloa(case: dict[str, Any]) -> None:
    given = inputs()
    z1, z2 = given["z1"].requires_grad_(), given["z2"].requires_grad_()
    objective = hs.create_objective("cloa", num_classes=3, dim=GOLDEN["dim"], **case["params"]).double()
    objective.anchors.copy_(given["orthonormal"])  # type: ignore[operator, union-attr]
    for rows in (2, 6):
        with hs.streaming(rows):
            pull = objective.terms(z1, z2, given["labels"])["anchors"]  # type: ignore[operator]
        torch.testing.assert_close(pull.item(), case["value"], rtol=1e-9, atol=1e-9)
        for grad, name in zip(torch.autograd.grad(pull, [z1, z2]), ("z1", "z2"), strict=True):
            expected = torch.tensor(case["gradients"][name], dtype=torch.float64)
            torch.testing.assert_close(grad, expected, rtol=1e-8, atol=1e-8)
