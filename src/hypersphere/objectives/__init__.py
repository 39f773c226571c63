"""Objectives: one short file per family."""

from hypersphere.objectives.alignment_uniformity import AlignUniform
from hypersphere.objectives.anchors import CLOA
from hypersphere.objectives.base import Objective, PairwiseObjective
from hypersphere.objectives.decoupled import DCLW
from hypersphere.objectives.infonce import InfoNCE, NTXent
from hypersphere.objectives.kernel import KCL
from hypersphere.objectives.modified import ModifiedBarlow, ModifiedMHE
from hypersphere.objectives.paradigm import Paradigm
from hypersphere.objectives.registry import create_objective, list_objectives, register
from hypersphere.objectives.settings import anything, choice, flag, number
from hypersphere.objectives.siglip import SigLIP
from hypersphere.objectives.supervised import SupCon
from hypersphere.objectives.triplet import MET

__all__ = [
    "CLOA",
    "DCLW",
    "KCL",
    "MET",
    "AlignUniform",
    "InfoNCE",
    "ModifiedBarlow",
    "ModifiedMHE",
    "NTXent",
    "Objective",
    "PairwiseObjective",
    "Paradigm",
    "SigLIP",
    "SupCon",
    "anything",
    "choice",
    "create_objective",
    "flag",
    "list_objectives",
    "number",
    "register",
]
