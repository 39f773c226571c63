"""One evaluation for all objectives: dense or in blocks, on one process or many."""

from hypersphere.engine.evaluate import evaluate
from hypersphere.engine.features import evaluate_features
from hypersphere.engine.gradient_cache import GradientCache
from hypersphere.engine.guide import GuideRule
from hypersphere.engine.inputs import Inputs
from hypersphere.engine.mask import count
from hypersphere.engine.objective import Anchors, Read, Statistics
from hypersphere.engine.reductions import (
    LOGARITHM,
    SOFTPLUS,
    Curve,
    masked_argmax,
    masked_logsumexp,
    masked_max,
    masked_mean,
    masked_min,
    masked_softmax,
    masked_sum,
    masked_sum_of,
    softmax_weighted_sum,
    weighted_sum,
)

__all__ = [
    "LOGARITHM",
    "SOFTPLUS",
    "Anchors",
    "Curve",
    "GradientCache",
    "GuideRule",
    "Inputs",
    "Read",
    "Statistics",
    "count",
    "evaluate",
    "evaluate_features",
    "masked_argmax",
    "masked_logsumexp",
    "masked_max",
    "masked_mean",
    "masked_min",
    "masked_softmax",
    "masked_sum",
    "masked_sum_of",
    "softmax_weighted_sum",
    "weighted_sum",
]
