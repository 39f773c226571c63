"""The benchmark on a GPU: without one a sentence, and what it measures, tried on a CPU."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
import torch

from hypersphere.studies.benchmark import device
from hypersphere.studies.benchmark.cases import cases, chosen
from hypersphere.studies.benchmark.engine import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--device", "cuda"], "There is no GPU here that torch"),
        (["--device", "gpu"], "--device must be cpu, cuda or cuda:NUMBER, not 'gpu'."),
        (["--device", "mps"], "--device must be cpu, cuda or cuda:NUMBER, not 'mps'."),
        (["--csv", "file.csv"], "--csv goes with --device cuda"),
    ],
)
def test_without_a_gpu_there_is_one_sentence(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert error.startswith(said) and error.count("\n") == 1


def test_a_line_names_device_versions_and_sizes() -> None:
    wanted = chosen(["infonce symmetric"], cases())
    lines = list(device.measured(wanted, [16, 32], 4, 1, torch.device("cpu")))
    read = list(csv.DictReader(io.StringIO(device.as_csv(lines))))
    assert [(line["by"], line["size"]) for line in read] == [
        ("hypersphere", "16"), ("plain", "16"), ("hypersphere", "32"), ("plain", "32")]  # fmt: skip
    for line in read:
        assert line["objective"] == "infonce symmetric" and line["torch"] == torch.__version__
        assert (line["device"], line["dim"], line["tf32"], line["problem"]) == ("cpu", "4", "False", "")
        assert float(line["seconds"]) > 0


def test_a_gpus_queue_is_empty_before_and_after_what_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the clock of a GPU that is not there, which takes 3 s for what its queue holds."""
    queue, now = [0], [0.0]

    def finish(_: Any) -> None:
        now[0] += 3.0 * queue[0]
        queue[0] = 0

    def action() -> None:
        queue[0] += 1

    for name, value in {"memory_allocated": 100, "max_memory_allocated": 350, "reset_peak_memory_stats": None}.items():
        monkeypatch.setattr(torch.cuda, name, lambda _, value=value: value)
    monkeypatch.setattr(torch.cuda, "synchronize", finish)
    monkeypatch.setattr(device.time, "perf_counter", lambda: now[0])
    numbers = device._numbers(action, 2, torch.device("cuda"))
    assert numbers == {"seconds": "3", "peak_bytes": 250}


def test_what_does_not_fit_is_a_line_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And the benchmark on a GPU, which is a CPU here, writes its file."""

    def full(form: Any, *given: Any) -> None:
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(device, "step", full)
    monkeypatch.setattr("hypersphere.studies.benchmark.engine.find_device", lambda name: torch.device("cpu"))
    path = tmp_path / "lines.csv"
    assert main(["--device", "cuda", "--only", "met", "--size", "8", "--dim", "4", "--csv", str(path)]) == 0
    read = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [(line["problem"], line["seconds"]) for line in read] == [("out of memory", "")] * 2
