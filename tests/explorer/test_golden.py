"""Golden vectors of Python's closed forms and objectives, and the page's formulas in the browser against them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hypersphere.anatomy import closed_form, list_closed_forms
from hypersphere.explorer.golden import MOVING, golden, gradient_norm, spread_angles
from hypersphere.objectives import create_objective

TOLERANCE = 1e-6
# Largest error by formula; relative where a value is above 1. An absent number (NaN in Python) must not be finite.
COMPARE = """
async (golden) => {
  const page = { ...(await import("./formulas.js")), ...(await import("./losses.js")) }, worst = {};
  const note = (key, given, right) => {
    let error = right === null ? (Number.isFinite(given) ? NaN : 0) : Math.abs(given - right);
    error /= Math.max(1, Math.abs(right ?? 1));
    worst[key] = Math.max(worst[key] ?? 0, Number.isNaN(error) ? 1e9 : error);
  };
  for (const { name, settings, cells } of golden.maps) for (const at of cells) {
    const column = page.column(name, at.negative, settings), cell = page.cell(name, at.positive, column, settings);
    for (const key of ["dissipation", "ratio", "norm"]) note(`form ${name}`, cell[key], at[key]);
    for (const key of ["hardestShare", "total"]) note(`form ${name}`, column[key], at[key]);
    const angles = page.spreadAngles(at.mean, at.spread, at.negative.length);
    angles.forEach((angle, k) => note("spread", angle, at.negative[k]));
  }
  for (const at of golden.points) {
    const views = [at.x, at.y].map((view) => Float64Array.from(view));
    const graded = page.evaluate(at.name, ...views, at.settings, at.anchors ?? null);
    const key = `loss ${at.name}${at.anchors ? " under cloa" : ""}`;
    note(key, graded.value, at.value);
    for (const side of ["gx", "gy"]) at[side].forEach((value, k) => note(key, graded[side][k], value));
  }
  for (const at of golden.numbers) {
    const numbers = page.measure(at.x, at.y);
    for (const key of ["energy", "alignment", "uniformity", "rank"]) note(`number ${key}`, numbers[key], at[key]);
  }
  return { worst, forms: Object.keys(page.FORMS).sort(), losses: Object.keys(page.LOSSES).sort() };
}
"""


@pytest.fixture(scope="module")
def compared(browser: Any, site: str) -> Any:
    page = browser.new_page()
    page.goto(f"{site}index.html")
    answer = page.evaluate(COMPARE, golden())
    page.close()
    return answer


def test_every_formula_of_the_page_agrees_with_python(compared: Any) -> None:
    wrong = {name: error for name, error in compared["worst"].items() if not error < TOLERANCE}
    assert wrong == {}


def test_the_page_has_a_formula_for_every_closed_form_and_each_was_compared(compared: Any) -> None:
    assert compared["forms"] == list_closed_forms()
    assert compared["losses"] == sorted(MOVING)
    keys = {f"form {name}" for name in list_closed_forms()}
    keys |= {f"loss {name}{more}" for name in MOVING for more in ("", " under cloa")}
    keys |= {"spread", *(f"number {each}" for each in ("energy", "alignment", "uniformity", "rank"))}
    assert set(compared["worst"]) == keys


@pytest.mark.parametrize("name", ["infonce", "arccon", "dcl", "mpt", "met", "mat"])
def test_the_gradient_norm_is_that_of_vectors_in_orthogonal_directions(name: str) -> None:
    positive, negative = torch.tensor([0.7], dtype=torch.float64), spread_angles(0.9, 0.2, 5).unsqueeze(0)
    norm = gradient_norm(closed_form(name)(positive, negative), positive, negative)

    angles = torch.cat([positive, negative[0]])
    keys = torch.cat([angles.cos().unsqueeze(1), torch.diag(angles.sin())], dim=1)  # (6, 7), at these angles from e_0
    anchor = torch.zeros(1, 7, dtype=torch.float64)
    anchor[0, 0] = 1.0
    anchor.requires_grad_()
    loss = create_objective(name)(anchor, keys[:1], negatives=keys[1:], in_batch=False)
    (gradient,) = torch.autograd.grad(loss, anchor)
    assert gradient.norm().item() == pytest.approx(norm.item(), rel=1e-9)
    assert norm.item() > 0.1
