"""What is measured: every registered objective, and the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hypersphere.objectives import list_objectives
from hypersphere.studies.benchmark.cases import as_loss, cases, chosen, find_case, inputs, own_case, source_of, step


def test_every_registered_objective_is_measured() -> None:
    assert {case.name for case in cases()} == set(list_objectives())


def test_every_objective_but_a_users_own_has_a_plain_form() -> None:
    assert [case.label for case in cases() if case.plain is None] == []


def test_a_case_is_chosen_by_its_label_or_by_its_objective() -> None:
    assert [case.label for case in chosen(["dcl both"], cases())] == ["dcl both"]
    assert [case.label for case in chosen(["dcl"], cases())] == ["dcl both", "dcl"]
    assert chosen(None, cases()) == cases()
    with pytest.raises(ValueError, match="no case 'infonec'; did you mean 'infonce'"):
        chosen(["infonec"], cases())


def test_a_users_own_objective_is_a_case_with_the_fingerprint_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("text")
    case = own_case(f"{path}:pull")
    assert case is not None and case.plain is None and source_of(case) is not None
    assert find_case(f"{path}:pull") == case
    before = source_of(case)
    path.write_text("other text")
    assert source_of(case) != before
    assert own_case("infonce") is None and source_of(find_case("infonce")) is None


def test_prototypes_are_as_many_as_fit_into_the_dimension() -> None:
    assert find_case("ntce").create(7).num_classes == 7
    assert find_case("ntce").create(768).num_classes == 100


def test_positives_are_closer_than_chance_and_alike_in_every_process() -> None:
    z1, z2, labels = inputs(500, 16)
    cosines = torch.nn.functional.cosine_similarity(z1, z2)
    assert 0.65 < cosines.mean() < 0.75  # x and x + y with x, y alike: 1/√2
    assert labels.min() >= 0 and labels.max() < 16
    again, *_ = inputs(500, 16)
    assert torch.equal(z1, again)


def test_a_step_leaves_no_gradient_behind() -> None:
    z1, z2, labels = inputs(8, 4)
    for name in ("infonce", "cosent", "xclr"):  # of views, of scores, with a guide
        case = find_case(name)
        step(as_loss(case.create(4)), z1, z2, labels)
        assert z1.grad is None and z2.grad is None
