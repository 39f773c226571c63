"""One evaluation for all objectives: dense or in blocks, on one process or many."""

from hypersphere.engine.cache import GradientCache
from hypersphere.engine.contract import Anchors, Read, Statistics
from hypersphere.engine.curves import LOGARITHM, SOFTPLUS, Curve, masked_sum_of
from hypersphere.engine.evaluation import dense, evaluate, evaluate_whole, streaming
from hypersphere.engine.extremes import masked_argmax, masked_max, masked_min
from hypersphere.engine.mask import count
from hypersphere.engine.masked import (
    masked_logsumexp,
    masked_mean,
    masked_softmax,
    masked_sum,
    softmax_weighted_sum,
    weighted_sum,
)

__all__ = [
    "LOGARITHM",
    "SOFTPLUS",
    "Anchors",
    "Curve",
    "GradientCache",
    "Read",
    "Statistics",
    "count",
    "dense",
    "evaluate",
    "evaluate_whole",
    "masked_argmax",
    "masked_logsumexp",
    "masked_max",
    "masked_mean",
    "masked_min",
    "masked_softmax",
    "masked_sum",
    "masked_sum_of",
    "softmax_weighted_sum",
    "streaming",
    "weighted_sum",
]
