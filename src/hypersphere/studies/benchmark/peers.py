"""The same objectives computed by other libraries, with the settings that make them equal to ours.

A peer takes part if it is installed. lightly needs a torchvision that fits its torch, so it may be installed in an
environment of its own (``benchmarks/peers_env`` makes one).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # z1, z2, labels


def _instances(z: Tensor) -> Tensor:
    return torch.arange(len(z))


def _stacked_views(loss: Any) -> Loss:
    """For losses of labelled rows: the label is the instance."""
    return lambda z1, z2, labels: loss(torch.cat([z1, z2]), _instances(z1).repeat(2))


def _metric_learning(name: str, **settings: Any) -> Any:
    return getattr(import_module("pytorch_metric_learning.losses"), name)(**settings)


def _anchors_to_keys(loss: Any, miner: Any = None) -> Loss:
    """For pytorch-metric-learning: rows of the first view against those of the second."""

    def of_views(z1: Tensor, z2: Tensor, labels: Tensor) -> Tensor:
        own, other = _instances(z1), _instances(z2)  # two tensors: the loss distinguishes them by identity
        value: Tensor = loss(z1, own, miner and miner(z1, own, z2, other), z2, other)
        return value

    return of_views


def _nearest_triplet(margin: float, distance: str) -> Loss:
    library = "pytorch_metric_learning."
    measure = getattr(import_module(library + "distances"), distance)()
    mean = import_module(library + "reducers").MeanReducer()
    hardest = import_module(library + "miners").BatchHardMiner(distance=measure)
    return _anchors_to_keys(
        _metric_learning("TripletMarginLoss", margin=margin, distance=measure, reducer=mean), hardest
    )


def _supcon() -> Loss:
    loss = _metric_learning("SupConLoss", temperature=0.1)
    return lambda z1, z2, labels: loss(torch.cat([z1, z2]), labels.repeat(2))


def _metric_learning_vicreg() -> Loss:
    loss = _metric_learning("VICRegLoss")
    return lambda z1, z2, labels: loss(z1, ref_emb=z2)


def _info_nce() -> Loss:
    loss = import_module("info_nce").InfoNCE(temperature=0.05)
    return lambda z1, z2, labels: loss(z1, z2)


def _multiple_negatives_ranking() -> Loss:
    """Only the computation after the encoder."""
    try:
        losses = import_module("sentence_transformers.sentence_transformer.losses")
    except ImportError:  # before version 5.4
        losses = import_module("sentence_transformers.losses")
    loss = losses.MultipleNegativesRankingLoss(model=None, scale=20.0)
    return lambda z1, z2, labels: loss.compute_loss_from_embeddings([z1, z2], labels)


def lightly_loss(name: str, factor: float = 1.0, module: str = "", **settings: Any) -> Loss:
    loss = getattr(import_module(f"lightly.loss{module}"), name)(**settings)
    return lambda z1, z2, labels: loss(z1, z2) if factor == 1 else factor * loss(z1, z2)


# Package on the index, module to import, and a factory of the loss for each shared case, by label.
PEERS: dict[str, tuple[str, dict[str, Callable[[], Loss]]]] = {
    "pytorch-metric-learning": (
        "pytorch_metric_learning",
        {
            "infonce": lambda: _anchors_to_keys(_metric_learning("NTXentLoss", temperature=0.05)),
            "ntxent": lambda: _stacked_views(_metric_learning("NTXentLoss", temperature=0.5)),
            "supcon": _supcon,
            "met": lambda: _nearest_triplet(0.45, "LpDistance"),
            "mpt": lambda: _nearest_triplet(0.23, "CosineSimilarity"),
            "vicreg": _metric_learning_vicreg,
        },
    ),
    "info-nce-pytorch": ("info_nce", {"infonce": _info_nce}),
    "sentence-transformers": ("sentence_transformers", {"infonce": _multiple_negatives_ranking}),
    "lightly": (
        "lightly",
        {
            "ntxent": lambda: lightly_loss("NTXentLoss", temperature=0.5),
            "dcl both": lambda: lightly_loss("DCLLoss", temperature=0.1),
            "dclw": lambda: lightly_loss("DCLWLoss", temperature=0.1, sigma=0.5),
            "barlow": lambda: lightly_loss("BarlowTwinsLoss", lambda_param=0.0051),
            "vicreg": lambda: lightly_loss("VICRegLoss"),
            # It weighs alignment and uniformity 1 and 1, we 1/2 and 1/2.
            "align_uniform": lambda: lightly_loss(
                "HypersphereLoss", 0.5, ".hypersphere_loss", t=2.0, lam=1.0, alpha=2.0
            ),
        },
    ),
}


def peers_of(label: str) -> list[str]:
    """The peers that compute the same objective."""
    return [peer for peer, (_, shared) in PEERS.items() if label in shared]


def peer_loss(peer: str, label: str) -> Loss:
    return PEERS[peer][1][label]()


def peers_environment() -> Path | None:
    """The interpreter that benchmarks/peers_env made, when this package runs from a checkout."""
    import hypersphere

    made = Path(hypersphere.__file__).parents[2] / "benchmarks" / "peers_env" / "venv"
    return next((path for path in (made / "bin" / "python", made / "Scripts" / "python.exe") if path.exists()), None)


def available_peers(lightly_python: Path | None) -> tuple[dict[str, str], dict[str, str]]:
    """The measurable peers with the interpreter of each, and the other peers with the reason."""
    pythons, absent = {}, {}
    for peer, (module, _) in PEERS.items():
        if find_spec(module) is not None:
            pythons[peer] = sys.executable
        else:
            absent[peer] = f"{peer} is not installed"
    elsewhere = lightly_python or peers_environment()
    if elsewhere is not None and ("lightly" in absent or lightly_python is not None):
        command = [str(elsewhere), "-c", "import lightly.loss, hypersphere.studies.benchmark.worker"]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        absent.pop("lightly", None)
        if done.returncode == 0:
            pythons["lightly"] = str(elsewhere)
        else:
            why = done.stderr.strip().splitlines()[-1:] or ["it ends without a word"]
            absent["lightly"] = f"its environment cannot import lightly and hypersphere ({why[0]})"
    elif "lightly" in absent:
        absent["lightly"] += ", and there is no environment for it (benchmarks/peers_env makes one)"
    return pythons, absent
