"""The set-ups of other libraries that compute one of our objectives, with the settings that make both equal.

A loss is built in the process that calls it, so that it can ask for its rank. Some packages import torchvision,
Lightning or a fixed version of transformers at their top; of those, only the modules of the losses are executed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import normalize

from hypersphere.studies.benchmark.peers import Loss, lightly_loss, peer_loss

SCALE = 20.0  # 1 / temperature of our infonce


@dataclass(frozen=True)
class Setup:
    """One loss of a peer. ``case``: the objective it is equal to, as the benchmark labels it. ``options``: the settings
    that distinguish this set-up, as the peer's user writes them. ``gathers``: several processes share one batch."""

    case: str
    build: Callable[[], Loss]
    options: str = ""
    gathers: bool = False


@dataclass(frozen=True)
class Peer:
    """A library. ``apart``: it needs an environment of its own, which benchmarks/peers_env makes."""

    module: str
    setups: tuple[Setup, ...]
    apart: bool = False


def rank_and_size() -> tuple[int, int]:
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def bare(*packages: str) -> None:
    """Makes the modules of packages importable without executing the packages' own ``__init__``."""
    for name in packages:
        spec = find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name not in sys.modules:
            sys.modules[name] = module_from_spec(spec)


def _wrapped(name: str, efficient: bool, labelled: bool = False, **settings: Any) -> Loss:
    """pytorch-metric-learning's wrapper of a loss of labelled rows; the label is the instance unless ``labelled``."""
    loss = getattr(import_module("pytorch_metric_learning.losses"), name)(**settings)
    wrapper = import_module("pytorch_metric_learning.utils.distributed").DistributedLossWrapper(loss, efficient)

    def of_views(z1: Tensor, z2: Tensor, labels: Tensor) -> Tensor:
        instances = torch.arange(len(z1)) + rank_and_size()[0] * len(z1)
        value: Tensor = wrapper(torch.cat([z1, z2]), (labels if labelled else instances).repeat(2))
        return value

    return of_views


def _wrapped_vicreg() -> Loss:
    loss = import_module("pytorch_metric_learning.losses").VICRegLoss()
    wrapper = import_module("pytorch_metric_learning.utils.distributed").DistributedLossWrapper(loss)
    return lambda z1, z2, labels: wrapper(z1, ref_emb=z2)


def _sentence_transformers() -> Loss:
    losses = import_module("sentence_transformers.sentence_transformer.losses")
    loss = losses.MultipleNegativesRankingLoss(model=None, scale=SCALE, gather_across_devices=True)
    return lambda z1, z2, labels: loss.compute_loss_from_embeddings([z1, z2], labels)


class _OpenClip(nn.Module):
    """A loss of open_clip with the scale and the bias that its model owns."""

    def __init__(self, name: str, scale: float, bias: float | None = None, **options: Any) -> None:
        super().__init__()
        bare("open_clip")
        rank, size = rank_and_size()
        self.loss = getattr(import_module("open_clip.loss"), name)(rank=rank, world_size=size, **options)
        self.scale = nn.Parameter(torch.tensor(scale))
        self.bias = None if bias is None else nn.Parameter(torch.tensor(bias))

    def forward(self, z1: Tensor, z2: Tensor, labels: Tensor) -> Tensor:
        value: Tensor = self.loss(normalize(z1), normalize(z2), self.scale, self.bias)
        return value


def _solo(module: str, name: str, **settings: Any) -> Loss:
    bare("solo", "solo.losses")
    loss = getattr(import_module(f"solo.losses.{module}"), name)
    return lambda z1, z2, labels: loss(z1, z2, **settings)


def _stable_pretraining(module: str, name: str, *settings: Any) -> Loss:
    bare("stable_pretraining", "stable_pretraining.utils", "stable_pretraining.losses")
    utils, distributed = (import_module(f"stable_pretraining.utils{part}") for part in ("", ".distributed"))
    for each in ("all_gather", "all_reduce", "get_rank", "get_world_size"):
        setattr(utils, each, getattr(distributed, each))
    loss = getattr(import_module(f"stable_pretraining.losses.{module}"), name)(*settings)
    return lambda z1, z2, labels: loss(z1, z2)


def _dot_products(module: str, **settings: Any) -> Loss:
    """GradCache's and tevatron's loss of dot products; the class for several processes refuses to run on one."""
    losses = import_module(module)
    loss = losses.DistributedContrastiveLoss(**settings) if dist.is_initialized() else losses.SimpleContrastiveLoss()
    return lambda z1, z2, labels: loss(SCALE * normalize(z1), normalize(z2))


def _simcse() -> Loss:
    """SimCSE's loss stands in the forward of its model, which gets an encoder that returns our rows."""
    bare("simcse")
    models = import_module("simcse.models")
    settings = SimpleNamespace(pooler_type="cls_before_pooler")

    def of_views(z1: Tensor, z2: Tensor, labels: Tensor) -> Tensor:
        rows = torch.stack([z1, z2], dim=1).flatten(0, 1).unsqueeze(1)  # (2B, 1 token, D)
        outputs = SimpleNamespace(last_hidden_state=rows, pooler_output=None, hidden_states=None, attentions=None)
        model = SimpleNamespace(
            model_args=settings,
            pooler_type=settings.pooler_type,
            pooler=models.Pooler(settings.pooler_type),
            sim=models.Similarity(1 / SCALE),
            training=True,
            device=z1.device,
        )
        tokens = torch.ones(len(z1), 2, 1, dtype=torch.long)
        value: Tensor = models.cl_forward(model, lambda *_, **__: outputs, tokens, tokens, return_dict=True).loss
        return value

    return of_views


