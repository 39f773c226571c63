"""What all tasks share: the rows that are measured."""

from __future__ import annotations

from pathlib import Path

from hypersphere.training.journal import read_journal
from hypersphere.training.load import parse_recipe
from hypersphere.training.monitor import watch
from hypersphere.training.run import create_task
from hypersphere.training.task import measured_rows
from tests.training import worlds
from tests.training.worlds import quiet


def test_all_held_out_rows_are_measured_in_batches_of_the_trainings_size(tmp_path: Path) -> None:
    tree = worlds.digits_recipe(tmp_path, data={"held_out": 49})  # 16 + 16 + 17: none is measured without negatives
    task = create_task(parse_recipe(tree), tmp_path / "run", quiet)
    assert [len(batch["rows"]) for batch in task.held_out] == [16, 16, 17]
    rows = {row for batch in task.held_out for row in batch["rows"].tolist()}
    trained = set(task.trainer.train_dataset.rows.tolist())  # type: ignore[union-attr]
    assert len(rows) == 49 and not trained & rows
    monitor = watch(task, parse_recipe(tree), tmp_path / "metrics.jsonl", quiet)
    monitor.observe(0)
    assert {line["split"]: line["rows"] for line in read_journal(tmp_path / "metrics.jsonl")} == {
        "training": 16,
        "held_out": 49,
    }


def test_what_would_not_fit_the_monitors_budget_is_left_out_and_said(tmp_path: Path) -> None:
    """80 steps: 5 % are 4 steps, the time of 12 passes over a batch, which is 2 for each of 5 measurements."""
    said: list[str] = []
    rows = list(range(100, 200))
    free = parse_recipe(worlds.digits_recipe(tmp_path, monitor={"every": 0}))
    assert [len(each) for each in measured_rows(rows, free, 80, said.append)] == [16]
    assert "Measured: 16 of the 100 held-out rows" in said[0] and "monitor.rows=100 measures all" in said[0]
    assert sum(len(each) for each in measured_rows(rows, free, 800, said.append)) == 100 and len(said) == 1
    asked = parse_recipe(worlds.digits_recipe(tmp_path, monitor={"every": 0, "rows": 40}))
    chosen = measured_rows(rows, asked, 80, said.append)
    assert [len(each) for each in chosen] == [16, 16, 8] and chosen == measured_rows(rows, asked, 80, said.append)
