"""While a command imports, there is nothing to save: a signal ends it at once, and garbage waits."""

from __future__ import annotations

import gc
import os
import signal
import threading

import pytest

from hypersphere.cli.starting import nothing_begun


class Left(BaseException):
    """In place of the process's end."""


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setattr(os, "_exit", leave)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("rank", "said"), [("0", "\nInterrupted; nothing was begun.\n"), ("1", "")])
def test_a_signal_ends_the_process_with_one_sentence_of_the_first_one(
    number: signal.Signals, rank: str, said: str, ended: None, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("RANK", rank)
    before = signal.getsignal(number)
    with pytest.raises(Left) as left, nothing_begun():
        signal.raise_signal(number)
    assert left.value.args == (128 + number,) and capfd.readouterr().err == said
    assert signal.getsignal(number) is before


def test_garbage_waits_and_is_collected_again_only_if_it_was_before() -> None:
    for before in (True, False):
        (gc.enable if before else gc.disable)()
        try:
            with nothing_begun():
                assert not gc.isenabled()
            assert gc.isenabled() is before
        finally:
            gc.enable()


def test_ignored_signals_stay_ignored_and_other_threads_set_none() -> None:
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with nothing_begun():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, usual)
    inside: list[object] = []

    def work() -> None:
        with nothing_begun():
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [usual]