def _shared(peer: str, *cases: str) -> list[Setup]:
    """The set-ups that the benchmark measures too."""
    return [Setup(case, partial(peer_loss, peer, case)) for case in cases]


def _gathered(case: str, options: str, build: Callable[..., Loss], *args: Any, **settings: Any) -> Setup:
    return Setup(case, partial(build, *args, **settings), options, gathers=True)


def _open_clip_options() -> list[Setup]:
    return [
        _gathered(
            "infonce symmetric",
            f"ClipLoss(local_loss={local}, gather_with_grad={grad})",
            partial(_OpenClip, "ClipLoss", SCALE, local_loss=local, gather_with_grad=grad),
        )
        for local in (False, True)
        for grad in (False, True)
    ]


PEERS: dict[str, Peer] = {
    "pytorch-metric-learning": Peer(
        "pytorch_metric_learning",
        (
            *_shared("pytorch-metric-learning", "infonce", "ntxent", "supcon", "met", "mpt", "vicreg"),
            *(
                _gathered(case, f"DistributedLossWrapper({loss}, efficient={efficient})", build, efficient=efficient)
                for efficient in (False, True)
                for case, loss, build in (
                    ("ntxent", "NTXentLoss", partial(_wrapped, "NTXentLoss", temperature=0.5)),
                    ("supcon", "SupConLoss", partial(_wrapped, "SupConLoss", temperature=0.1, labelled=True)),
                )
            ),
            _gathered("vicreg", "DistributedLossWrapper(VICRegLoss)", _wrapped_vicreg),
        ),
    ),
    "info-nce-pytorch": Peer("info_nce", tuple(_shared("info-nce-pytorch", "infonce"))),
    "sentence-transformers": Peer(
        "sentence_transformers",
        (
            *_shared("sentence-transformers", "infonce"),
            _gathered(
                "infonce",
                "MultipleNegativesRankingLoss(gather_across_devices=True)",
                _sentence_transformers,
            ),
        ),
    ),
    "lightly": Peer(
        "lightly",
        (
            *_shared("lightly", "ntxent", "dcl both", "dclw", "barlow", "vicreg", "align_uniform"),
            *(
                _gathered(case, f"{name}(gather_distributed=True)", lightly_loss, name, gather_distributed=True, **more)
                for case, name, more in (
                    ("ntxent", "NTXentLoss", {"temperature": 0.5}),
                    ("dcl both", "DCLLoss", {"temperature": 0.1}),
                    ("dclw", "DCLWLoss", {"temperature": 0.1}),
                    ("barlow", "BarlowTwinsLoss", {"lambda_param": 0.0051}),
                    ("vicreg", "VICRegLoss", {}),
                )
            ),
        ),
        apart=True,
    ),
    "open_clip_torch": Peer(
        "open_clip",
        (
            *_open_clip_options(),
            *(
                _gathered(
                    "siglip", f"SigLipLoss(dist_impl={how!r})", _OpenClip, "SigLipLoss", 10.0, -10.0, dist_impl=how
                )
                for how in ("bidir", "shift", "reduce", "gather")
            ),
        ),
        apart=True,
    ),
    "solo-learn": Peer(
        "solo",
        (
            Setup("ntxent", partial(_solo, "simclr", "simclr_loss_func", temperature=0.5), "simclr_loss_func"),
            _gathered(
                "barlow",
                "barlow_loss_func(scale_loss=1)",
                _solo,
                "barlow",
                "barlow_loss_func",
                lamb=0.0051,
                scale_loss=1,
            ),
            Setup("vicreg", partial(_solo, "vicreg", "vicreg_loss_func"), "vicreg_loss_func"),
            Setup(
                "vicreg",
                partial(_solo, "vicreg", "vicreg_loss_func", var_loss_weight=12.5),
                "vicreg_loss_func(var_loss_weight=12.5)",
            ),
        ),
        apart=True,
    ),
    "stable-pretraining": Peer(
        "stable_pretraining",
        (
            _gathered("ntxent", "NTXEntLoss", _stable_pretraining, "joint_embedding", "NTXEntLoss", 0.5),
            _gathered("infonce symmetric", "CLIPLoss", _stable_pretraining, "multimodal", "CLIPLoss", 1 / SCALE),
            _gathered("barlow", "BarlowTwinsLoss", _stable_pretraining, "joint_embedding", "BarlowTwinsLoss", 0.0051),
            _gathered("vicreg", "VICRegLoss", _stable_pretraining, "joint_embedding", "VICRegLoss"),
        ),
        apart=True,
    ),
    "GradCache": Peer(
        "gradcache",
        (_gathered("infonce", "DistributedContrastiveLoss", _dot_products, "gradcache.loss"),),
        apart=True,
    ),
    "tevatron": Peer(
        "tevatron",
        tuple(
            _gathered(
                "infonce",
                f"DistributedContrastiveLoss(scale_loss={scaled})",
                _dot_products,
                "tevatron.loss",
                n_target=1,
                scale_loss=scaled,
            )
            for scaled in (True, False)
        ),
        apart=True,
    ),
    "simcse": Peer("simcse", (_gathered("infonce", "cl_forward", _simcse),), apart=True),
}
