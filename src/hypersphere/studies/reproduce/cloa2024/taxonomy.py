"""Table 1 of Li and Pimentel-Alarcón 2024 (arXiv 2403.18699v1) as published, and the registry placed in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A row of the table: ImageNet-1k, ResNet-50, per cent; None where the paper prints nothing."""

    method: str
    group: str
    affinity: str
    probability: str
    divergence: str
    top1: float | None
    top5: float | None = None
    question: str = ""


_PCL = (
    "the table cites Cui et al. 2021 (parametric contrastive learning) for 67.6, which is the published number of "
    "PCL v2 of Li et al. 2020 (ProtoNCE), whom the text cites; read here as Li et al."
)

PUBLISHED = (
    Published("CPC-v2", "plain", "cosine", "softmax", "cross-entropy", 71.5, 90.1),
    Published("MoCo-v2", "plain", "cosine", "softmax", "cross-entropy", 71.1),
    Published("SimCLR", "plain", "cosine", "softmax", "cross-entropy", 69.3, 89.0),
    Published("PCL", "terms added or removed", "cosine", "softmax", "cross-entropy", 67.6, question=_PCL),
    Published("LOOC", "terms added or removed", "cosine", "softmax", "cross-entropy variant", None),
    Published("DCL", "terms added or removed", "cosine", "decoupled softmax", "cross-entropy", 68.2),
    Published("RC", "terms added or removed", "cosine", "softmax", "cross-entropy + L2", 61.6),
    Published("Debiased", "similarity changed", "floored cosine", "softmax", "cross-entropy", None),
    Published("GCL", "similarity changed", "arccosine", "softmax", "cross-entropy", None),
    Published("HCL", "similarity changed", "cosine + Poincaré", "softmax", "cross-entropy", 58.5),
    Published("InfoMin", "other", "cosine", "softmax", "min-max cross-entropy", 73.0, 91.1),
    Published("VICReg", "other", "Euclidean", "none", "distance + variance + covariance", 73.1, 91.1),
    Published("Barlow Twins", "other", "dimension-wise cosine", "none", "L2", 73.2, 91.0),
)


@dataclass(frozen=True)
class Place:
    """The place of a registered objective; ``published``: its row of the table, or the closest one."""

    affinity: str
    probability: str
    divergence: str
    published: str = ""


_MARGIN, _ENERGY = "hinge at a margin", "alignment + energy"

PLACED: dict[str, Place] = {
    "align_uniform": Place("Gaussian of the distance", "none", "alignment + log mean energy"),
    "arccon": Place("cosine, margin on the angle", "softmax", "cross-entropy"),
    "artanh_infonce": Place("artanh of the cosine", "softmax", "cross-entropy"),
    "barlow": Place("dimension-wise cosine", "none", "L2", "Barlow Twins"),
    "cloa": Place("the base's + cosine with anchors", "the base's", "the base's + 1 - cosine"),
    "cosent": Place("cosine of graded pairs", "softmax over pairs of pairs", "softplus of a log-sum"),
    "dcl": Place("cosine", "decoupled softmax", "cross-entropy", "DCL"),
    "dcl_plus": Place("cosine", "decoupled softmax", "cross-entropy, cut off at 0"),
    "dclw": Place("cosine", "decoupled softmax", "cross-entropy, positives weighted", "DCL"),
    "debiased": Place("floored cosine", "softmax", "cross-entropy", "Debiased"),
    "dhel": Place("cosine", "decoupled softmax, own view", "cross-entropy"),
    "frossl": Place("dimension-wise cosine", "none", "distance + log of squared covariance"),
    "geodesic": Place("arccosine", "softmax", "cross-entropy", "GCL"),
    "gor": Place("cosine", "none", "moments of the cosines"),
    "hyperbolic": Place("cosine + Poincaré", "softmax", "cross-entropy", "HCL"),
    "infonce": Place("cosine", "softmax", "cross-entropy", "MoCo-v2"),
    "kcl": Place("kernel of the distance", "none", _ENERGY),
    "koleo": Place("Euclidean", "none", "logarithm of the nearest distance"),
    "macl": Place("cosine", "softmax", "cross-entropy, weighted"),
    "mat": Place("arccosine", "none", _MARGIN),
    "mbarlow": Place("cosine", "softmax over all pairs, as weights", "gated linear surrogate"),
    "met": Place("Euclidean", "none", _MARGIN),
    "mhe": Place("Gaussian of the distance", "none", "alignment + log mean energy"),
    "mhs": Place("Euclidean", "none", "alignment - nearest distance"),
    "mixup": Place("cosine", "softmax with mixed negatives", "cross-entropy"),
    "mmcr": Place("cosine", "none", "nuclear norm of the centres"),
    "mmhe": Place("cosine", "softmax over all pairs, as weights", "gated linear surrogate"),
    "mmhs": Place("Euclidean", "none", "gated linear surrogate"),
    "mpt": Place("cosine", "none", _MARGIN),
    "mvicreg": Place("cosine", "softmax over all pairs, as weights", "gated linear surrogate"),
    "nonl": Place("cosine with prototypes", "decoupled softmax over rows", "cross-entropy"),
    "ntce": Place("cosine with prototypes", "softmax over rows", "cross-entropy"),
    "ntxent": Place("cosine", "softmax", "cross-entropy", "SimCLR"),
    "mv_dhel": Place("cosine", "none", "alignment of all views + log energy of each"),
    "mv_infonce": Place("cosine", "softmax over all views", "cross-entropy, several positives"),
    "guided": Place("the base's", "the base's without the dropped negatives", "the base's"),
    "pairwise": Place("the base's", "the base's", "mean of the base over pairs of views"),
    "paradigm": Place("cosine", "softmax of the negatives, as weights", "gated linear surrogate"),
    "plus": Place("the parts'", "the parts'", "the sum of two objectives'"),
    "siglip": Place("cosine", "sigmoid of each pair", "binary cross-entropy"),
    "sigreg": Place("Euclidean", "none", "distance + Gaussian test on random directions"),
    "spectral": Place("cosine", "none", "L2"),
    "sphere_jepa": Place("kernel of the cosine", "none", "distance + test for the uniform law"),
    "supcon": Place("cosine", "softmax", "cross-entropy, several positives"),
    "triplet": Place("Euclidean, cosine or angle", "none", _MARGIN),
    "vicreg": Place("Euclidean", "none", "distance + variance + covariance", "VICReg"),
    "visreg": Place("Euclidean", "none", "distance + mean, deviation and quantiles on random directions"),
    "wasserstein": Place("cosine", "none", "Wasserstein distance to a Gaussian"),
    "xclr": Place("cosine", "softmax", "cross-entropy with similarities"),
}
