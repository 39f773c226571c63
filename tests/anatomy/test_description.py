"""What is said of an objective: its docstring in parts, its settings, its gradient, its components."""

from __future__ import annotations

import pytest

from hypersphere.anatomy.description import Parameter, describe, sections


def test_a_docstring_is_taken_apart_at_its_headings_and_folded_lines_are_joined() -> None:
    long = "L = " + "x + " * 24
    doc = f"""Name.

{long}
    y, a line that goes on.
z = ``1``.

Source: Euler 1748,
chapter 5.
Use it often,
or never.
Relations: none.

>>> 1 + 1
2
"""
    parts = sections(doc)
    assert parts["formula"] == f"{long}     y, a line that goes on.\nz = 1."
    assert parts["source"] == "Euler 1748, chapter 5." and parts["use"] == "Use it often, or never."
    assert parts["relations"] == "none."
    assert sections("Squared hinge.") == {"formula": "", "source": "", "use": "", "relations": ""}


def test_own_settings_come_first_with_what_they_allow() -> None:
    margin, reduction, gather = describe("met").parameters  # without "learnable": there is nothing to learn
    assert margin == Parameter("margin", 0.45, False, "a number at least 0", False, False, "0.05 to 1.2, logarithmic")
    assert (reduction.name, reduction.allowed, reduction.common) == ("reduction", "'mean' or 'sum' or 'none'", True)
    assert gather.common and gather.tuned is None
    cloa = {each.name: each for each in describe("cloa").parameters}
    assert cloa["num_classes"].required and cloa["num_classes"].default is None
    assert cloa["reduction"].allowed == "'mean' or 'sum'" and cloa["base"].allowed == "see the formula"
    siglip = {each.name: each for each in describe("siglip").parameters}
    assert siglip["bias"].learnable and not siglip["learnable"].learnable and siglip["learnable"].default is True


def test_the_gradient_is_that_of_the_closed_form_or_is_measured() -> None:
    assert describe("infonce").gradient == "GD = 1 - p_ii, W = softmax/τ, R = 1."
    for name, reason in (("siglip", "for 'siglip'."), ("vicreg", "'vicreg_surrogate'.")):
        said = describe(name).gradient
        assert said.startswith("There is no closed form for ") and f"{reason} On a batch" in said
        assert said.endswith(f"they are measured: hypersphere dissect {name}.") and "(there are" not in said


def test_components_are_told_with_their_parameters() -> None:
    told = describe("paradigm").components
    assert set(told) == {"dissipation", "weight", "ratio"}
    margin = told["dissipation"]["margin"]
    assert margin == {"does": "1[s_ii - max_j s_ij < m] (MPT, the baseline).", "parameters": {"margin": 0.3}}
    allowed = {each.name: each.allowed for each in describe("paradigm").parameters}
    assert allowed["ratio"] == "constant, euclidean, angle, arccon, or a callable"
    assert describe("met").components == {}


def test_presets_are_those_of_the_objective() -> None:
    assert describe("infonce").presets["open_clip"] == {"symmetric": True, "learnable": True, "temperature": 0.07}
    assert "gist" in describe("guided").presets and "gist" not in describe("infonce").presets


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="no objective 'mett'; did you mean 'met'"):
        describe("mett")
