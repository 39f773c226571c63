"""Accuracy against the batch size: what is put down to the number of steps."""

from __future__ import annotations

from hypersphere.studies.reproduce.koromilas2024.batch_sizes import batch_size
from tests.studies.reproduce.koromilas2024.worlds import (
    REFUTED,
    run,
    world,
)


def test_best_batch_size_at_one_end_for_all_is_put_down_to_the_steps() -> None:
    finding = run(batch_size, world(REFUTED, 0.05))
    assert "a batch of 16 takes 3000 steps and one of 256 takes 187" in finding.fault
    assert "number of steps decides" in finding.fault
