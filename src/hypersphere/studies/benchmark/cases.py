"""The measured cases: every registered objective, with its plain form if there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hypersphere.names import did_you_mean
from hypersphere.objectives import Objective, create_objective, files, list_objectives
from hypersphere.objectives.registry import objective_class, with_file
from hypersphere.studies.benchmark import plain

CLASSES = 100
OURS, PLAIN, LIMIT = "hypersphere", "plain", "limit"  # contestants; all others are peers
Plain = Callable[[Any, Tensor, Tensor, Tensor], Tensor]  # objective, z1, z2, labels


@dataclass(frozen=True)
class Case:
    """One objective with its settings. ``elementwise``: the expensive function it applies to every similarity."""

    label: str
    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    plain: Plain | None = None
    elementwise: str | None = None

    def create(self, dim: int) -> Objective:
        needed = {"num_classes": min(CLASSES, dim), "dim": dim}
        settings = {key: value for key, value in needed.items() if key in objective_class(self.name).settings()}
        return create_objective(self.name, **{**settings, **self.settings})


NAMED = (
    Case("infonce", "infonce", plain=lambda o, a, b, y: plain.infonce(a, b)),
    Case("infonce symmetric", "infonce", {"symmetric": True}, lambda o, a, b, y: plain.infonce_symmetric(a, b)),
    Case("ntxent", "ntxent", plain=lambda o, a, b, y: plain.ntxent(a, b)),
    Case("supcon", "supcon", plain=lambda o, a, b, y: plain.supcon(a, b, y)),
    Case("dclw", "dclw", plain=lambda o, a, b, y: plain.dclw(a, b)),
    Case("dcl both", "dcl", {"negatives": "both", "temperature": 0.1}, lambda o, a, b, y: plain.dcl_both(a, b)),
    Case("met", "met", plain=lambda o, a, b, y: plain.met(a, b)),
    Case("align_uniform", "align_uniform", plain=lambda o, a, b, y: plain.align_uniform_same(a, b)),
    Case(
        "align_uniform cross",
        "align_uniform",
        {"pairs": "cross"},
        lambda o, a, b, y: plain.align_uniform_cross(a, b),
    ),
    Case("kcl", "kcl", plain=lambda o, a, b, y: plain.kcl_gaussian(a, b)),
    Case("kcl log", "kcl", {"kernel": "log"}, lambda o, a, b, y: plain.kcl_log(a, b), "log1p"),
    Case("siglip", "siglip", {}, lambda o, a, b, y: plain.siglip(a, b, o.temperature, o.bias), "softplus"),
    Case("paradigm", "paradigm", plain=lambda o, a, b, y: plain.paradigm(a, b)),
    Case("mmhe", "mmhe", plain=lambda o, a, b, y: plain.mmhe(a, b)),
    Case("mbarlow", "mbarlow", plain=lambda o, a, b, y: plain.mbarlow(a, b)),
    Case("cloa", "cloa", {"base": "infonce"}, lambda o, a, b, y: plain.cloa(a, b, y, o.anchors)),
    Case("arccon", "arccon", plain=lambda o, a, b, y: plain.arccon(a, b)),
    Case("barlow", "barlow", plain=lambda o, a, b, y: plain.barlow(a, b)),
    Case("dcl", "dcl", plain=lambda o, a, b, y: plain.dcl(a, b)),
    Case("dcl_plus", "dcl_plus", plain=lambda o, a, b, y: plain.dcl_plus(a, b)),
    Case("debiased", "debiased", plain=lambda o, a, b, y: plain.debiased(a, b)),
    Case("dhel", "dhel", plain=lambda o, a, b, y: plain.dhel(a, b)),
    Case("geodesic", "geodesic", plain=lambda o, a, b, y: plain.geodesic(a, b), elementwise="arccos"),
    Case("hyperbolic", "hyperbolic", plain=lambda o, a, b, y: plain.hyperbolic(a, b)),
    Case("mat", "mat", plain=lambda o, a, b, y: plain.mat(a, b)),
    Case("mhe", "mhe", plain=lambda o, a, b, y: plain.mhe(a, b)),
    Case("mhs", "mhs", plain=lambda o, a, b, y: plain.mhs(a, b)),
    Case("mixup", "mixup", plain=lambda o, a, b, y: plain.mixup(a, b)),
    Case("mmhs", "mmhs", plain=lambda o, a, b, y: plain.mmhs(a, b)),
    Case("mpt", "mpt", plain=lambda o, a, b, y: plain.mpt(a, b)),
    Case("mvicreg", "mvicreg", plain=lambda o, a, b, y: plain.mvicreg(a, b)),
    Case("spectral", "spectral", plain=lambda o, a, b, y: plain.spectral(a, b)),
    Case("sigreg", "sigreg", plain=lambda o, a, b, y: plain.sigreg(a, b, o.directions(a.shape[1]))),
    Case("vicreg", "vicreg", plain=lambda o, a, b, y: plain.vicreg(a, b)),
    Case("cosent", "cosent", plain=lambda o, a, b, y: plain.cosent(a, b, y)),
    Case("visreg", "visreg", plain=lambda o, a, b, y: plain.visreg(a, b, o.directions(a.shape[1]))),
    Case("wasserstein", "wasserstein", plain=lambda o, a, b, y: plain.wasserstein(a, b)),
    Case("mmcr", "mmcr", plain=lambda o, a, b, y: plain.mmcr(a, b)),
    Case("frossl", "frossl", plain=lambda o, a, b, y: plain.frossl(a, b)),
    Case("koleo", "koleo", plain=lambda o, a, b, y: plain.koleo(a, b)),
    Case("gor", "gor", plain=lambda o, a, b, y: plain.gor(a, b)),
    Case("plus", "plus", plain=lambda o, a, b, y: plain.plus(a, b)),
    Case("macl", "macl", plain=lambda o, a, b, y: plain.macl(a, b)),
    Case("artanh_infonce", "artanh_infonce", plain=lambda o, a, b, y: plain.artanh_infonce(a, b)),
    Case("ntce", "ntce", plain=lambda o, a, b, y: plain.prototypes(a, b, y, o.prototypes, o.temperature, True)),
    Case("nonl", "nonl", plain=lambda o, a, b, y: plain.prototypes(a, b, y, o.prototypes, o.temperature, False)),
    Case("sphere_jepa", "sphere_jepa", plain=lambda o, a, b, y: plain.sphere_jepa(a, b)),
    Case("xclr", "xclr", plain=lambda o, a, b, y: plain.xclr(a, b, a.detach())),
    Case("mv_infonce", "mv_infonce", plain=lambda o, a, b, y: plain.mv_infonce(a, b)),
    Case("mv_dhel", "mv_dhel", plain=lambda o, a, b, y: plain.mv_dhel(a, b)),
    Case("pairwise", "pairwise", plain=lambda o, a, b, y: plain.infonce(a, b)),
    Case("guided", "guided", plain=lambda o, a, b, y: plain.guided(a, b, a.detach())),
    Case("triplet", "triplet", plain=lambda o, a, b, y: plain.met(a, b)),
)


def cases() -> list[Case]:
    """The cases above, then every other registered objective with its defaults and no plain form."""
    known = {case.label for case in NAMED}  # with its defaults a case is labelled as its objective
    return [*NAMED, *(Case(name, name) for name in list_objectives() if name not in known)]


def find_case(label: str) -> Case:
    return own_case(label) or next(case for case in cases() if case.label == label)


def own_case(name: str) -> Case | None:
    """The case of an objective in the user's own file, ``mine.py:name``; None for any other."""
    return Case(name, name) if files.split(name) else None


