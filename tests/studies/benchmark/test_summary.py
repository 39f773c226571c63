"""What a reader is told: measured cells, estimates marked as such, and the overview for the README."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from hypersphere.studies.benchmark import summary as at_a_glance
from hypersphere.studies.benchmark.cells import FAILED, OVER_MEMORY, OVER_TIME, Cell, Cells
from hypersphere.studies.benchmark.summary import Summary

ABOUT = {"dim": 128, "machine": {"processor": "abacus", "threads": 2, "torch": "3", "dtype": "float32"}}


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    cells = Cells(tmp_path, {})
    for name, factor in (("infonce", 1.0), ("met", 0.5)):
        cells.keep(Cell(name, "hypersphere", 1024, {"a": 0.1 * factor}, 10**6))
        cells.keep(Cell(name, "limit", 1024, {"a": 0.05}))
        cells.keep(Cell(name, "plain", 1024, {"a": 0.2}, 4 * 10**6))
    cells.keep(Cell("infonce", "sentence-transformers", 1024, {"a": 0.25}, 4 * 10**6, version="6"))
    cells.keep(Cell("infonce", "hypersphere", 65536, {"b": 23.0}, 4 * 10**8))
    over = {"status": OVER_MEMORY, "limit": 8e9, "note": "not tried"}
    cells.keep(Cell("infonce", "plain", 65536, expected_seconds=90.0, expected_bytes=7e10, **over))
    cells.keep(
        Cell("met", "hypersphere", 65536, status=OVER_TIME, limit=30.0, expected_seconds=44.0, expected_bytes=5e8)
    )
    cells.keep(Cell("met", "plain", 65536, status=OVER_TIME, limit=30.0, note="tried"))
    cells.keep(Cell("infonce", "sentence-transformers", 65536, status=FAILED, note="boom"))
    return Summary(cells, ABOUT, {})


def test_estimates_stand_in_the_tables_with_a_mark(summary: Summary) -> None:
    time, faster, memory = ({(row[0] or "", row[1]): row[2:] for row in table.rows} for table in summary.tables())
    assert time["infonce", "hypersphere"] == ["100.0 ms", "23.00 s"]
    assert time["", "plain"] == ["200.0 ms", "> 30 s"]
    assert time["met", "hypersphere"][1] == "~44.00 s"
    assert time["", "sentence-transformers"][1] == "failed"
    assert memory["met", "hypersphere"][1] == "~500 MB"
    assert faster["infonce", "limit"] == ["2.00", ""]
    assert any(note.startswith("~: over the limit (30 s or 8.0 GB), so not measured but") for note in summary.notes())


def test_csv_keeps_measured_and_estimated_apart(summary: Summary) -> None:
    rows = {(r["objective"], r["by"], int(r["size"])): r for r in csv.DictReader(io.StringIO(summary.as_csv()))}
    plain = rows["infonce", "plain", 65536]
    assert (plain["status"], plain["seconds"], plain["expected_seconds"]) == ("over memory", "", "90.0")
    assert (plain["bytes"], plain["expected_bytes"], plain["limit"]) == ("", "70000000000.0", "8000000000.0")
    assert rows["infonce", "hypersphere", 65536]["expected_seconds"] == ""


def test_estimates_are_no_points_of_the_chart(summary: Summary) -> None:
    curves = {(panel.title, curve.label): curve for panel in summary.panels() for curve in panel.seconds}
    assert curves["met", "hypersphere"].points == [(1024, 0.05)]
    assert curves["met", "hypersphere"].beyond == 65536
    assert [n for n, _ in curves["infonce", "hypersphere"].points] == [1024, 65536]


def test_the_overview_says_what_the_cells_say(summary: Summary) -> None:
    text = summary.as_markdown()
    for words in (
        "D = 128, 2 threads of abacus",
        "| `infonce` | 1,024 | 100.0 ms | 50.0 ms | 200.0 ms | sentence-transformers 250.0 ms | 1.0 MB | 4.0 MB |",
        "| `met` | 1,024 | 50.0 ms | 50.0 ms | 200.0 ms |  | 1.0 MB | 4.0 MB |",
        "Median of 2 objectives at N = 1,024: 0.38 of the plain form's time and 0.25 of its memory.\n",
        "Slower than plain there: none.",
        "At N = 65,536 `infonce` takes 23.00 s and 400 MB; the plain form would need about 70.0 GB.",
    ):
        assert words in text


def test_an_objective_slower_than_its_plain_form_is_named(summary: Summary) -> None:
    summary.cells.keep(Cell("barlow", "hypersphere", 1024, {"a": 0.3}, 10**6))
    summary.cells.keep(Cell("barlow", "plain", 1024, {"a": 0.1}, 10**6))
    assert "Slower than plain there: barlow (3.00)." in summary.as_markdown()


def test_the_overview_is_made_again_from_the_folder(summary: Summary, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{at_a_glance.BEGIN}\nold\n{at_a_glance.END}\nafter\n", encoding="utf-8")
    (tmp_path / "benchmark.json").write_text(summary.as_json(), encoding="utf-8")
    assert at_a_glance.main([str(tmp_path), str(readme)]) == 0
    (text,) = at_a_glance.overview(summary.rows(), ABOUT)
    assert readme.read_text(encoding="utf-8") == f"before\n{text}\nafter\n"
    assert (tmp_path / "overview.png").read_bytes().startswith(b"\x89PNG")
    readme.write_text("no marks", encoding="utf-8")
    assert at_a_glance.main([str(tmp_path), str(readme)]) == 2 and readme.read_text(encoding="utf-8") == "no marks"


def test_there_is_no_overview_without_plain_forms(tmp_path: Path) -> None:
    cells = Cells(tmp_path, {})
    cells.keep(Cell("infonce", "hypersphere", 64, {"a": 0.1}, 10))
    assert at_a_glance.BEGIN not in Summary(cells, ABOUT, {}).as_markdown()
