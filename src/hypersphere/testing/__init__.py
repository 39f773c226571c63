"""Checks for any objective: one of ours, a module of another library, a function."""

from hypersphere.testing.degenerate import assert_survives
from hypersphere.testing.distributed import assert_distributed_exact
from hypersphere.testing.example import compares_pairs, named, require_callable
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


def check(objective: object, world_size: int = 2) -> str:
    """All checks that do not depend on the formula: streaming, degenerate input, several processes.

    Returns a sentence that names the checks. A loss that is evaluated on whole views (a function or a module that is
    not hypersphere's, an objective of features) has no blocks, so its streaming is not checked.
    Finite differences are left to ``assert_gradient_exact``: an objective with detached weights fails them rightly.

    >>> from hypersphere import create_objective
    >>> check(create_objective("met"), world_size=1)
    'MET(margin=0.45) streams exactly, survives degenerate input, and is exact on 1 process.'
    """
    require_callable(objective)
    streams = compares_pairs(objective)
    if streams:
        assert_streams_exactly(objective)
    assert_survives(objective)
    assert_distributed_exact(objective, world_size=world_size)
    processes = "1 process" if world_size == 1 else f"{world_size} processes"
    checked = f"survives degenerate input, and is exact on {processes}"
    if streams:
        return f"{named(objective)} streams exactly, {checked}."
    return f"{named(objective)} {checked}. It is evaluated on whole views, so streaming was not checked."