def source_of(case: Case) -> str | None:
    """SHA-256 of the user's file that defines the objective; None for an objective of the package."""
    parts = files.split(with_file(case.name))
    return None if parts is None else files.fingerprint(parts[0])


def chosen(only: Sequence[str] | None, known: Sequence[Case]) -> list[Case]:
    """The cases with these labels or objectives, including objectives in files; all known cases if none is named."""
    known = [*known, *(case for name in dict.fromkeys(only or ()) if (case := own_case(name)))]
    for name in only or ():
        if not any(name in (case.label, case.name) for case in known):
            labels = [case.label for case in known]
            raise ValueError(f"there is no case {name!r}{did_you_mean(name, labels)} (there are {', '.join(labels)}).")
    return [case for case in known if not only or case.label in only or case.name in only]


def inputs(size: int, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Two views (N, D) whose positives are closer than chance, in float32, and labels (N,)."""
    generator = torch.Generator().manual_seed(0)
    z1 = torch.randn(size, dim, generator=generator)
    z2 = torch.randn(size, dim, generator=generator).add_(z1)
    labels = torch.randint(min(CLASSES, dim), (size,), generator=generator)
    return z1.requires_grad_(), z2.requires_grad_(), labels


def as_loss(objective: Objective) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The objective as a function of two views and labels; labels are the scores of an objective of graded pairs, and
    the first view is the guide of an objective that needs one."""
    if "scores" in objective.takes:
        return lambda z1, z2, labels: objective(z1, z2, scores=labels.to(z1.dtype))
    if "guide" in objective.needs:
        return lambda z1, z2, labels: objective(z1, z2, labels, guide=z1.detach())
    return objective


def step(loss: Callable[[Tensor, Tensor, Tensor], Tensor], z1: Tensor, z2: Tensor, labels: Tensor) -> None:
    """One forward and backward pass."""
    loss(z1, z2, labels).backward()
    z1.grad = z2.grad = None
