"""What anybody can run on an objective of their own: ours, a module of another library, a function."""

from hypersphere.testing.degenerate import assert_survives
from hypersphere.testing.distributed import assert_distributed_exact
from hypersphere.testing.gradients import assert_gradient_exact, assert_streams_exactly
from hypersphere.testing.workers import Workers, workers

__all__ = [
    "Workers",
    "assert_distributed_exact",
    "assert_gradient_exact",
    "assert_streams_exactly",
    "assert_survives",
    "check",
    "workers",
]


def check(objective: object, world_size: int = 2) -> None:
    """Everything that needs no knowledge of the formula: streaming, degenerate input, several processes.

    Finite differences are left to ``assert_gradient_exact``: an objective with detached weights fails them rightly.
    """
    assert_streams_exactly(objective)
    assert_survives(objective)
    assert_distributed_exact(objective, world_size=world_size)
