"""Objectives in files of somebody's own: found by ``mine.py:name``, executed once, mistakes in one sentence."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

import hypersphere as hs
from hypersphere.objectives import files
from hypersphere.objectives.registry import import_file, with_file

Z1, Z2 = (torch.randn(6, 4, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))


def hardest_gaps() -> list[float]:
    """Hardest negative minus positive, by a loop over pairs."""
    x, y = normalize(Z1).tolist(), normalize(Z2).tolist()
    dot = [[sum(a * b for a, b in zip(row, column, strict=True)) for column in y] for row in x]
    return [max(dot[i][j] for j in range(6) if j != i) - dot[i][i] for i in range(6)]


def test_a_registered_name_a_class_a_function_and_a_torch_module_are_objectives(mine: Path) -> None:
    gaps = hardest_gaps()
    squared = sum(max(0.0, 0.5 + gap) ** 2 for gap in gaps) / 6
    for name in ("mine.py:squared_triplet", "mine.py:SquaredTriplet", f"{mine}:squared_triplet"):
        assert hs.create_objective(name, margin=0.5)(Z1, Z2).item() == pytest.approx(squared, rel=1e-5)
    assert hs.create_objective("mine.py:Plain")(Z1, Z2).item() == pytest.approx(sum(gaps) / 6, rel=1e-5)
    pull = (Z1 - Z2).square().sum() / 6 + 0.3 * sum((a @ b).exp() for a in Z1 for b in Z2) / 36
    assert hs.create_objective("mine.py:pull", weight=0.3)(Z1, Z2).item() == pytest.approx(pull.item(), rel=1e-5)
    logs = torch.stack([(3 * Z1[i] @ Z2[i]) - torch.logsumexp(3 * Z2 @ Z1[i], 0) for i in range(6)])
    scaled = hs.create_objective("mine.py:Scaled", scale=3.0)
    assert scaled(Z1, Z2).item() == pytest.approx(-logs.mean().item(), rel=1e-5)
    assert [parameter.item() for parameter in scaled.parameters()] == [3.0]


def test_a_class_that_is_not_registered_goes_by_its_own_name(mine: Path) -> None:
    mine.write_text(
        "from hypersphere.objectives import InfoNCE\nclass Mine(InfoNCE):\n    '''Derived.'''\n", encoding="utf-8"
    )
    assert hs.create_objective("mine.py:Mine").name == "Mine"  # not infonce, whose closed form may not be its own
    assert hs.create_objective("infonce").name == "infonce"


def test_a_base_may_be_ones_own(mine: Path) -> None:
    given = {"name": "mine.py:squared_triplet", "margin": 0.5}
    alone = hs.create_objective("mine.py:squared_triplet", margin=0.5)
    cloa = hs.create_objective("cloa", base=given, num_classes=2, dim=4)
    assert torch.equal(cloa(Z1, Z2), alone(Z1, Z2))
    assert hs.create_objective("cloa", base="mine.py:pull", num_classes=2, dim=4)(Z1, Z2).isfinite()
    with pytest.raises(ValueError, match="pull is a plain function: its negatives are not known"):
        hs.create_objective("mixup", base="mine.py:pull")(Z1, Z2)


def test_a_file_is_executed_once_however_it_is_named(mine: Path) -> None:
    counting = "from pathlib import Path\nPath(f'count{len(list(Path().glob(\"count*\")))}').touch()\n"
    mine.write_text(counting + mine.read_text())
    import_file("mine.py")
    first = hs.create_objective("mine.py:Plain")
    assert type(hs.create_objective(f"{mine.parent}/../{mine.parent.name}/mine.py:Plain")) is type(first)
    assert [path.name for path in mine.parent.glob("count*")] == ["count0"]


def test_import_gives_the_names_that_the_file_registers(mine: Path) -> None:
    assert "squared_triplet" not in hs.list_objectives()
    assert import_file(mine) == ["squared_triplet"]
    assert "squared_triplet" in hs.list_objectives()
    assert with_file("squared_triplet") == f"{mine}:squared_triplet" == with_file("mine.py:squared_triplet")
    assert with_file("infonce") == "infonce"


def test_modules_beside_the_file_are_found_and_what_they_register_counts(mine: Path) -> None:
    Path("beside_mine.py").write_text(mine.read_text().replace("squared_triplet", "beside"))
    mine.write_text("from beside_mine import *\n")
    assert import_file(mine) == ["beside"]
    assert hs.create_objective("mine.py:beside").name == "beside"
    assert with_file("beside") == f"{mine}:beside"


def test_two_files_of_the_same_name_are_two_modules(mine: Path) -> None:
    other = mine.parent / "other" / "mine.py"
    other.parent.mkdir()
    other.write_text("def pull(z1, z2):\n    return (z1 - z2).abs().mean()\n")
    values = [hs.create_objective(f"{path}:pull")(Z1, Z2).item() for path in (mine, other)]
    assert values[1] == pytest.approx((Z1 - Z2).abs().mean().item()) != values[0]


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [
        ("import torch\ndef f(:\n", "f", r"^mine.py, line 2: SyntaxError: invalid syntax$"),
        ("\n\n1 / 0\n", "f", r"^mine.py, line 3: ZeroDivisionError: division by zero$"),
        ("import nowhere_at_all\n", "f", r"^mine.py, line 1: ModuleNotFoundError: No module named 'nowhere_at_all'$"),
        ("import sys\nsys.exit(3)\n", "f", r"^mine.py, line 2: SystemExit: the file ends the program; put that under"),
        ("import hypersphere as hs\n@hs.register('met')\nclass M(hs.PairwiseObjective): ...\n", "met",
         r"^mine.py, line 2: ValueError: an objective named 'met' is registered already"),
        ("def first(z1, z2): ...\n", "frist", r"'frist' in mine.py; did you mean 'first'\? \(it has first\)$"),
        ("", "f", r"^there is no objective 'f' in mine.py \(it defines none\)$"),
        ("f = 3\n", "f", r"^in mine.py 'f' is a int, not an objective or a function of two views$"),
        ("import torch\nf = torch.nn.ReLU()\n", "f", r"^in mine.py 'f' is a ReLU, not"),
        ("class f: ...\n", "f", r"^in mine.py 'f' is a class of something else, not"),
        ("def f(z): ...\n", "f", r"^f must take two views to be an objective, as in def f\(z1, z2\)$"),
        ("def f(z1, z2, labels): ...\n", "f", r"^f takes labels, which a plain function does not get"),
        ("def f(z1, z2, forward=1): ...\n", "f", r"argument 'forward' has a name that every objective uses"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_one_sentence(mine: Path, text: str, name: str, sentence: str) -> None:
    mine.write_text(text)
    before = hs.list_objectives()
    with pytest.raises(ValueError, match=sentence) as caught:
        hs.create_objective(f"mine.py:{name}")
    assert "\n" not in str(caught.value)
    assert hs.list_objectives() == before
    assert hs.create_objective("met").margin == 0.45  # type: ignore[attr-defined]


def test_a_file_that_is_not_there_or_cannot_be_read_is_named(mine: Path) -> None:
    with pytest.raises(ValueError, match=r"^there is no file nowhere.py$"):
        hs.create_objective("nowhere.py:f")
    Path("folder.py").mkdir()
    with pytest.raises(ValueError, match=r"^folder.py cannot be read \(Is a directory\)$"):
        hs.create_objective("folder.py:f")


def test_a_file_that_fails_half_way_registers_nothing_and_may_be_mended(mine: Path) -> None:
    whole = mine.read_text()
    mine.write_text(whole + "\nundefined\n")
    with pytest.raises(ValueError, match="NameError"):
        import_file(mine)
    assert "squared_triplet" not in hs.list_objectives()
    mine.write_text(whole)
    assert import_file(mine) == ["squared_triplet"]


def test_what_a_file_prints_does_not_stand_between_results(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine.write_text("print('hello')\n")
    import_file(mine)
    assert capsys.readouterr() == ("", "hello\n")


def test_an_error_is_blamed_on_its_line(mine: Path) -> None:
    mine.write_text("def f(z1, z2):\n    return z1 @ z2\n")
    with pytest.raises(RuntimeError) as caught:
        hs.create_objective("mine.py:f")(Z1, Z2)
    assert str(files.blame(caught.value)).startswith(f"{mine}, line 2: RuntimeError: mat1 and mat2")
    with pytest.raises(ValueError, match="shape") as elsewhere:
        hs.create_objective("infonce")(Z1, Z2[:3])
    assert files.blame(elsewhere.value) is None


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
@pytest.mark.parametrize("name", ["squared_triplet", "pull", "Scaled"])
def test_copies_compute_the_same(mine: Path, name: str, copied: Any) -> None:
    objective = hs.create_objective(f"mine.py:{name}")
    assert torch.equal(copied(objective)(Z1, Z2), objective(Z1, Z2))


@pytest.mark.parametrize("name", ["squared_triplet", "pull", "Scaled"])
def test_on_two_processes_the_gradient_is_that_of_one(mine: Path, name: str) -> None:
    hs.testing.assert_distributed_exact(hs.create_objective(f"mine.py:{name}"), world_size=2)


def test_names_are_read_and_changed_without_executing_anything(mine: Path) -> None:
    mine.write_text("raise SystemExit\n")
    given: dict[str, Any] = {"name": "cloa", "base": {"name": "mine.py:pull", "weight": 0.2}, "dim": 4}
    assert files.names_in(given) == ["mine.py:pull"] == files.names_in("mine.py:pull")
    located = files.map_names(given, files.absolute)
    assert located == {"name": "cloa", "base": {"name": f"{mine}:pull", "weight": 0.2}, "dim": 4}
    assert list(files.fingerprints(located)) == [str(mine)]
    added = {"name": "plus", "base": given, "extra": "mine.py:Scaled"}
    assert files.names_in(added) == ["mine.py:pull", "mine.py:Scaled"]
    assert files.map_names(added, files.absolute)["extra"] == f"{mine}:Scaled"


def test_only_an_ordinary_python_file_is_opened(tmp_path: Path) -> None:
    """A device never ends, and a FIFO waits for somebody who writes."""
    os.mkfifo(tmp_path / "pipe.py")
    for path, words in [("/dev/zero", "does not end in .py"), (tmp_path / "mine.txt", "does not end in .py"),
                        (tmp_path / "pipe.py", "is not an ordinary file")]:  # fmt: skip
        with pytest.raises(files.FileError, match=words):
            import_file(path)
