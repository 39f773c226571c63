"""SIGTERM as Ctrl-C, for as long as there is something to save."""

from __future__ import annotations

import signal

import pytest

from hypersphere.cli.signals import terminable


def test_sigterm_interrupts_inside_and_is_as_before_outside() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"), terminable():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    with terminable():
        pass
    assert signal.getsignal(signal.SIGTERM) is before
