"""``hypersphere benchmark objectives``: a tiny one, interrupted, continued, and read."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hypersphere.cli.app import app

COMMAND = ["benchmark", "objectives", "--only", "infonce", "--sizes", "64,128", "--dim", "8"]


COMMAND += ["--threads", "1", "--repeats", "1", "--no-peers", "--out"]


def lines(folder: Path) -> list[str]:
    path = folder / "cells.jsonl"
    return path.read_text().splitlines(keepends=True) if path.exists() else []


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str], list[str]]:
    """The folder, the process that was interrupted, and the lines it left."""
    folder = tmp_path_factory.mktemp("benchmark")
    command = [sys.executable, "-m", "hypersphere", *COMMAND, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(4000):
            if len(lines(folder)) >= 7 or process.poll() is not None:  # the first group and a little of the second
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    return folder, subprocess.CompletedProcess(command, process.returncode, out, error), lines(folder)


@pytest.fixture(scope="module")
def continued(interrupted: tuple[Path, object, list[str]]) -> tuple[Path, str]:
    """The folder and what the command said when it was given again."""
    done = CliRunner().invoke(app, [*COMMAND, str(interrupted[0])])
    assert done.exit_code == 0, done.output
    return interrupted[0], done.stdout


def test_an_interruption_is_answered_with_what_is_safe(
    interrupted: tuple[Path, subprocess.CompletedProcess[str], list[str]],
) -> None:
    folder, process, left = interrupted
    assert process.returncode == 130, process.stderr
    assert f"Stopped; all that was measured is in {folder / 'cells.jsonl'}" in process.stderr
    assert "Traceback" not in process.stderr
    assert 7 <= len(left) < 12


def test_the_same_command_continues_without_measuring_again(
    interrupted: tuple[Path, object, list[str]], continued: tuple[Path, str]
) -> None:
    folder, _, before = interrupted
    after = lines(folder)
    assert after[: len(before)] == before
    finished = {(c["objective"], c["by"], c["size"]) for c in map(json.loads, before) if c["rounds"]}
    assert finished
    # Ours may stand beside one that was missing; nobody else is measured twice.
    again = {(c["objective"], c["by"], c["size"]) for c in map(json.loads, after[len(before) :])}
    assert all(by == "hypersphere" for _, by, _ in finished & again)
    assert len({(c["objective"], c["by"], c["size"]) for c in map(json.loads, after)}) == 6


def test_a_finished_benchmark_is_only_shown_again(continued: tuple[Path, str]) -> None:
    folder, said = continued
    before = lines(folder)
    done = CliRunner().invoke(app, [*COMMAND, str(folder)])
    assert done.exit_code == 0
    assert lines(folder) == before
    assert done.stdout == said


def test_it_ends_with_tables_files_and_a_chart(continued: tuple[Path, str]) -> None:
    folder, said = continued
    for title in ("Time of one forward and backward", "Time of hypersphere divided", "Peak memory above the inputs"):
        assert title in said
    for name in ("benchmark.md", "benchmark.csv", "benchmark.json", "benchmark.png", "cells.jsonl"):
        assert (folder / name).exists()
        assert str(folder / name) in said
    assert (folder / "benchmark.png").read_bytes().startswith(b"\x89PNG")


def test_csv_and_json_hold_the_same_cells(continued: tuple[Path, str]) -> None:
    folder, _ = continued
    tree = json.loads((folder / "benchmark.json").read_text())
    with (folder / "benchmark.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["objective"], row["by"], int(row["size"])) for row in rows] == [
        (cell["objective"], cell["by"], cell["size"]) for cell in tree["cells"]
    ]
    for cell in tree["cells"]:
        assert cell["status"] == "measured"
        assert cell["seconds"] > 0
        assert (cell["bytes"] is None) == (cell["by"] == "limit")
        assert cell["ours_to_this_seconds"] > 0
    assert tree["dim"] == 8
    assert {cell["by"] for cell in tree["cells"]} == {"hypersphere", "limit", "plain"}


def test_a_folder_of_other_settings_is_refused(continued: tuple[Path, str]) -> None:
    done = CliRunner().invoke(app, [*COMMAND, str(continued[0]), "--dim", "16"])
    assert done.exit_code == 2
    assert "dim 8, not 16" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--json", "{tmp}/z.json", "--csv", "{tmp}/z.json"], "--csv cannot be {tmp}/z.json, where another"),
        (["--json", "{tmp}/z.json", "--csv", "{tmp}/new/../z.json"], "--csv cannot be"),
        (["--json", "{tmp}/out/benchmark.csv"], "--csv cannot be"),
        (["--csv", "{tmp}/out/cells.jsonl"], "--csv cannot be"),
        (["--json", "{tmp}"], "is a folder"),
        (["--json", "{tmp}/file/z.json"], "cannot be written"),
        (["--max-gb", "inf"], "--max-gb must be at most 1e+09, not inf"),
        (["--max-gb", "1e305"], "--max-gb must be"),
        (["--max-gb", "nan"], "--max-gb must be"),
        (["--max-seconds", "inf"], "--max-seconds must be"),
    ],
)
def test_bad_places_and_limits_get_one_sentence_before_anything_is_measured(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypersphere.cli.benchmark._measure", None)
    (tmp_path / "file").write_text("kept")
    done = CliRunner().invoke(app, [*COMMAND, f"{tmp_path}/out", *(word.format(tmp=tmp_path) for word in words)])
    assert done.exit_code == 2, done.output
    assert sentence.format(tmp=tmp_path) in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists() and (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--sizes", "4,x"], "not '4,x'."),
        (["--sizes", ","], "not ','."),
        (["--dim", "one"], "Invalid value for '--dim'"),
        (["--repeats", "0"], "Invalid value for '--repeats'"),
        (["--only", "infonec"], "did you mean 'infonce'?"),
        (["--max-gb", "0"], "--max-gb must be above 0, not 0."),
        (["--max-seconds", "nan"], "--max-seconds must be above 0, not nan."),
        (["--lightly-python", "nowhere"], "There is no Python at nowhere"),
        (["--out", __file__], "cannot be the folder of the results"),
        (["--json", "/", "--out", "OUT"], "/ is a folder"),
    ],
    ids=lambda value: " ".join(value[:-1]) if isinstance(value, list) else "",
)
def test_bad_input_gets_one_sentence_and_exit_code_2(given: list[str], said: str, tmp_path: Path) -> None:
    words = ["benchmark", "objectives", *(str(tmp_path) if word == "OUT" else word for word in given)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
