"""Commands that are stopped say so in one sentence."""

from __future__ import annotations

import signal
import time

import pytest

from hypersphere.studies.arguments import run_command


def until_interrupted() -> int:
    signal.raise_signal(signal.SIGINT)
    time.sleep(60)
    return 0


def test_a_command_ends_with_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_command(lambda: 3)
    assert ended.value.code == 3 and capsys.readouterr() == ("", "")


def test_an_interrupted_command_says_what_became_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    for given, sentence in (((), "nothing was written"), (("half of it is kept",), "half of it is kept")):
        with pytest.raises(SystemExit) as ended:
            run_command(until_interrupted, *given)
        assert ended.value.code == 130 and capsys.readouterr().err.strip() == f"Stopped; {sentence}."
