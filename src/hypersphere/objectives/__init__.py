"""Objectives: one short file per family."""

from hypersphere.objectives import released
from hypersphere.objectives.adaptive import MACL
from hypersphere.objectives.alignment_uniformity import AlignUniform
from hypersphere.objectives.anchors import CLOA
from hypersphere.objectives.base import FeatureObjective, Objective, PairwiseObjective, within
from hypersphere.objectives.covariance import Barlow, VICReg
from hypersphere.objectives.decoupled import DCL, DCLW, DCLPlus
from hypersphere.objectives.energy import DHEL, MHE, MHS, KoLeo, Spectral
from hypersphere.objectives.graded import CoSENT
from hypersphere.objectives.guided import Guided
from hypersphere.objectives.hardest import HardestObjective
from hypersphere.objectives.hyperbolic import Hyperbolic
from hypersphere.objectives.infonce import ArcCon, Debiased, Geodesic, InfoNCE, NTXent
from hypersphere.objectives.kernel import KCL
from hypersphere.objectives.logsumexp import LogSumObjective
from hypersphere.objectives.mixup import Mixup
from hypersphere.objectives.modified import ModifiedBarlow, ModifiedMHE, ModifiedMHS, ModifiedVICReg
from hypersphere.objectives.multiview import MultiViewDHEL, MultiViewInfoNCE, Pairwise
from hypersphere.objectives.orthogonal import GOR
from hypersphere.objectives.paradigm import Paradigm
from hypersphere.objectives.plus import Plus
from hypersphere.objectives.presets import list_presets
from hypersphere.objectives.prototypes import NONL, NTCE
from hypersphere.objectives.registry import create_objective, list_objectives, register
from hypersphere.objectives.settings import anything, choice, flag, number
from hypersphere.objectives.siglip import SigLIP
from hypersphere.objectives.sigreg import SIGReg
from hypersphere.objectives.soft import XCLR
from hypersphere.objectives.spectrum import MMCR, FroSSL, Wasserstein
from hypersphere.objectives.sphere_jepa import SphereJEPA
from hypersphere.objectives.supervised import SupCon
from hypersphere.objectives.temperature_free import ArtanhInfoNCE
from hypersphere.objectives.triplet import MAT, MET, MPT, Triplet
from hypersphere.objectives.visreg import VISReg

__all__ = [
    "CLOA",
    "DCL",
    "DCLW",
    "DHEL",
    "GOR",
    "KCL",
    "MACL",
    "MAT",
    "MET",
    "MHE",
    "MHS",
    "MMCR",
    "MPT",
    "NONL",
    "NTCE",
    "XCLR",
    "AlignUniform",
    "ArcCon",
    "ArtanhInfoNCE",
    "Barlow",
    "CoSENT",
    "DCLPlus",
    "Debiased",
    "FeatureObjective",
    "FroSSL",
    "Geodesic",
    "Guided",
    "HardestObjective",
    "Hyperbolic",
    "InfoNCE",
    "KoLeo",
    "LogSumObjective",
    "Mixup",
    "ModifiedBarlow",
    "ModifiedMHE",
    "ModifiedMHS",
    "ModifiedVICReg",
    "MultiViewDHEL",
    "MultiViewInfoNCE",
    "NTXent",
    "Objective",
    "Pairwise",
    "PairwiseObjective",
    "Paradigm",
    "Plus",
    "SIGReg",
    "SigLIP",
    "Spectral",
    "SphereJEPA",
    "SupCon",
    "Triplet",
    "VICReg",
    "VISReg",
    "Wasserstein",
    "anything",
    "choice",
    "create_objective",
    "flag",
    "list_objectives",
    "list_presets",
    "number",
    "register",
    "released",
    "within",
]
