"""The forms the engine is measured against compute the same thing, and the limit counts what is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from hypersphere.objectives import create_objective, list_objectives
from hypersphere.studies.benchmark import by_hand, engine, plain
from hypersphere.studies.benchmark.cases import CLASSES, NAMED, Case, cases, inputs
from hypersphere.studies.benchmark.engine import main
from hypersphere.studies.benchmark.limits import Work, blocked, elementwise, whole, work
from hypersphere.studies.benchmark.parts import Parts

LABELS = {case.label: case for case in NAMED}


FORMULA = Case("infonce as formula", "infonce", plain=lambda o, a, b, y: plain.infonce_as_formula(a, b))


@pytest.mark.parametrize("case", [*(case for case in NAMED if case.plain), FORMULA], ids=lambda case: case.label)
def test_plain_form_has_the_value_and_the_gradient_of_the_objective(case: Case) -> None:
    objective = case.create(dim=5).double()
    z1, z2, _ = (each.detach().double() for each in inputs(9, 5))
    labels = torch.arange(9) % 3
    found = []
    for loss in (objective, lambda a, b, y: case.plain(objective, a, b, y)):  # type: ignore[misc]
        a, b = z1.clone().requires_grad_(), z2.clone().requires_grad_()
        value = loss(a, b, labels)
        found.append([value.detach(), *torch.autograd.grad(value, [a, b, *objective.parameters()])])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, check_dtype=False)


@pytest.mark.parametrize(("size", "rows"), [(9, 2048), (200, 64), (3, 2)])
def test_the_form_by_hand_has_the_value_and_the_gradient_of_the_objective(
    size: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_hand, "BLOCK_ROWS", rows)
    objective = create_objective("infonce")
    z1, z2, _ = inputs(size, 5)
    form = by_hand.InfoNCEByHand(size)
    value = objective(z1, z2)
    expected = [value.detach(), *torch.autograd.grad(value, [z1, z2])]
    for _ in range(2):  # its memory is not fresh any more
        torch.testing.assert_close(list(form(z1, z2)), expected, rtol=1e-5, atol=1e-6)


def test_every_registered_objective_is_measured() -> None:
    assert {case.name for case in cases()} >= set(list_objectives())


@pytest.mark.parametrize(
    ("label", "needed"),
    [
        ("infonce", Work(1, 1, 1, 1)),
        ("infonce symmetric", Work(2, 2, 2, 2)),
        ("ntxent", Work(4, 4, 4, 4)),  # two turns, each against both views
        ("kcl", Work(1, 1, 1, 1)),
        ("align_uniform", Work(4, 2, 2, 2)),  # coupled: every similarity twice
        ("dclw", Work(4, 4, 4, 4)),  # coupled through the positives alone
        ("mmhe", Work(6, 2, 0, 4)),  # per turn: energies twice and moving the anchors, gates once
        ("mbarlow", Work(8, 2, 0, 4)),  # here the cross matrix weighs as well, so it is needed twice
        ("cloa", Work(1, 1, 1, 1)),
    ],
)
def test_the_limit_counts_the_products_that_are_needed(label: str, needed: Work) -> None:
    assert work(LABELS[label].create(dim=CLASSES), CLASSES) == needed


def test_an_objective_inside_another_is_counted_once() -> None:
    assert work(create_objective("mixup"), 4) == Work(1, 1, 1, 1)


def test_counting_leaves_the_objective_as_it_was() -> None:
    objective = create_objective("infonce")
    before = vars(objective).keys()
    work(objective, 4)
    assert vars(objective).keys() == before


def test_the_bare_products_run_at_sizes_that_are_no_multiple_of_a_block() -> None:
    for make in (blocked, whole):
        make(Work(2, 1, 1, 1), 700, 4)()
    elementwise("softplus", 1, 1500)()


def test_the_benchmark_writes_its_numbers_and_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "engine.json"
    assert main(["--only", "kcl log", "--size", "32", "--dim", "4", "--repeats", "1", "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text())["objectives"]
    assert row["label"] == "kcl log"
    assert row["bytes"].keys() == {"ours", "plain"}
    assert "kcl log" in path.with_suffix(".md").read_text()
    assert "kcl log" in capsys.readouterr().out


SMALL = ["--only", "met", "--only", "mpt", "--size", "32", "--dim", "4", "--repeats", "1", "--json"]


def test_what_was_interrupted_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "engine.json"
    measured: list[str] = []
    whole_row = engine.objective_result

    def until_the_second(case: Case, size: int, dim: int, repeats: int) -> engine.Result:
        measured.append(case.label)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return whole_row(case, size, dim, repeats)

    monkeypatch.setattr(engine, "objective_result", until_the_second)
    assert main([*SMALL, str(path)]) == 130
    assert f"the same command continues with what is in {tmp_path / 'engine.part.json'}" in capsys.readouterr().err
    assert not path.exists()
    before = (tmp_path / "engine.part.json").read_bytes()
    with pytest.raises(SystemExit) as stopped:  # other settings: nothing is lost, nothing is mixed
        main([*SMALL, str(path), "--dim", "5"])
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert "measured with dim 4, not 5" in said
    assert said.count("\n") == 1
    assert (tmp_path / "engine.part.json").read_bytes() == before
    assert main([*SMALL, str(path)]) == 0
    assert measured == [measured[0], measured[1], measured[1]]  # the first is not measured again
    rows = json.loads(path.read_text())["objectives"]
    assert {row["label"] for row in rows} == {"met", "mpt"}
    assert rows[0] == next(iter(json.loads(before)["parts"].values()))
    assert set(tmp_path.iterdir()) == {path, path.with_suffix(".md")}


@pytest.mark.parametrize("content", ["", "[]", '{"settings": {}}', '{"settings": {}, "parts": [1]}'])
def test_a_file_that_holds_no_parts_is_refused(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "engine.part.json").write_text(content)
    with pytest.raises(SystemExit) as stopped:
        main([*SMALL, str(tmp_path / "engine.json")])
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert "does not hold parts of a measurement" in said
    assert said.count("\n") == 1
    assert (tmp_path / "engine.part.json").read_text() == content


def test_a_place_for_no_file_is_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for path, why in ((tmp_path, "is a folder"), (tmp_path / "file" / "engine.json", "cannot be a folder")):
        with pytest.raises(SystemExit) as stopped:
            main([*SMALL, str(path)])
        said = capsys.readouterr().err
        assert stopped.value.code == 2
        assert why in said
        assert said.count("\n") == 1


def test_how_long_the_rest_may_take_is_said_after_the_first_part() -> None:
    said: list[str] = []
    parts = Parts(None, {})
    parts.found = {"a_b": {}}
    parts.measure({"a_b": dict, "c_d": dict, "e": dict}, said.append)
    assert said == ["2/3 c d", "3/3 e; about 0 s left"]


def test_an_unknown_objective_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--only", "infonec"])
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert "did you mean 'infonce'?" in said
    assert said.count("\n") == 1
