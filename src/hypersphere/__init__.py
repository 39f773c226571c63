"""hypersphere: objectives on the unit hypersphere, one definition each, exact at any batch size."""

from hypersphere import anatomy, testing
from hypersphere.anatomy import dissect
from hypersphere.diagnostics import Diagnosis, diagnose
from hypersphere.engine import GradientCache, dense, streaming
from hypersphere.objectives import (
    LogSumObjective,
    PairwiseObjective,
    create_objective,
    list_objectives,
    list_presets,
    register,
)

__version__ = "0.1.0"

__all__ = [
    "Diagnosis",
    "GradientCache",
    "LogSumObjective",
    "PairwiseObjective",
    "__version__",
    "anatomy",
    "create_objective",
    "dense",
    "diagnose",
    "dissect",
    "list_objectives",
    "list_presets",
    "register",
    "streaming",
    "testing",
]
