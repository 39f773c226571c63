"""What is left of a run whose process has ended: its reason, its numbers, its files."""

import json
import math
from types import SimpleNamespace

import pytest

from hypersphere.studies.compare.process import Running, result_of, tidy


def ended(folder, code):
    return Running(1, "cell", folder, SimpleNamespace(is_alive=lambda: False, exitcode=code))


@pytest.mark.parametrize(
    "code, left, reason",
    [
        (-9, {}, "the process was ended by SIGKILL (out of memory?)"),
        (-15, {}, "the process was ended by SIGTERM"),
        (3, {"seconds": 1.0}, "the process ended with exit code 3"),
        (1, {"failure": "the loss is not finite"}, "the loss is not finite"),
        (1, None, "the process ended with exit code 1"),  # killed while it wrote its reason
    ],
)
def test_a_process_that_ended_has_a_reason(code, left, reason, tmp_path):
    (tmp_path / "cell.json").write_text("{" if left is None else json.dumps(left))
    assert ended(tmp_path / "cell", code).reason() == reason


def written(folder):
    folder.mkdir()
    results = {"scores": {"knn": 70.0}, "history": {"0": {"knn": 50.0}}, "best_step": 0, "steps": 6, "seconds": 2.0}
    (folder / "results.json").write_text(json.dumps(results))
    measured = {"step": 0, "gap": 0.123456789, "infonce": 2.0, "ratio": math.nan, "rows": 64, "verdicts": []}
    lines = [{**measured, "split": split} for split in ("training", "held_out", "validation")]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def test_the_numbers_of_a_run_are_short_and_known(tmp_path):
    folder = written(tmp_path / "cell")
    (tmp_path / "cell.json").write_text(json.dumps({"seconds": 9.5, "memory": 400}))
    result = result_of(folder)
    assert (result["seconds"], result["memory"], result["scores"]) == (9.5, 400, {"knn": 70.0})
    assert result["measured"] == [{"step": 0, "gap": 0.123457, "infonce": 2.0}]
    assert result["training"] == [{"step": 0, "gap": 0.123457, "infonce": 2.0}]
    assert result["pairs"] == [{"step": 0, "infonce": 2.0}] and result["views"] == {}


def test_without_held_out_rows_the_training_batch_is_what_was_measured(tmp_path):
    folder = written(tmp_path / "cell")
    (line, *_) = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text(f"{line}\n")
    result = result_of(folder)
    assert result["measured"] == [{"step": 0, "gap": 0.123457, "infonce": 2.0}] and result["seconds"] == 2.0
    (folder / "results.json").unlink()
    assert result_of(folder) is None  # it has not finished


@pytest.mark.parametrize("keep_model", [True, False])
def test_only_what_an_unfinished_run_needs_is_removed(keep_model, tmp_path):
    for name in ("checkpoints", "best", "model", "other"):
        (tmp_path / name).mkdir()
    tidy(tmp_path, keep_model)
    assert {path.name for path in tmp_path.iterdir()} == {"other", *(["model"] if keep_model else [])}
