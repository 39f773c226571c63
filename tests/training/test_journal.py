"""metrics.jsonl: whole lines, cut back when a run is resumed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from hypersphere.training.journal import Journal, read_journal


def line(step: int, **more: Any) -> dict[str, Any]:
    return {"step": step, "split": "training", **more}


def test_a_journal_is_plain_json_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "metrics.jsonl"
    journal = Journal(path)
    journal.append([line(0, ratio=math.nan, embedding_norm=math.inf)])
    journal.append([line(1, ratio=0.125)])
    strict = [json.loads(text, parse_constant=pytest.fail) for text in path.read_text().splitlines()]
    assert strict[0]["ratio"] is None
    lines = read_journal(path)
    assert math.isnan(lines[0]["ratio"])
    assert lines[0]["embedding_norm"] > 1e300
    assert lines[1] == line(1, ratio=0.125)


def test_resuming_cuts_the_file_where_the_checkpoint_was(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    Journal(path).append([line(step) for step in range(5)])
    again = Journal(path)
    again.resume(2)
    assert [r["step"] for r in again.records] == [0, 1, 2]
    again.append([line(3, new=1.0)])
    assert [r["step"] for r in read_journal(path)] == [0, 1, 2, 3]
    again.resume(0)
    assert path.read_bytes() == b""


def test_a_damaged_line_ends_what_can_be_resumed_and_is_named_when_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "split": "training"}\nnot a measurement\n{"step": 2, "split": "training"}\n')
    with pytest.raises(ValueError, match=r"line 2 of .*metrics\.jsonl is not a measurement"):
        read_journal(path)
    journal = Journal(path)
    journal.resume(5)
    assert [r["step"] for r in journal.records] == [1]
    assert path.read_text() == '{"step": 1, "split": "training"}\n'
