"""README and CONTRIBUTING say what is true: their code runs, their table is the registry's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import hypersphere as hs
from hypersphere.objectives import table
from hypersphere.studies.benchmark import overview
from hypersphere.training import keys

ROOT = Path(__file__).parents[1]


def code(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)


def run(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100, check=False)


def test_the_smallest_objective_of_contributing_runs_as_printed(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(code("CONTRIBUTING.md")[0], encoding="utf-8")
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "SquaredTriplet(margin=0.5) is ready\n"


def test_the_ten_lines_of_the_readme_run_as_printed(tmp_path: Path) -> None:
    script = tmp_path / "ten.py"
    script.write_text(code("README.md")[1], encoding="utf-8")
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert "alignment" in done.stdout


def test_the_readmes_toy_encoder_trains_with_ten_objectives(tmp_path: Path) -> None:
    script = tmp_path / "toy.py"
    script.write_text(code("README.md")[2], encoding="utf-8")
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 10


def test_the_readmes_loss_of_ones_own_is_contributings() -> None:
    assert code("README.md")[0] in code("CONTRIBUTING.md")[0]


def test_the_readmes_table_is_the_registrys() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert table.refresh(text) == text, "run: python -m hypersphere.objectives.table README.md"


def test_the_readmes_speed_is_the_benchmarks() -> None:
    folder = ROOT / "benchmarks" / "results" / "objectives"
    about = json.loads((folder / "benchmark.json").read_text(encoding="utf-8"))
    (text,) = overview.overview(about["cells"], about)
    for document in (ROOT / "README.md", folder / "benchmark.md"):
        assert text in document.read_text(encoding="utf-8"), "run: " + (overview.__doc__ or "").splitlines()[2].strip()


def test_every_line_to_install_an_extra_names_this_distribution() -> None:
    """`hypersphere` by itself is somebody else's package on PyPI."""
    project = pytest.importorskip("tomllib").loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sources = [*(ROOT / "src").rglob("*.py"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "pyproject.toml"]
    named = [
        wanted
        for source in sources
        for wanted in re.findall(r"(hypersphere[\w-]*)\[([a-z,]+)\]['\"]", source.read_text(encoding="utf-8"))
    ]
    assert len(named) > 10
    for distribution, extras in named:
        assert distribution == project["name"]
        assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_the_page_of_recipe_keys_is_the_recipes() -> None:
    text = (ROOT / "docs" / "recipe-keys.md").read_text(encoding="utf-8")
    assert keys.page() == text, "run: python -m hypersphere.training.keys docs/recipe-keys.md"


def test_a_file_without_marks_is_refused_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.md"
    other.write_text("nothing here", encoding="utf-8")
    assert table.main([str(other)]) == 2
    assert "needs the marks" in capsys.readouterr().err
    assert other.read_text(encoding="utf-8") == "nothing here"


def test_the_version_is_written_in_one_place() -> None:
    """pyproject reads it from the package; a citation has none of its own; the changelog's newest release is it."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in project
    assert re.search(r'\[tool\.hatch\.version\]\npath = "src/hypersphere/__init__\.py"', project)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert "version" not in citation
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    released = [heading.strip("[]").split("]")[0].split()[0] for heading in headings if heading != "Unreleased"]
    assert released[:1] in ([], [hs.__version__])
