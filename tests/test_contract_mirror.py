"""Whoever changes a module finds its tests in the file of its name, and every test file tells what it is about."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "hypersphere"


def names(folder: Path, pattern: str) -> list[Path]:
    paths = (path.relative_to(folder) for path in sorted(folder.rglob(pattern)))
    return [path for path in paths if not path.name.startswith("__")]


def test_every_module_has_a_test_file_of_its_name() -> None:
    modules = names(SOURCE, "*.py")
    assert len(modules) > 100
    assert [each for each in modules if not (TESTS / each.parent / f"test_{each.name}").is_file()] == []


def of_a_module(file: Path) -> bool:
    """Whether its name is a module's, or begins with it, or is that of a package."""
    words = file.stem.split("_")[1:]
    beginnings = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    return (
        any((SOURCE / file.parent / f"{beginning}.py").is_file() for beginning in beginnings)
        or file.parent.name == beginnings[-1]
        or (SOURCE / file.parent / beginnings[-1] / "__init__.py").is_file()
    )


def test_every_test_file_is_of_a_module_or_an_aspect_of_it_or_holds_a_contract() -> None:
    files = [each for each in names(TESTS, "test_*.py") if not each.name.startswith("test_contract_")]
    assert [each for each in files if not of_a_module(each)] == []
