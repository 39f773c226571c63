"""What a paper prints, or its authors' code computes, where that differs from the mathematics.

Named ``released/NAME`` (the authors' code) and ``printed/NAME`` (a misprint, taken literally) after the objective that
is right. They are for comparisons with published numbers; ``docs/errata.md`` has the misprints by number.
"""

from hypersphere.objectives.released.alignment_uniformity import ReleasedAlignUniform
from hypersphere.objectives.released.anchors import ReleasedCLOA
from hypersphere.objectives.released.kernel import ReleasedKCL
from hypersphere.objectives.released.mixcse import MixCSE
from hypersphere.objectives.released.modified import (
    ReleasedModifiedBarlow,
    ReleasedModifiedMHE,
    ReleasedModifiedMHS,
    ReleasedModifiedVICReg,
)
from hypersphere.objectives.released.paradigm import ReleasedParadigm
from hypersphere.objectives.released.printed import (
    PrintedModifiedBarlow,
    PrintedModifiedMHE,
    PrintedModifiedMHS,
    PrintedTriplet,
)
from hypersphere.objectives.released.sphere_jepa import PrintedSphereJEPA
from hypersphere.objectives.released.triplet import ReleasedMAT, ReleasedMET, ReleasedMPT
from hypersphere.objectives.released.whole import WholeObjective

__all__ = [
    "MixCSE",
    "PrintedModifiedBarlow",
    "PrintedModifiedMHE",
    "PrintedModifiedMHS",
    "PrintedSphereJEPA",
    "PrintedTriplet",
    "ReleasedAlignUniform",
    "ReleasedCLOA",
    "ReleasedKCL",
    "ReleasedMAT",
    "ReleasedMET",
    "ReleasedMPT",
    "ReleasedModifiedBarlow",
    "ReleasedModifiedMHE",
    "ReleasedModifiedMHS",
    "ReleasedModifiedVICReg",
    "ReleasedParadigm",
    "WholeObjective",
]
