"""Why a loss behaves as it does: its gradient taken apart into dissipation, weight and ratio."""

from hypersphere.anatomy.advice import Advice, advise
from hypersphere.anatomy.anatomy import Anatomy
from hypersphere.anatomy.closed_forms import Components, closed_form, form_settings, list_closed_forms
from hypersphere.anatomy.coefficients import Coefficients
from hypersphere.anatomy.dissect import dissect
from hypersphere.anatomy.evidence import Evidence, Weights, find_evidence
from hypersphere.anatomy.lemma import ratio_interval
from hypersphere.anatomy.simulation import AngleGrid, hardest_share, mean_dissipation, simulate

__all__ = [
    "Advice",
    "Anatomy",
    "AngleGrid",
    "Coefficients",
    "Components",
    "Evidence",
    "Weights",
    "advise",
    "closed_form",
    "dissect",
    "find_evidence",
    "form_settings",
    "hardest_share",
    "list_closed_forms",
    "mean_dissipation",
    "ratio_interval",
    "simulate",
]
