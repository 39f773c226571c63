"""README and CONTRIBUTING say what is true: their code runs, their table is the registry's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hypersphere.objectives import table

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
    script.write_text(code("README.md")[0], encoding="utf-8")
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert "alignment" in done.stdout


def test_the_readmes_toy_encoder_trains_with_ten_objectives(tmp_path: Path) -> None:
    script = tmp_path / "toy.py"
    script.write_text(code("README.md")[1], encoding="utf-8")
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 10


def test_the_readmes_table_is_the_registrys() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert table.refresh(text) == text, "run: python -m hypersphere.objectives.table README.md"


def test_a_file_without_marks_is_refused_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.md"
    other.write_text("nothing here", encoding="utf-8")
    assert table.main([str(other)]) == 2
    assert "needs the marks" in capsys.readouterr().err
    assert other.read_text(encoding="utf-8") == "nothing here"
