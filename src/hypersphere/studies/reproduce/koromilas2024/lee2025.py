"""Third-party numbers: SimCLR, DCL and DHEL over batch sizes, measured by Lee et al. 2025.

Source: "On the similarities of embeddings in contrastive learning", Figure 4, read by machine from a bar chart:
approximate. KCL is not among them.
"""

from __future__ import annotations

from typing import Any

from hypersphere.figures.accuracy import Curve
from hypersphere.studies.reproduce.koromilas2024.accuracies import NAMES

SOURCE = "Lee et al. 2025, Figure 4 (third party, read from a bar chart)"
BATCHES = (32, 64, 128, 256, 512)
TOP1: dict[str, dict[str, tuple[float, ...]]] = {
    "CIFAR-10": {
        "ntxent": (86.4, 87.7, 88.0, 88.2, 88.5),
        "dcl": (87.0, 87.9, 88.4, 88.7, 88.6),
        "dhel": (86.0, 87.5, 88.4, 88.5, 88.6),
    },
    "CIFAR-100": {
        "ntxent": (55.7, 58.1, 58.6, 59.7, 59.4),
        "dcl": (59.0, 60.7, 61.7, 61.4, 61.0),
        "dhel": (56.3, 59.7, 61.2, 61.7, 60.9),
    },
}


def rows() -> list[dict[str, Any]]:
    return [
        {"data": data, "objective": NAMES[name], "batch": batch, "top1": top1, "source": SOURCE}
        for data, objectives in TOP1.items()
        for name, values in objectives.items()
        for batch, top1 in zip(BATCHES, values, strict=True)
    ]


def curves() -> dict[str, list[Curve]]:
    none = float("nan")
    return {
        f"Lee et al. 2025, {data}": [
            Curve(NAMES[name], [(batch, top1, none, none) for batch, top1 in zip(BATCHES, values, strict=True)])
            for name, values in objectives.items()
        ]
        for data, objectives in TOP1.items()
    }


def spread(data: str, name: str) -> float:
    """Best minus worst batch size.

    >>> round(spread("CIFAR-10", "dhel"), 1), round(spread("CIFAR-10", "ntxent"), 1)
    (2.6, 2.1)
    """
    values = TOP1[data][name]
    return max(values) - min(values)


def about_dhel() -> str:
    """DHEL against SimCLR, at the smallest batch and best minus worst."""
    smallest = "; ".join(f"{data} {each['dhel'][0]} against {each['ntxent'][0]}" for data, each in TOP1.items())
    spreads = "; ".join(f"{data} {spread(data, 'dhel'):.1f} against {spread(data, 'ntxent'):.1f}" for data in TOP1)
    return (
        f"Lee et al. 2025 (third party, approximate) have DHEL against SimCLR at a batch of {BATCHES[0]}: {smallest}; "
        f"best minus worst batch size: {spreads}"
    )
