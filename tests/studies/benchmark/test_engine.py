"""The engine's benchmark writes its numbers and its table, and continues where it was interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hypersphere.studies.benchmark import engine
from hypersphere.studies.benchmark.cases import Case
from hypersphere.studies.benchmark.engine import Parts, main, page


def test_the_benchmark_writes_its_numbers_and_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "engine.json"
    assert main(["--only", "kcl log", "--size", "32", "--dim", "4", "--repeats", "1", "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text())["objectives"]
    assert row["label"] == "kcl log"
    assert row["bytes"].keys() == {"ours", "plain"}
    assert "kcl log" in path.with_suffix(".md").read_text()
    assert "kcl log" in capsys.readouterr().out


SMALL = ["--only", "met", "--only", "mpt", "--size", "32", "--dim", "4", "--repeats", "1", "--json"]


def test_what_was_interrupted_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "engine.json"
    measured: list[str] = []
    whole_row = engine.objective_result

    def until_the_second(case: Case, size: int, dim: int, repeats: int) -> engine.Result:
        measured.append(case.label)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return whole_row(case, size, dim, repeats)

    monkeypatch.setattr(engine, "objective_result", until_the_second)
    monkeypatch.setattr(engine, "peak_bytes", lambda *cell: 1)  # in processes of their own: see the test above
    assert main([*SMALL, str(path)]) == 130
    assert f"the same command continues with what is in {tmp_path / 'engine.part.json'}" in capsys.readouterr().err
    assert not path.exists()
    before = (tmp_path / "engine.part.json").read_bytes()
    with pytest.raises(SystemExit) as stopped:  # other settings: nothing is lost, nothing is mixed
        main([*SMALL, str(path), "--dim", "5"])
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert "measured with dim 4, not 5" in said
    assert said.count("\n") == 1
    assert (tmp_path / "engine.part.json").read_bytes() == before
    assert main([*SMALL, str(path)]) == 0
    assert measured == [measured[0], measured[1], measured[1]]  # the first is not measured again
    rows = json.loads(path.read_text())["objectives"]
    assert {row["label"] for row in rows} == {"met", "mpt"}
    assert rows[0] == next(iter(json.loads(before)["parts"].values()))
    assert set(tmp_path.iterdir()) == {path, path.with_suffix(".md")}


@pytest.mark.parametrize("content", ["", "[]", '{"settings": {}}', '{"settings": {}, "parts": [1]}'])
def test_a_file_that_holds_no_parts_is_refused(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "engine.part.json").write_text(content)
    with pytest.raises(SystemExit) as stopped:
        main([*SMALL, str(tmp_path / "engine.json")])
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert "does not hold parts of a measurement" in said
    assert said.count("\n") == 1
    assert (tmp_path / "engine.part.json").read_text() == content


def test_a_place_for_no_file_is_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for path, why in ((tmp_path, "is a folder"), (tmp_path / "file" / "engine.json", "cannot be a folder")):
        with pytest.raises(SystemExit) as stopped:
            main([*SMALL, str(path)])
        said = capsys.readouterr().err
        assert stopped.value.code == 2
        assert why in said
        assert said.count("\n") == 1


def test_how_long_the_rest_may_take_is_said_after_the_first_part() -> None:
    said: list[str] = []
    parts = Parts(None, {})
    parts.parts = {"a_b": {}}
    parts.measure({"a_b": dict, "c_d": dict, "e": dict}, said.append)
    assert said == ["2/3 c d", "3/3 e; about 0 s left"]


def test_an_unknown_objective_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--only", "infonec"])
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert "did you mean 'infonce'?" in said
    assert said.count("\n") == 1


def test_the_page_of_the_committed_results_is_theirs() -> None:
    path = Path(__file__).parents[3] / "benchmarks" / "results" / "engine.json"
    assert page(json.loads(path.read_text())) == path.with_suffix(".md").read_text(encoding="utf-8")
