"""The demo: four objectives on the digits."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypersphere.studies import digits


def test_the_demo_trains_four_and_names_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert digits.main(["--out", str(tmp_path), "--steps", "6"]) == 0
    printed = capsys.readouterr().out
    assert printed.strip().splitlines()[-1] == f"report: {tmp_path / 'report.html'}"
    page = (tmp_path / "report.html").read_text()
    for name in digits.CONTESTANTS:
        assert f"<td>{name}</td>" in page
    assert "http" not in page.replace("http://www.w3.org", "")  # nothing is fetched
    written = (tmp_path / "digits-6-0" / "met" / "results.json").stat().st_mtime_ns
    assert digits.main(["--out", str(tmp_path), "--steps", "6"]) == 0  # finished runs are read, not trained again
    assert (tmp_path / "digits-6-0" / "met" / "results.json").stat().st_mtime_ns == written


def seen(name: str = "met", best: int = 20) -> digits.Seen:
    """A run that did best after 20 of 40 steps, with numbers that tell the steps apart."""
    results = {"best_step": best, "scores": {"knn": 91.0}, "history": {"0": {"knn": 50.0}, "20": {"knn": 93.0}}}
    names = ("alignment", "uniformity", "gap", "effective_rank", "with_gradient")
    records = [{"step": step, **dict.fromkeys(names, step / 100)} for step in (0, 20, 40)]
    return digits.Seen(name, results, records, [])


def test_a_row_of_the_table_is_of_one_step() -> None:
    header, (row,) = digits._table([seen()])
    told = dict(zip(header, row, strict=True))
    assert (told["weights of step"], told["held out (%)"], told["test (%)"]) == ("20", "93.0", "91.0")
    assert (told["alignment"], told["gap"], told["effective rank"], told["with gradient"]) == (
        "0.200", "0.20", "0.2", "20%",
    )  # fmt: skip
    assert seen(best=30).kept["step"] == 20  # between two measurements


def test_the_console_names_the_step_of_its_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digits, "train_one", lambda name, *_: seen(name))
    assert digits.main(["--out", str(tmp_path)]) == 0
    assert "test 91.0 %, rank 0.2 (weights of step 20)" in capsys.readouterr().out
    assert digits.OF_ONE_STEP in (tmp_path / "report.html").read_text()


def test_the_demo_refuses_a_file_for_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as caught:
        digits.main(["--out", str(tmp_path / "file")])
    assert caught.value.code == 2
    assert "cannot be a folder" in capsys.readouterr().err
