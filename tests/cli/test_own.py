"""``mine.py:name`` and ``--import mine.py`` in every command that takes an objective."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hypersphere.cli.app import app
from hypersphere.studies.benchmark.worker import serve

BENCHMARK = ["benchmark", "objectives", "--sizes", "64", "--dim", "8", "--threads", "1", "--repeats", "1", "--no-peers"]


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("words", [["mine.py:squared_triplet"], ["squared_triplet", "--import", "mine.py"]])
def test_it_is_described(mine: Path, words: list[str]) -> None:
    said = run("objectives", *words).stdout
    assert "Squared hinge on the gap to the hardest negative." in said
    assert "margin     0.3    a number" in said
    assert f'hs.create_objective("{words[0]}")' in said


def test_it_stands_in_the_table(mine: Path) -> None:
    lines = run("objectives", "--import", "mine.py").stdout.splitlines()
    assert any(line.startswith("squared_triplet ") for line in lines)
    assert "weight     0.1" in run("objectives", "mine.py:pull").stdout
    assert (
        json.loads(run("objectives", "tripl", "--import", "mine.py", "--json").stdout)[0]["name"] == "squared_triplet"
    )


def test_it_is_dissected_beside_the_packages(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersphere.cli.dissect.draw", lambda *_: [])
    done = run("dissect", "mine.py:squared_triplet", "met", "mine.py:pull", "margin=0.5", "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["objectives"]
    assert [each["as"] for each in rows] == ["SquaredTriplet(margin=0.5)", "MET(margin=0.5)", "pull(weight=0.1)"]
    assert rows[0]["numbers"]["weight of the hardest"] == 1


def test_a_plain_function_has_the_numbers_of_its_registered_twin(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypersphere.cli.dissect.draw", lambda *_: [])
    Path("twin.py").write_text(
        "import hypersphere as hs\n\n\ndef twin(z1, z2):\n"
        '    return hs.create_objective("mine.py:squared_triplet")(z1, z2)\n'
    )
    done = run("dissect", "mine.py:squared_triplet", "twin.py:twin", "--json")
    assert done.exit_code == 0, done.output
    ours, plain = (each["numbers"] for each in json.loads(done.stdout)["objectives"])
    assert ours == pytest.approx(plain, rel=1e-4, abs=1e-6)


def test_a_recipe_takes_it(mine: Path) -> None:
    words = ["train", "digits", "objective=squared_triplet", "objective.margin=0.5", "--import", "mine.py", "--check"]
    assert f"objective:\n  name: {mine}:squared_triplet\n  margin: 0.5\n" in run(*words).stdout


def test_it_is_measured_and_measured_again_when_the_file_has_changed(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By workers in this process, which import it as those of a real benchmark do."""
    jobs: list[Any] = []

    class InProcess:
        def __init__(self, job: Any) -> None:
            self.job = job
            jobs.append(job)

        def _asked(self, turns: str) -> Any:
            answers: list[Any] = []
            serve({**vars(self.job)}, io.StringIO(turns), answers.append)
            return answers[-1]

        ready = lambda self: self._asked("")  # noqa: E731
        turn = lambda self, timeout: self._asked("turn\n")  # noqa: E731
        close = __exit__ = lambda self, *_: None
        __enter__ = lambda self: self  # noqa: E731

    monkeypatch.setattr("hypersphere.studies.benchmark.run.Worker", InProcess)
    monkeypatch.setattr("hypersphere.cli.benchmark._write", lambda *_: None)
    monkeypatch.setattr("hypersphere.studies.benchmark.worker.allow", lambda _: None)
    words = ["--only", "mine.py:squared_triplet", "--only", "squared_triplet", "--import", "mine.py", "--out", "bench"]
    done = run(*BENCHMARK, *words)
    assert done.exit_code == 0, done.output
    cells = [json.loads(line) for line in Path("bench/cells.jsonl").read_text().splitlines()]
    assert {cell["status"] for cell in cells} == {"measured"}
    assert {(cell["objective"], cell["by"]) for cell in cells} == {
        (name, by) for name in ("mine.py:squared_triplet", "squared_triplet") for by in ("hypersphere", "limit")
    }
    assert {job.imports for job in jobs} == {(str(mine),)}
    jobs.clear()
    assert run(*BENCHMARK, *words).exit_code == 0 and not jobs
    monkeypatch.setattr("hypersphere.objectives.files.fingerprint", lambda path: "another")
    assert run(*BENCHMARK, *words).exit_code == 0 and len(jobs) == 4


@pytest.mark.parametrize(
    "words",
    [
        ["objectives", "mine.py:f"],
        ["objectives", "--import", "mine.py"],
        ["dissect", "mine.py:f"],
        ["dissect", "met", "--import", "mine.py"],
        ["dissect", "cloa", 'base={"name":"mine.py:f"}'],
        ["train", "digits", "objective=mine.py:f"],
        ["train", "digits", "--import", "mine.py"],
        [*BENCHMARK, "--only", "mine.py:f"],
        [*BENCHMARK, "--import", "mine.py"],
    ],
    ids=" ".join,
)
def test_a_mistake_in_the_file_is_one_sentence_with_its_line(mine: Path, words: list[str]) -> None:
    mine.write_text("import torch\ntorch.nowhere\n")
    done = run(*words)
    assert done.exit_code == 2 and done.stdout == ""
    assert "mine.py, line 2: AttributeError: module 'torch' has no attribute 'nowhere'." in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [["dissect", "mine.py:f"], [*BENCHMARK, "--only", "mine.py:f"]], ids=" ".join)
def test_a_mistake_on_a_batch_is_one_sentence_with_its_line(mine: Path, words: list[str]) -> None:
    mine.write_text("def f(z1, z2):\n    return z1[0].no_such_thing\n")
    done = run(*words)
    assert done.exit_code == 2
    assert f"{mine}, line 2: AttributeError: 'Tensor' object has no attribute 'no_such_thing'." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["objectives", "mine.py"], "There is no objective 'mine.py'; one in a file is written mine.py:NAME.\n"),
        (["dissect", "nowhere.py:f"], "There is no file nowhere.py.\n"),
        (["objectives", "--import", "empty.py"], "empty.py registers no objective: put @hs.register('name') above"),
        (["dissect", "mine.py:squared_triplt"], "did you mean 'squared_triplet'? (it has squared_triplet, "),
    ],
)
def test_a_file_without_the_objective_is_refused(mine: Path, words: list[str], said: str) -> None:
    Path("empty.py").touch()
    done = run(*words)
    assert done.exit_code == 2 and said in done.stderr and done.stderr.count("\n") == 1
