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


def test_the_demo_refuses_a_file_for_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as caught:
        digits.main(["--out", str(tmp_path / "file")])
    assert caught.value.code == 2
    assert "cannot be a folder" in capsys.readouterr().err
