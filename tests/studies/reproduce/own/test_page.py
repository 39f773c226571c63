"""The write-up of hypersphere/factorial."""

import re
from pathlib import Path

from hypersphere.studies.reproduce.items import write
from hypersphere.studies.reproduce.own.factorial import factorial
from hypersphere.studies.reproduce.own.page import page
from tests.studies.reproduce.own.worlds import world


def test_the_page_says_plainly_that_runs_are_missing(tmp_path):
    words = page(tmp_path, tmp_path)
    assert "**The runs are not complete, so there is no answer yet.**" in words and "factorial-text: 0 of" in words


def test_the_page_is_written_from_the_results(tmp_path):
    made = world(lambda n, draw: 30 + 10 * n["with_gradient"] + draw.normal() / 9)
    finding, _ = write("hypersphere/factorial", factorial(made), tmp_path / "results", held=made)
    words = page(tmp_path / "results", tmp_path / "docs")
    assert f"**The answer: {finding.verdict}.** {finding.measured}" in words
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", words)
    assert len(pictures) == 2 and all((tmp_path / "docs" / each).resolve().is_file() for each in pictures)
    line = next(row for row in finding.data["predictors"] if row["numbers"] == "share of active anchors")
    assert f"{line['explained']:.2f} ({line['low']:.2f} to {line['high']:.2f})" in words
    assert len(words.split()) < 1500  # two pages


def test_the_page_in_docs_is_what_the_results_say():
    home = Path(__file__).parents[4]
    assert (home / "docs" / "factorial.md").read_text(encoding="utf-8") == page(home / "results", home / "docs")
