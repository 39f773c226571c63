"""Nothing outside a given folder is found, by whatever path."""

from pathlib import Path

import pytest

from hypersphere.explorer import folders
from hypersphere.explorer.folders import DEEPEST, NotHereError, find_folders, inside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with links to itself, to its own content, and to a secret beside it."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "recipe.yaml").touch()
    root = tmp_path / "given"
    (root / "run" / "inner").mkdir(parents=True)
    for folder in (root / "run", root / "run" / "inner"):
        (folder / "recipe.yaml").touch()
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "within").symlink_to(root / "run")
    (root / "loop").symlink_to(root / "loop")
    (root / ".hidden").mkdir()
    (root / ".hidden" / "recipe.yaml").touch()
    return root


def test_a_path_inside_is_found_and_the_root_itself(root: Path) -> None:
    assert inside(root, "run/recipe.yaml") == (root / "run" / "recipe.yaml").resolve()
    assert inside(root, "") == root.resolve()
    assert inside(root, "within/recipe.yaml") == (root / "run" / "recipe.yaml").resolve()  # a link that stays inside


@pytest.mark.parametrize(
    "path",
    ["..", "../secret", "run/../../secret", "out", "out/recipe.yaml", "loop", "/etc/passwd", "run//recipe.yaml", "run/",
     "..\\secret", "run\0", "none", "a" * 5000],
)  # fmt: skip
def test_a_path_outside_is_refused_and_so_is_one_that_does_not_exist(root: Path, path: str) -> None:
    with pytest.raises(NotHereError, match=r"^there is nothing of that name here$"):  # for both alike
        inside(root, path)


def test_a_root_that_is_a_link_may_be_given(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert inside(tmp_path / "link", "run").name == "run"


def test_folders_are_found_by_a_file_in_them_and_not_searched_further(root: Path) -> None:
    assert [name for name, _ in find_folders(root, ("recipe.yaml",))] == ["run"]  # no links, nothing hidden
    assert [name for name, _ in find_folders(root / "run", ("recipe.yaml",))] == [""]


def test_a_search_ends_at_its_depth_and_at_its_number(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for depth in (DEEPEST, DEEPEST + 1):
        place = root.joinpath(*(f"d{depth}" for _ in range(depth)))
        place.mkdir(parents=True)
        (place / "study.json").touch()
    assert [name.count("/") for name, _ in find_folders(root, ("study.json",))] == [DEEPEST - 1]
    monkeypatch.setattr(folders, "MOST_FOLDERS", 2)
    assert list(find_folders(root, ("study.json",))) == []
