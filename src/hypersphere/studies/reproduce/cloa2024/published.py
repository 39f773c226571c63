"""Tables 3 and 4 of Li and Pimentel-Alarcón 2024 (arXiv 2403.18699v1) as published, and the text's claims on them."""

from __future__ import annotations

SHARES = (0.1, 0.5, 1.0)  # of the labels, for the classifier

# Phases of the learning rate on CIFAR-10: lowest and highest rate of each.
PHASES = {"not learning": (1e-7, 1e-5), "mild": (1e-4, 1e-3), "collapse": (1e-2, 1.0)}

# CIFAR-10, ResNet-18: top-1 in per cent at each share of the labels, of a base (False) and with anchors (True).
TABLE3: dict[tuple[str, bool], tuple[float, ...]] = {
    ("InfoNCE", False): (31.47, 40.71, 43.82),
    ("InfoNCE", True): (68.56, 69.39, 70.09),
    ("DCL", False): (35.14, 42.88, 48.84),
    ("DCL", True): (65.21, 66.34, 67.93),
    ("Barlow Twins", False): (41.48, 50.24, 53.87),
    ("Barlow Twins", True): (67.62, 69.69, 69.95),
    ("VICReg", False): (41.97, 46.74, 52.36),
    ("VICReg", True): (66.34, 67.34, 69.08),
}

# Gains in points that the text gives for each share, lowest and highest of the four bases.
GAINS = {0.1: (25, 37), 0.5: (19, 24), 1.0: (16, 27)}

# CIFAR-100, ResNet-50: (top-1, top-5) in per cent at each share of the labels.
TABLE4: dict[tuple[str, bool], tuple[tuple[float, float], ...]] = {
    ("InfoNCE", False): ((2.79, 7.82), (5.78, 10.05), (7.78, 13.46)),
    ("InfoNCE", True): ((2.38, 11.08), (4.47, 24.01), (23.43, 35.14)),
    ("DCL", False): ((2.20, 6.28), (2.24, 9.77), (6.35, 10.36)),
    ("DCL", True): ((2.46, 6.49), (8.22, 20.13), (22.08, 31.23)),
    ("Barlow Twins", False): ((1.60, 1.60), (1.65, 1.65), (1.79, 1.79)),
    ("Barlow Twins", True): ((1.36, 5.43), (1.59, 6.61), (5.31, 9.88)),
    ("VICReg", False): ((3.32, 8.85), (5.94, 10.84), (8.28, 14.59)),
    ("VICReg", True): ((1.88, 8.25), (4.70, 11.93), (5.89, 12.15)),
}
RATES4 = {False: 1e-2, True: 1.0}  # the learning rates of Table 4, without and with anchors


def gains3(share: float) -> list[float]:
    """The gains in points in Table 3 itself, one for each base.

    >>> [round(gain, 1) for gain in sorted(gains3(0.5))]
    [19.4, 20.6, 23.5, 28.7]
    """
    index = SHARES.index(share)
    return [TABLE3[base, True][index] - TABLE3[base, False][index] for base, anchors in TABLE3 if anchors]


def cells4() -> tuple[int, int]:
    """Numbers of cells of Table 4 in which anchors are better, and worse.

    >>> cells4()
    (15, 9)
    """
    changes = [
        with_anchors - alone
        for base, anchors in TABLE4 if anchors
        for first, second in zip(TABLE4[base, True], TABLE4[base, False], strict=True)
        for with_anchors, alone in zip(first, second, strict=True)
    ]  # fmt: skip
    return sum(change > 0 for change in changes), sum(change < 0 for change in changes)
