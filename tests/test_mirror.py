"""The tests mirror the source: who changes x/y.py finds its tests in tests/x/test_y.py."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS, SOURCE = ROOT / "tests", ROOT / "src" / "hypersphere"
# Modules without a test file of their own, and why.
UNTESTED: dict[str, str] = {}
# Test files that stand beside no module, and what they test instead.
BESIDE_NO_MODULE = {
    "test_mirror.py": "the tests' own folders",
}
# Folders whose tests are not yet in the files of their modules.
NOT_YET_MIRRORED = (
    "anatomy", "data", "diagnostics", "encoders", "engine", "evaluation", "explorer", "integrations", "objectives",
    "studies/benchmark", "training", ".",
)  # fmt: skip


def mirrored(folder: Path) -> bool:
    """Whether neither the folder nor one above it is still to be mirrored; "." stands for the top folder alone."""
    above = {str(each) for each in (folder, *folder.parents)} - {"."}
    return not (above or {"."}) & set(NOT_YET_MIRRORED)


def modules() -> list[Path]:
    """Every module but those that only make a folder a package or a command."""
    found = (path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
    return sorted(path for path in found if path.name not in ("__init__.py", "__main__.py"))


def test_every_module_has_its_test_file() -> None:
    missing = {
        path.as_posix()
        for path in modules()
        if mirrored(path.parent) and not (TESTS / path.parent / f"test_{path.name}").is_file()
    }
    assert missing == {path for path in UNTESTED if mirrored(Path(path).parent)}


def test_every_test_file_stands_at_a_module_or_a_package() -> None:
    """``x/test_x.py`` and ``test_x.py`` are of the package x as a whole."""
    strangers = set()
    for path in (each.relative_to(TESTS) for each in TESTS.rglob("test_*.py")):
        name = path.stem.removeprefix("test_")
        module, package = SOURCE / path.parent / f"{name}.py", SOURCE / path.parent / name
        if mirrored(path.parent) and not (
            module.is_file() or (package / "__init__.py").is_file() or (path.parent.name == name)
        ):
            strangers.add(path.as_posix())
    assert strangers == {path for path in BESIDE_NO_MODULE if mirrored(Path(path).parent)}
