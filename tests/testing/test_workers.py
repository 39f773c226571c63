"""Groups of processes: one that dies, and one of one's own beside the shared one."""

from __future__ import annotations

import os

import pytest

from hypersphere.testing import Workers, workers


def test_a_process_that_dies_in_the_loss_is_not_blamed_on_the_script() -> None:
    group = Workers(1)
    assert group.run(os.getpid) != [os.getpid()]
    with pytest.raises(RuntimeError, match="process 0 of 1 died while it ran _exit; see its own output"):
        group.run(os._exit, 3)


def test_a_group_of_ones_own_ends_without_the_shared_one() -> None:
    shared, own = workers(1), Workers(1)
    pid = shared.run(os.getpid)
    assert own.run(os.getpid) != pid
    own.close()
    assert workers(1) is shared and shared.run(os.getpid) == pid
