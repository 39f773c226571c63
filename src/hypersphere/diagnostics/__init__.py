"""What embeddings look like on the sphere, in numbers and in words."""

from hypersphere.diagnostics.diagnose import diagnose
from hypersphere.diagnostics.diagnosis import Diagnosis, Finding
from hypersphere.diagnostics.measures import (
    Cosines,
    alignment,
    cosines,
    effective_rank,
    participation_ratio,
    singular_values,
    total_variance,
    uniformity,
    wasserstein_uniformity,
)

__all__ = [
    "Cosines",
    "Diagnosis",
    "Finding",
    "alignment",
    "cosines",
    "diagnose",
    "effective_rank",
    "participation_ratio",
    "singular_values",
    "total_variance",
    "uniformity",
    "wasserstein_uniformity",
]
