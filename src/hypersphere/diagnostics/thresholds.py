"""Thresholds at which a number becomes a finding of ``diagnose`` or a verdict of a run's monitor, with the reasons.

A ``Threshold`` judges the embeddings of a file, without a history. The thresholds of a run judge a batch and compare it
with the run's own past: they may lie nearer to the values of healthy embeddings, and apply only after a fall.
"""

from __future__ import annotations

from typing import NamedTuple


class Threshold(NamedTuple):
    """The value at which a number becomes the finding of this name, with the reason."""

    finding: str
    value: float
    why: str


ONE_DIRECTION = Threshold(
    "rank-1 over-fusion",
    0.99,
    "share of the squared length along one direction; even an untrained language model's cone (DistilBERT, 0.93) "
    "leaves several per cent to the others",
)
FEW_DIMENSIONS = Threshold(
    "dimensional collapse",
    0.25,
    "centred effective rank as a share of what is possible; text encoders keep 0.7 to 0.8, outputs confined to a "
    "subspace only that subspace's share of the dimensions",
)
# Noise in all directions raises the effective rank far above the dimensions that carry the rows: a circle in 768
# dimensions with noise of 0.01 has 433. Two numbers resist it. Measured with 75 %: points, circles and spheres of
# up to 3 dimensions under noise need 1 to 3 directions; real texts 7 and more (60 lines of Wikipedia under a plain
# DistilBERT; 20 with 300 lines, 34 with 2,000; under all-MiniLM-L6-v2 22, 59 and 98); ten separate classes 6 and more.
FEW_DIRECTIONS = Threshold(
    "dimensional collapse",
    4,
    "directions, or fewer, that hold 75 % of the variance, and no more than an eighth of those possible; real texts "
    "need 7 and more, ten separate classes 6, a circle under noise 2",
)
# The same for embeddings in a file and for a run. Eleven objectives that learn keep 3.0 or more on the digits (32 and
# 128 dimensions), and one large direction (about the length of a text) leaves DistilBERT 3.2 on 60 lines of Wikipedia:
# a bound of 3 would reject both. FEW_DIRECTIONS in a file, and the share of the effective rank in a run, catch a
# collapse that stays above 2.5.
LOW_PARTICIPATION = Threshold(
    "dimensional collapse",
    2.5,
    "participation ratio, where it is also below an eighth of what is possible; real texts have 3.2 and more, healthy "
    "runs on images 3.0, two points or a circle under noise 1 to 2.5",
)
FEW_LEADING = Threshold(
    "few leading directions",
    1 / 32,
    "directions that hold 75 % of the variance as a share of those possible; real texts need 1/23 and more (34 of "
    "768). A subspace of 5 to 16 of 768 dimensions under noise of 0.01 looks like a collapse in no other number",
)
CLASSES_APART = Threshold(
    "classes apart",
    0.5,
    "how far neighbours of the row's own class go from chance (0) to always (1), from where on as many leading "
    "directions as classes less one are what was wanted, not a collapse",
)
CONE = Threshold(
    "anisotropic cone",
    0.5,
    "mean cosine of two rows; a contrastively trained encoder has 0.05 (all-MiniLM-L6-v2), a language model that was "
    "not so trained far more (DistilBERT 0.93)",
)
REPEATED = Threshold(
    "repeated rows",
    0.01,
    "share of repeated rows; from here on a batch of a hundred holds a row's copy as a false negative",
)
DEAD = Threshold(
    "dead dimensions", 0.01, "share of dead dimensions; fewer cost nothing (all-MiniLM-L6-v2 has 3 of 384)"
)
CLOSER = Threshold(
    "positives not aligned",
    0.9,
    "chance that a positive is nearer than a random negative; 0.5 is guessing, working encoders exceed 0.99",
)
SAME_VIEWS = Threshold(
    "identical views",
    1e-9,
    "mean squared distance of positives; dropout or augmentation moves rows by far more than float32 rounds",
)
APART = Threshold(
    "views apart", 0.7, "distance between the views' means; two samples of one cloud differ by about the root of 2/N"
)
HUBS = Threshold(
    "hubs",
    3.0,
    "skewness of the neighbour counts; uniform rows have below 0.5, all-MiniLM-L6-v2 1.2, a language model not trained "
    "for similarity more (DistilBERT 4.5)",
)
MIXED_CLASSES = Threshold(
    "classes mixed", 0.1, "how far neighbours of the row's own class go from chance (0) to always (1)"
)

# --- of a run

# Mean |cos| of positives and of negatives, with the rank below. All rows ±z* give 1; sentences of a DistilBERT never
# trained on pairs lie at 0.98 and 0.91 without harm, with an effective rank of 89. ONE_DIRECTION is stricter (0.99 of
# the squared length is a mean |cos| of about 0.99): a file has no past, while a run can still be corrected.
FUSED_COSINE = 0.95
FUSED_RANK = 1.5  # RankMe of a rank-1 batch is 1; the noise of float32 and batch norm raises it to less than this
# RankMe counts the last bit of noise, so a batch on its way to one point is recognised by the fall of its rank from the
# highest rank of the run.
FUSED_FALL = 1 / 3
# Effective rank as a share of the min(rows, D) it could reach. It is RankMe of a batch, not centred, so the mean row
# lowers it. Of eleven objectives that learn, some keep as little as 0.10 on the digits. FEW_DIMENSIONS' 0.25, which
# applies to the centred rank of a whole file, would reject these. Objectives that collapse (vicreg without its
# covariance, barlow without its off-diagonal, kcl with too little energy, ntxent at τ = 5) end at 0.04 to 0.06 of 128,
# and at a participation ratio of 1.1 to 3.6; either number shows the collapse.
COLLAPSED_SHARE = 0.06
# An encoder may start that low (few features, outlier dimensions); a collapse has fallen to this share of the highest.
COLLAPSED_FALL = 0.5
FEWEST_DIMENSIONS = 8  # with fewer, a low rank of a batch is normal
