"""The committed results of the training benchmark are readable, and their page is what is written from them."""

from __future__ import annotations

import json
from pathlib import Path

from hypersphere.studies.benchmark import training

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def test_the_page_of_the_committed_results_is_theirs(tmp_path: Path) -> None:
    results = json.loads((RESULTS / "training.json").read_text())
    assert training.page(results) == (RESULTS / "training.md").read_text(encoding="utf-8")
    assert training.write(results, tmp_path).read_text(encoding="utf-8") == training.page(results)
    assert json.loads((tmp_path / "training.json").read_text()) == results


def test_both_contenders_take_turns_and_medians_are_divided(monkeypatch) -> None:
    speeds = {training.OURS: iter([30.0, 10.0, 20.0]), training.THEIRS: iter([5.0, 10.0, 40.0])}
    order = []

    def measured(by, setting):
        order.append(by)
        return {"sentences_per_second": next(speeds[by]), "peak_bytes": 100.0 if by == training.OURS else 50.0}

    monkeypatch.setattr(training, "_one", measured)
    results = training.measure(training.Setting("folder/model", "folder/text.txt"), repeats=3)
    assert order == [training.OURS, training.THEIRS] * 3
    assert (results["speed_ratio"], results["memory_ratio"]) == (2.0, 2.0)
    assert (results["setting"]["model"], results["setting"]["text"]) == ("model", "text.txt")
